//! Prints the audit page's samples as JSON: a receipt with its evidence, the same with one changed letter, and one signed by
//! another key. A fixed seed creates their root, so they are the same in every build and prove nothing.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::error::Error;

use attestation::{
    HashScheme, ModelIdentity, SecurityMode, ServiceManifest, UnixMillis, manifest_binding,
};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use forge::{Contents, DevelopmentRoot, Issuer};
use protocol::bundle::{AuditBundle, BundleContent};
use protocol::commitment::{request_hash, response_hash};
use protocol::inner::{InnerRequest, unpadded_len};
use protocol::ohttp::GatewayKeys;
use protocol::receipt::{Measurements, Platform, ReceiptClaims, ReceiptSigner};
use protocol::terms::Terms;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::json;

/// 2026-11-20T14:03:00Z, when the samples were "issued". They are appraised as of that time, so they do not expire.
const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
const MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";
const POLICY_VERSION: &str = "sample";

fn main() -> Result<(), Box<dyn Error>> {
    let mut rng = ChaCha20Rng::from_seed(*b"samples of the audit page, no.1!");
    let signer = ReceiptSigner::generate(&mut rng);
    let manifest = manifest(&signer, &mut rng);
    let manifest_bytes = manifest.encode()?;
    let mut issuer = Issuer::new(DevelopmentRoot::generate(&mut rng, NOW.0), &mut rng, NOW.0);
    let contents = Contents {
        public_key: manifest.x25519_key().map(|key| key.to_vec()),
        user_data: Some(manifest_binding(&manifest_bytes).to_vec()),
        nonce: Some(vec![0x5a; 32]),
        ..Contents::example()
    };
    let document = issuer.document(&contents, NOW.0, &mut rng);
    let pcr = |index: u8| {
        contents
            .pcrs
            .get(&index)
            .copied()
            .ok_or("a register is absent")
    };

    let (request, terms) = request(request_hash(&document))?;
    let response = br#"{"object":"list","data":[],"model":"a sample without vectors"}"#.to_vec();
    let claims = ReceiptClaims {
        issuer: "clearseal sample".to_owned(),
        issued_at: NOW.seconds(),
        id: [0x17; 16],
        nonce: Some(terms.nonce.clone()),
        model_id: MODEL.to_owned(),
        model_version: manifest.model.version.clone(),
        model_hash: manifest.model.sha256,
        model_hash_scheme: Some(manifest.model.hash_scheme),
        request_hash: request_hash(&request),
        response_hash: response_hash(&terms.salt, &response),
        document_hash: request_hash(&document),
        measurements: Measurements {
            platform: Platform::NitroPcr,
            pcr0: pcr(0)?,
            pcr1: pcr(1)?,
            pcr2: pcr(2)?,
            pcr3: None,
            pcr4: None,
            pcr8: None,
        },
        policy_version: POLICY_VERSION.to_owned(),
        sequence_number: 41,
        execution_time_ms: 12,
        memory_peak_mb: 310,
        security_mode: SecurityMode::Evaluation,
    };
    let receipt = signer.sign(&claims);
    let stranger = ReceiptSigner::generate(&mut rng);
    let bundle = |receipt: Vec<u8>| {
        let (document, manifest) = (document.clone(), manifest_bytes.clone());
        let content = BundleContent {
            request: request.clone(),
            response: response.clone(),
        };
        AuditBundle {
            receipt,
            document,
            manifest,
            content: Some(content),
            salt: None,
            crls: Vec::new(),
        }
        .to_json()
    };
    let pcrs = [0, 1, 2].map(|index| Ok::<_, &str>((index.to_string(), json!(hex(&pcr(index)?)))));
    let pcrs = pcrs
        .into_iter()
        .collect::<Result<serde_json::Map<_, _>, _>>();
    let policy = json!({
        "format": "clearseal-trust-policy/1",
        "name": "samples of the audit page",
        "root": { "development": Base64::encode_string(issuer.root_der()) },
        "releases": [{ "name": "sample", "pcrs": pcrs? }],
        "max_age_seconds": 300,
        "clock_skew_seconds": 60,
        "security_mode": "evaluation",
        "policy_version": POLICY_VERSION,
        "model": { "id": MODEL, "sha256": hex(&manifest.model.sha256) },
    });
    let samples = json!({
        "policy": serde_json::to_string_pretty(&policy)?,
        "valid": bundle(receipt.clone())?,
        "tampered": bundle(change_model_name(receipt)?)?,
        "otherKey": bundle(stranger.sign(&claims))?,
    });
    println!("{samples}");
    Ok(())
}

fn manifest(signer: &ReceiptSigner, rng: &mut ChaCha20Rng) -> ServiceManifest {
    ServiceManifest {
        version: 1,
        sealing_keys: GatewayKeys::generate(1, rng).configs(),
        receipt_key: signer.public_key(),
        model: ModelIdentity {
            id: MODEL.to_owned(),
            version: "sample".to_owned(),
            sha256: request_hash(b"a sample, and no model"),
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
            normalised: true,
        },
        others: Vec::new(),
        policy_version: POLICY_VERSION.to_owned(),
        security_mode: SecurityMode::Evaluation,
        not_before: NOW.seconds() - 60,
        not_after: NOW.seconds() + 3_600,
    }
}

/// An inner request without padding, as a client would write it.
fn request(document: [u8; 32]) -> Result<(Vec<u8>, Terms), Box<dyn Error>> {
    let input = [
        "The cat sleeps on the warm radiator.",
        "A kitten naps next to the heater.",
    ];
    let content = json!({ "model": MODEL, "input": input, "encoding_format": "base64" });
    let mut request = InnerRequest {
        method: "POST".to_owned(),
        path: "/v1/embeddings".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        content: content.to_string().into_bytes(),
    };
    let terms = Terms {
        date: NOW,
        nonce: vec![0x33; 32],
        salt: [0x77; 32],
        document,
    };
    terms.write(&mut request)?;
    let mut inner = request.encode_padded()?;
    inner.truncate(unpadded_len(&inner)?);
    Ok((inner, terms))
}

/// Changes one letter of the model's name without changing the signature.
fn change_model_name(mut receipt: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let name = MODEL.as_bytes();
    let at = receipt
        .windows(name.len())
        .position(|window| window == name)
        .ok_or("the receipt does not name the model")?;
    let last = receipt
        .get_mut(at + name.len() - 1)
        .ok_or("the name is empty")?;
    *last = b'3';
    Ok(receipt)
}
