//! A simulated enclave that answers requests; each test file that shares it uses a part.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use attestation::{
    Appraisal, Freshness, HashScheme, ModelIdentity, Policy, SecurityMode, ServiceManifest,
    SignatureMemory, TrustAnchor, UnixMillis, VerifiedAttestation, manifest_binding,
};
use base64ct::{Base64UrlUnpadded, Encoding};
use protocol::bundle::{AuditBundle, BundleError, BundleReport};
use protocol::commitment::{request_hash, response_hash};
use protocol::exchange::{Answer, PendingExchange, begin};
use protocol::inner::{InnerRequest, InnerResponse, unpadded_len};
use protocol::items;
use protocol::ohttp::{GatewayKeys, Opened, ResponseSealer};
use protocol::receipt::{Measurements, Platform, ReceiptClaims, ReceiptSigner};
use protocol::terms::{self, Terms};
use rand_chacha::ChaCha20Rng;
use serde_json::json;

use crate::common::rng;

pub const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
const NONCE: [u8; 32] = [0x77; 32];

/// A minimal gateway; the real one adds admission, replay protection and a model.
pub struct Enclave {
    pub gateway: GatewayKeys,
    pub signer: ReceiptSigner,
    pub manifest: Vec<u8>,
    pub document: Vec<u8>,
    pub policy: Policy,
    pub pcrs: BTreeMap<u8, [u8; 48]>,
    pub rng: ChaCha20Rng,
}

impl Enclave {
    pub fn start(seed: u64) -> Self {
        let mut rng = rng(seed);
        let gateway = GatewayKeys::generate(1, &mut rng);
        let signer = ReceiptSigner::generate(&mut rng);
        let manifest = ServiceManifest {
            version: 1,
            sealing_keys: gateway.configs(),
            receipt_key: signer.public_key(),
            model: ModelIdentity {
                id: "all-MiniLM-L6-v2".into(),
                version: "1".into(),
                sha256: [5; 32],
                hash_scheme: HashScheme::Sha256Manifest,
                dimension: 384,
                max_tokens: 256,
            },
            policy_version: "2026-11-01".into(),
            security_mode: SecurityMode::Evaluation,
            not_before: NOW.seconds() - 60,
            not_after: NOW.seconds() + 3_600,
        };
        let x25519 = manifest.x25519_key().unwrap().to_vec();
        let bytes = manifest.encode().unwrap();
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let mut issuer = forge::Issuer::new(root, &mut rng, NOW.0);
        let contents = forge::Contents {
            public_key: Some(x25519),
            user_data: Some(manifest_binding(&bytes).to_vec()),
            nonce: Some(NONCE.to_vec()),
            ..forge::Contents::example()
        };
        let document = issuer.document(&contents, NOW.0, &mut rng);
        let pinned = contents
            .pcrs
            .iter()
            .filter(|(index, _)| **index < 3)
            .map(|(index, value)| (*index, *value))
            .collect();
        let root = TrustAnchor::development(issuer.root_der()).unwrap();
        let policy = Policy::for_development(root, pinned, &manifest).unwrap();
        Self {
            gateway,
            signer,
            manifest: bytes,
            document,
            policy,
            pcrs: contents.pcrs,
            rng,
        }
    }

    pub fn attested(&self) -> VerifiedAttestation {
        let (report, verified) = Appraisal::of(&self.document)
            .with_manifest(&self.manifest)
            .verify(
                &self.policy,
                Freshness::Live {
                    nonce: &NONCE,
                    now: NOW,
                },
            );
        verified
            .including_simulated()
            .unwrap_or_else(|| panic!("{report:?}"))
    }

    pub fn begin(&mut self) -> (Vec<u8>, PendingExchange) {
        let attested = self.attested();
        begin(&attested, request(), NOW, &mut self.rng).unwrap()
    }

    /// Opens, answers, signs, seals. `change` sees claims and response before they are signed and sealed.
    pub fn answer(
        &mut self,
        sealed: &[u8],
        change: impl FnOnce(&mut ReceiptClaims, &mut InnerResponse),
    ) -> Vec<u8> {
        let opened = self.gateway.open(sealed).unwrap();
        self.reply(opened, change)
    }

