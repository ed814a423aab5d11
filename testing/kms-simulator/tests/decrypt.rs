//! The simulated KMS releases keys to attested code, and refuses everything else with KMS's names.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use attestation::UnixMillis;
use base64ct::{Base64, Encoding};
use forge::{Contents, DevelopmentRoot, Issuer, SHARED_ROOT_MADE_AT};
use key_release::RecipientKey;
use kms_simulator::{Enclave, Simulator, create, put_policy};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::{Value, json};
use sha2::{Digest, Sha384};

const NOW: u64 = 1_800_000_000_500;
const MODEL: [u8; 32] = [4; 32];

struct Fixture {
    simulator: Simulator,
    issuer: Issuer,
    contents: Contents,
    wrapped: Vec<u8>,
    data_key: Vec<u8>,
    key: RecipientKey,
}

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_kms-simulator"));
        let enclave = Enclave {
            binary,
            model: "model",
            sha256: &MODEL,
        };
        create(folder.path(), &enclave, UnixMillis(NOW), &mut rng(1)).unwrap();
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let seed = base16ct::lower::decode_vec(read("root.seed")).unwrap();
        let seed: [u8; 32] = seed.try_into().unwrap();
        // The enclave makes the same certificate from the same seed.
        let root =
            DevelopmentRoot::generate(&mut ChaCha20Rng::from_seed(seed), SHARED_ROOT_MADE_AT);
        assert_eq!(root.certificate_der(), read("root.der"));
        let issuer = Issuer::new(root, &mut rng(2), NOW);
        let key = RecipientKey::generate(&mut rng(3)).unwrap();
        let hash = Sha384::digest(std::fs::read(binary).unwrap()).into();
        let contents = Contents {
            pcrs: forge::simulated_registers(&hash, &MODEL),
            public_key: Some(key.public_key_der().to_vec()),
            user_data: Some(b"purpose".to_vec()),
            nonce: Some(vec![1; 32]),
        };
        Self {
            simulator: Simulator::open(folder.path()).unwrap(),
            issuer,
            contents,
            wrapped: read("data-key.wrapped"),
            data_key: read("data-key"),
            key,
        }
    }

    fn request(&self, document: &[u8]) -> Value {
        json!({
            "KeyId": self.simulator.arn,
            "CiphertextBlob": Base64::encode_string(&self.wrapped),
            "EncryptionContext": { "clearseal-model": "model", "clearseal-version": "04".repeat(32) },
            "Recipient": { "AttestationDocument": Base64::encode_string(document), "KeyEncryptionAlgorithm": "RSAES_OAEP_SHA_256" },
        })
    }

    fn document(&self) -> Vec<u8> {
        self.issuer.forge(&self.contents, NOW).build()
    }

    fn ask(&self, request: &Value) -> Result<Value, &'static str> {
        let body = request.to_string();
        let answer = self
            .simulator
            .decrypt(body.as_bytes(), UnixMillis(NOW), &mut rng(4));
        answer.map_err(|refusal| refusal.name)
    }
}

#[test]
fn the_attested_enclave_gets_its_key_in_each_shape_in_turn() {
    let fixture = Fixture::new();
    let request = fixture.request(&fixture.document());
    let mut lengths = Vec::new();
    let mut envelopes = Vec::new();
    for _ in 0..3 {
        let answer = fixture.ask(&request).unwrap();
        assert_eq!(answer["KeyId"], fixture.simulator.arn);
        assert_eq!(answer["Plaintext"], Value::Null);
        let envelope = answer["CiphertextForRecipient"].as_str().unwrap();
        let envelope = Base64::decode_vec(envelope).unwrap();
        lengths.push(envelope.len());
        envelopes.push(envelope);
    }
    assert_eq!(lengths, [489, 493, 493]);
    let opened = fixture.key.open(&envelopes[1], &mut rng(5)).unwrap();
    assert_eq!(opened.expose().as_slice(), fixture.data_key);
}

