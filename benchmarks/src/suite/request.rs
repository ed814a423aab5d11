//! The cryptography of one request, on both sides, without network and model.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use attestation::{
    Appraisal, Freshness, Kem, Policy, SecurityMode, TrustAnchor, VerifiedAttestation,
};
use base64ct::{Base64UrlUnpadded, Encoding};
use fixtures::enclave::NOW;
use fixtures::receipt::{claims, claims_of, measurements};
use fixtures::{NONCE, attested_contents, keyed_manifest, pins};
use protocol::exchange::begin;
use protocol::inner::{InnerRequest, InnerResponse, unpadded_len};
use protocol::ohttp::GatewayKeys;
use protocol::receipt::{Expectations, ReceiptClaims, ReceiptSigner};
use protocol::terms::{self, Terms};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::client::json;
use super::{Run, number, text};

/// An enclave's keys and evidence, without servers.
pub(crate) struct Enclave {
    gateway: GatewayKeys,
    signer: ReceiptSigner,
    pub(super) manifest: Vec<u8>,
    pub(super) document: Vec<u8>,
    pub(super) policy: Policy,
    pub(super) root: Vec<u8>,
    pcrs: BTreeMap<u8, [u8; 48]>,
    rng: ChaCha20Rng,
}

impl Enclave {
    /// An enclave with the same keys as the released service.
    pub(crate) fn start() -> Result<Self> {
        Self::with_chain_of(forge::GENUINE_CHAIN)
    }

    /// Like [`start`](Self::start), with `certificates` in its document's chain, root included.
    pub(super) fn with_chain_of(certificates: u8) -> Result<Self> {
        Self::new(|_| true, certificates)
    }

    /// An enclave that offers only some of its keys.
    fn offering(offered: impl Fn(Kem) -> bool) -> Result<Self> {
        Self::new(offered, forge::GENUINE_CHAIN)
    }

    fn new(offered: impl Fn(Kem) -> bool, certificates: u8) -> Result<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let gateway = GatewayKeys::generate(1, &mut rng);
        let signer = ReceiptSigner::generate(&mut rng);
        let keys = gateway.configs().into_iter();
        let keys = keys.filter(|key| offered(key.kem)).collect();
        let manifest = keyed_manifest(keys, signer.public_key(), NOW);
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let mut issuer = forge::Issuer::with_chain_of(certificates, root, &mut rng, NOW.0);
        let contents = attested_contents(&forge::Contents::example(), &manifest, &NONCE);
        let document = issuer.document(&contents, NOW.0, &mut rng);
        let root = issuer.root_der().to_vec();
        let anchor = TrustAnchor::development(&root)?;
        let policy = Policy::for_development(anchor, pins(&contents), &manifest)?;
        Ok(Self {
            gateway,
            signer,
            manifest: manifest.encode()?,
            document,
            policy,
            root,
            pcrs: contents.pcrs,
            rng,
        })
    }

    /// Verifies the attestation document, computing every signature.
    pub(crate) fn verify(&self) -> Result<VerifiedAttestation> {
        let freshness = Freshness::Live {
            nonce: &NONCE,
            now: NOW,
        };
        let (report, verified) = Appraisal::of(&self.document)
            .with_manifest(&self.manifest)
            .verify(&self.policy, freshness);
        verified
            .including_simulated()
            .with_context(|| format!("our own document was refused: {:?}", report.code))
    }

    /// The enclave's side: opens the request, signs a receipt, seals the answer.
    fn answer(&mut self, sealed: &[u8], content: &[u8]) -> Result<Vec<u8>> {
        let (opened, sealer) = self.gateway.open(sealed)?;
        let request = InnerRequest::decode(&opened.inner)?;
        let terms = Terms::read(&request)?;
        let unpadded = &opened.inner[..unpadded_len(&opened.inner)?];
        let claims = claims_of(&terms, unpadded, content, &self.pcrs);
        let receipt = Base64UrlUnpadded::encode_string(&self.signer.sign(&claims));
        let response = InnerResponse {
            status: 200,
            headers: vec![
                ("content-type".into(), "application/json".into()),
                (terms::RECEIPT.into(), receipt),
            ],
            content: content.to_vec(),
        };
        Ok(sealer.seal(&response.encode_padded()?, &mut self.rng)?)
    }

    /// Signs a receipt of one request.
    fn sign(&self, attested: &VerifiedAttestation) -> Vec<u8> {
        self.signer.sign(&ReceiptClaims {
            nonce: Some(vec![9; 32]),
            document_hash: attested.document_sha256(),
            measurements: measurements(&self.pcrs),
            security_mode: SecurityMode::Evaluation,
            ..claims()
        })
    }

    /// Signs a receipt and checks it against the attestation.
    pub(crate) fn receipt(&self, attested: &VerifiedAttestation) -> Result<()> {
        check_receipt(&self.sign(attested), attested)
    }

    /// One request from text to opened answer, both sides.
    pub(crate) fn exchange(&mut self, attested: &VerifiedAttestation, turn: u64) -> Result<()> {
        let mut rng = ChaCha20Rng::seed_from_u64(1_000 + turn);
        let (sealed, pending) = begin(attested, question(), NOW, &mut rng)?;
        let answer = self.answer(&sealed, &[b'x'; ANSWER])?;
        pending.finish(&answer, NOW)?;
        Ok(())
    }
}

/// Size of an answer with one embedding: 384 numbers in base64.
const ANSWER: usize = 2_200;

/// One sentence to embed.
fn question() -> InnerRequest {
    let content = br#"{"model":"all-MiniLM-L6-v2","input":"What is the capital of France?"}"#;
    json("POST", "/v1/embeddings", content.to_vec())
}

fn check_receipt(receipt: &[u8], attested: &VerifiedAttestation) -> Result<()> {
    let (report, claims) = protocol::receipt::verify(receipt, &Expectations::of(attested), None);
    claims.with_context(|| format!("our own receipt was refused: {:?}", report.code))?;
    Ok(())
}

pub(super) fn cryptography(run: &mut Run) -> Result<()> {
    for (name, kem) in [("X-Wing", Kem::XWing), ("X25519", Kem::X25519)] {
        // The manifest always names an X25519 key, because the document binds it.
        let mut enclave = Enclave::offering(|offered| offered == kem || offered == Kem::X25519)?;
        let attested = enclave.verify()?;
        let content = vec![b'x'; ANSWER];
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let parameters = [
            ("kind", text(name)),
            ("response_bytes", number(content.len())),
        ];
        run.time("request.crypto", &parameters, || {
            let (sealed, pending) = begin(&attested, question(), NOW, &mut rng)?;
            let answer = enclave.answer(&sealed, &content)?;
            Ok(pending.finish(&answer, NOW)?)
        })?;
    }
    let enclave = Enclave::start()?;
    let attested = enclave.verify()?;
    run.time("crypto.receipt_sign", &[], || Ok(enclave.sign(&attested)))?;
    let receipt = enclave.sign(&attested);
    run.time("crypto.receipt_verify", &[], || {
        check_receipt(&receipt, &attested)
    })?;
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let keys = [("keys", text("X25519 and X-Wing, made new"))];
    run.time("request.session_setup", &keys, || {
        Ok(GatewayKeys::generate(1, &mut rng))
    })?;
    Ok(())
}