    /// Answers a request that was opened already.
    pub fn reply(
        &mut self,
        (opened, sealer): (Opened, ResponseSealer),
        change: impl FnOnce(&mut ReceiptClaims, &mut InnerResponse),
    ) -> Vec<u8> {
        let request = InnerRequest::decode(&opened.inner).unwrap();
        let terms = Terms::read(&request).unwrap();
        let mut response = InnerResponse {
            status: 200,
            headers: vec![("content-type".into(), "application/json".into())],
            content: b"{\"data\":[]}".to_vec(),
        };
        let unpadded = &opened.inner[..unpadded_len(&opened.inner).unwrap()];
        let mut claims = ReceiptClaims {
            issuer: "clearseal".into(),
            issued_at: terms.date.seconds(),
            id: [1; 16],
            nonce: Some(terms.nonce.clone()),
            model_id: "all-MiniLM-L6-v2".into(),
            model_version: "1".into(),
            model_hash: [5; 32],
            model_hash_scheme: Some(HashScheme::Sha256Manifest),
            request_hash: request_hash(unpadded),
            response_hash: response_hash(&terms.salt, &response.content),
            document_hash: terms.document,
            measurements: Measurements {
                platform: Platform::NitroPcr,
                pcr0: self.pcrs[&0],
                pcr1: self.pcrs[&1],
                pcr2: self.pcrs[&2],
                pcr3: None,
                pcr4: Some(self.pcrs[&4]),
                pcr8: None,
            },
            policy_version: "2026-11-01".into(),
            sequence_number: 1,
            execution_time_ms: 5,
            memory_peak_mb: 300,
            security_mode: SecurityMode::Evaluation,
        };
        change(&mut claims, &mut response);
        let receipt = Base64UrlUnpadded::encode_string(&self.signer.sign(&claims));
        if response.header(terms::RECEIPT).is_none() {
            response.headers.push((terms::RECEIPT.into(), receipt));
        }
        response.headers.retain(|(_, value)| value != "absent");
        sealer
            .seal(&response.encode_padded().unwrap(), &mut self.rng)
            .unwrap()
    }

    /// Answers with these vectors, and commits to a tree over them and the request's texts.
    pub fn answer_with_items(&mut self, sealed: &[u8], vectors: &[Vec<f32>]) -> Vec<u8> {
        let (opened, _) = self.gateway.open(sealed).unwrap();
        let request = InnerRequest::decode(&opened.inner).unwrap();
        let salt = Terms::read(&request).unwrap().salt;
        let asked: serde_json::Value = serde_json::from_slice(&request.content).unwrap();
        let texts: Vec<String> = match asked["input"].as_array() {
            Some(texts) => texts
                .iter()
                .map(|text| text.as_str().unwrap().to_owned())
                .collect(),
            None => vec![asked["input"].as_str().unwrap().to_owned()],
        };
        let leaves = (0..)
            .zip(texts.iter().zip(vectors))
            .map(|(index, (text, vector))| {
                let salt = items::item_salt(&salt, index);
                let input = items::input_hash(&salt, items::Input::Text(text));
                let read = items::TokenUsage {
                    tokens: 3,
                    truncated: index == 1,
                };
                items::leaf(index, &input, &items::vector_hash(&salt, vector), read)
            });
        let root = items::root_text(&items::root(leaves));
        let data: Vec<_> = (0..vectors.len())
            .map(|index| {
                json!({
                    "embedding": vectors[index],
                    "clearseal": {"tokens": 3, "truncated": index == 1},
                })
            })
            .collect();
        let content = format!("{}{root}\"}},\"data\":{}}}", items::MARKER, json!(data));
        self.answer(sealed, |claims, response| {
            response.content = content.into_bytes();
            claims.response_hash = response_hash(&salt, &response.content);
        })
    }

    pub fn exchange(&mut self) -> Answer {
        let (sealed, pending) = self.begin();
        let answer = self.answer(&sealed, |_, _| ());
        pending.finish(&answer, NOW).unwrap()
    }

    pub fn bundle(&self, answer: &Answer, with_content: bool) -> AuditBundle {
        let (document, manifest) = (self.document.clone(), self.manifest.clone());
        AuditBundle::of(answer, document, manifest, with_content).unwrap()
    }

    pub fn judge(&self, json: &str) -> Result<BundleReport, BundleError> {
        Ok(
            AuditBundle::from_json(json)?.verify(
                &self.policy,
                || None,
                &mut SignatureMemory::new(),
            ),
        )
    }
}

pub fn request() -> InnerRequest {
    InnerRequest {
        method: "POST".into(),
        path: "/v1/embeddings".into(),
        headers: vec![("content-type".into(), "application/json".into())],
        content: b"{\"input\":\"three short words\"}".to_vec(),
    }
}