#[test]
fn another_policy_gives_the_key_to_another_image() {
    let mut fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_kms-simulator"));
    let enclave = Enclave {
        binary,
        model: "model",
        sha256: &MODEL,
    };
    // The fixture's folder again: key and root come from the same seed.
    create(folder.path(), &enclave, UnixMillis(NOW), &mut rng(1)).unwrap();
    let key = || std::fs::read(folder.path().join("key.json")).unwrap();
    let before = key();
    // An existing key is not replaced, because models may be sealed with it.
    assert!(create(folder.path(), &enclave, UnixMillis(NOW), &mut rng(9)).is_err());
    assert!(key() == before);
    let image = |fill: u8| {
        let register = |fill: u8| base16ct::lower::encode_string(&[fill; 48]);
        json!({ "pcrs": { "0": register(fill), "1": register(1), "2": register(2) } }).to_string()
    };
    for (index, fill) in [(0, 7), (1, 1), (2, 2)] {
        fixture.contents.pcrs.insert(index, [fill; 48]);
    }
    let request = fixture.request(&fixture.document());
    assert_eq!(fixture.ask(&request).unwrap_err(), "AccessDeniedException");
    let measurements = folder.path().join("measurements.json");
    for (fill, outcome) in [(7, None), (8, Some("AccessDeniedException"))] {
        std::fs::write(&measurements, image(fill)).unwrap();
        put_policy(folder.path(), &measurements, UnixMillis(NOW)).unwrap();
        // Some editors add a byte order mark.
        for name in ["key.json", "policy.json", "trust-policy.json"] {
            let path = folder.path().join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.trim_start_matches('\u{feff}');
            std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
        }
        fixture.simulator = Simulator::open(folder.path()).unwrap();
        assert_eq!(fixture.ask(&request).err(), outcome);
    }
    std::fs::write(&measurements, "{}").unwrap();
    assert!(put_policy(folder.path(), &measurements, UnixMillis(NOW)).is_err());
}

#[test]
fn each_reason_to_refuse_has_kms_name() {
    let fixture = Fixture::new();
    let good = fixture.request(&fixture.document());
    assert!(fixture.ask(&good).is_ok());
    let with = |name: &str, value: Value| {
        let mut request = good.clone();
        request[name] = value;
        request
    };
    let with_contents = |change: &dyn Fn(&mut Contents)| {
        let mut contents = fixture.contents.clone();
        change(&mut contents);
        fixture.request(&fixture.issuer.forge(&contents, NOW).build())
    };
    let alias = fixture.simulator.arn.replace("key/", "alias/");
    let stranger = Issuer::new(
        DevelopmentRoot::generate(&mut rng(9), NOW),
        &mut rng(9),
        NOW,
    );
    let context =
        |model: &str| json!({ "clearseal-model": model, "clearseal-version": "04".repeat(32) });
    let mut unattested = good.clone();
    unattested.as_object_mut().unwrap().remove("Recipient");
    let mut flipped = fixture.wrapped.clone();
    flipped[20] ^= 1;
    let mut damaged = fixture.document();
    damaged[300] ^= 1;
    for (case, request, expected) in [
        (
            "another PCR0",
            with_contents(&|contents| {
                contents.pcrs.insert(0, [9; 48]);
            }),
            "AccessDeniedException",
        ),
        (
            "another PCR2",
            with_contents(&|contents| {
                contents.pcrs.insert(2, [9; 48]);
            }),
            "AccessDeniedException",
        ),
        (
            "debug mode",
            with_contents(&|contents| {
                contents
                    .pcrs
                    .extend([(0, [0; 48]), (1, [0; 48]), (2, [0; 48])]);
            }),
            "AccessDeniedException",
        ),
        ("no attestation", unattested, "AccessDeniedException"),
        (
            "another context",
            with("EncryptionContext", context("other")),
            "AccessDeniedException",
        ),
        (
            "no context",
            with("EncryptionContext", json!({})),
            "AccessDeniedException",
        ),
        (
            "another root",
            fixture.request(&stranger.forge(&fixture.contents, NOW).build()),
            "ValidationException",
        ),
        (
            "a changed document",
            fixture.request(&damaged),
            "ValidationException",
        ),
        (
            "an old document",
            fixture.request(
                &fixture
                    .issuer
                    .forge(&fixture.contents, NOW - 301_000)
                    .build(),
            ),
            "ValidationException",
        ),
        (
            "no RSA key",
            with_contents(&|contents| contents.public_key = Some(vec![9; 32])),
            "ValidationException",
        ),
        (
            "no public key",
            with_contents(&|contents| contents.public_key = None),
            "ValidationException",
        ),
        ("an alias", with("KeyId", json!(alias)), "NotFoundException"),
        (
            "a changed wrapped key",
            with("CiphertextBlob", json!(Base64::encode_string(&flipped))),
            "InvalidCiphertextException",
        ),
        (
            "no wrapped key",
            with("CiphertextBlob", json!("")),
            "InvalidCiphertextException",
        ),
        (
            "an unknown field",
            with("Else", json!(1)),
            "ValidationException",
        ),
        (
            "another algorithm",
            with("EncryptionAlgorithm", json!("RSAES_OAEP_SHA_256")),
            "InvalidKeyUsageException",
        ),
    ] {
        assert_eq!(fixture.ask(&request).err(), Some(expected), "{case}");
    }
}

/// The context is authenticated with the data key, even where no policy compares it.
#[test]
fn the_whole_context_has_to_be_the_wrapped_one() {
    let fixture = Fixture::new();
    let mut request = fixture.request(&fixture.document());
    request["EncryptionContext"]["more"] = "1".into();
    assert_eq!(
        fixture.ask(&request).err(),
        Some("InvalidCiphertextException")
    );
}
