//! A development enclave's bundle and log, and a host that shows them.

use crate::common::run;
use attestation::{Aead, Kdf, Kem, KeyConfig, SecurityMode, ServiceManifest, UnixMillis};
use fixtures::receipt::measurements;
use fixtures::{NONCE, attested_contents, http, keyed_manifest};
use forge::{Contents, Issuer};
use merkle::json::{Consistency, Format, Inclusion, SignedHead, hex, to_json};
use merkle::tree::{Frontier, leaf_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::bundle::AuditBundle;
use protocol::receipt::{ReceiptClaims, ReceiptSigner};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const NOW: u64 = 1_795_183_380;

/// A folder with bundle.json, receipt, policy.json, and the log of three receipts of which the bundle's is the second.
pub(crate) struct Fixture {
    pub(crate) folder: PathBuf,
    pub(crate) key: String,
    pub(crate) receipts: [Vec<u8>; 3],
    pub(crate) signer: ReceiptSigner,
    pub(crate) document: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) issuer: Arc<Issuer>,
    pub(crate) contents: Contents,
    /// Unix seconds.
    pub(crate) now: u64,
}

impl Fixture {
    pub(crate) fn new(name: &str) -> Self {
        Self::at(name, NOW)
    }

    /// An enclave of today, whose hosts can answer a client.
    pub(crate) fn live(name: &str) -> Self {
        Self::at(name, fixtures::system_time().seconds())
    }

    fn at(name: &str, now: u64) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let signer = ReceiptSigner::generate(&mut rng);
        let now_millis = UnixMillis::from_seconds(now);
        let manifest = manifest(&signer, now);
        let enclave = fixtures::Fixture::with_manifest(manifest, now_millis, &mut rng);
        let contents = attested_contents(&enclave.contents, &enclave.manifest, &NONCE);
        let document = enclave.document();
        let receipts =
            [0, 1, 2].map(|number| signer.sign(&claims(number, now, &contents, &document)));
        let fixture = Self {
            folder,
            key: hex(&signer.public_key()),
            receipts,
            signer,
            document,
            manifest: enclave.manifest.encode().unwrap(),
            issuer: Arc::new(enclave.issuer),
            contents,
            now,
        };
        let bundle = AuditBundle {
            receipt: fixture.receipts[1].clone(),
            document: fixture.document.clone(),
            manifest: fixture.manifest.clone(),
            content: None,
            salt: None,
            crls: Vec::new(),
        };
        fixture.write("bundle.json", bundle.to_json().unwrap().as_bytes());
        fixture.write("receipt", &fixture.receipts[1]);
        fixture.write("policy.json", enclave.policy.to_json().as_bytes());
        fixture.write(
            "earlier.json",
            to_json(&fixture.head(2)).unwrap().as_bytes(),
        );
        fixture.write("head.json", to_json(&fixture.head(3)).unwrap().as_bytes());
        fixture.write(
            "proof.json",
            to_json(&fixture.inclusion()).unwrap().as_bytes(),
        );
        let consistency = to_json(&fixture.consistency()).unwrap();
        fixture.write("consistency.json", consistency.as_bytes());
        fixture
    }

    pub(crate) fn head(&self, size: usize) -> SignedHead {
        let mut frontier = Frontier::new();
        for receipt in &self.receipts[..size] {
            frontier.append(&receipt_hash(receipt), |_, _| ());
        }
        let tree = Tree {
            size: size as u64,
            root: frontier.root(),
        };
        let document = receipt_hash(&self.document);
        SignedHead {
            format: Format::new(),
            head: self.signer.sign_head(tree, self.now + 5, document),
            document: self.document.clone(),
            manifest: self.manifest.clone(),
        }
    }

    /// Of the second of three receipts: RFC 9162 §2.1.3.1 by hand.
    pub(crate) fn inclusion(&self) -> Inclusion {
        let [a, _, c] = self.hashes();
        Inclusion {
            format: Format::new(),
            index: 1,
            path: vec![a, c],
            head: self.head(3).head,
        }
    }

    /// From two leaves to three.
    pub(crate) fn consistency(&self) -> Consistency {
        Consistency {
            format: Format::new(),
            from: 2,
            to: 3,
            path: vec![self.hashes()[2]],
        }
    }

    pub(crate) fn hashes(&self) -> [[u8; 32]; 3] {
        [0, 1, 2].map(|index| leaf_hash(&receipt_hash(&self.receipts[index])))
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join(name), bytes).unwrap();
    }

    /// Changes a file of JSON.
    pub(crate) fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut json =
            serde_json::from_slice(&std::fs::read(self.folder.join(name)).unwrap()).unwrap();
        change(&mut json);
        self.write(name, json.to_string().as_bytes());
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, Value) {
        self.feed(arguments, b"")
    }

    /// Exit status and JSON; null where it printed none.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) -> (i32, Value) {
        let arguments = [&["verify"], arguments, &["--json"]].concat();
        let run = run(&self.folder, &arguments, input);
        let json = serde_json::from_str(&run.out).unwrap_or(Value::Null);
        (run.status, json)
    }
}

/// A manifest with one key that opens nothing.
pub(crate) fn manifest(signer: &ReceiptSigner, now: u64) -> ServiceManifest {
    let key = KeyConfig {
        key_id: 1,
        kem: Kem::X25519,
        public_key: vec![9; 32],
        symmetric: vec![(Kdf::HkdfSha256, Aead::Aes256Gcm)],
    };
    keyed_manifest(
        vec![key],
        signer.public_key(),
        UnixMillis::from_seconds(now),
    )
}

fn claims(number: u64, now: u64, contents: &Contents, document: &[u8]) -> ReceiptClaims {
    ReceiptClaims {
        issued_at: now + number,
        nonce: None,
        document_hash: receipt_hash(document),
        measurements: measurements(&contents.pcrs),
        sequence_number: number,
        security_mode: SecurityMode::Evaluation,
        ..fixtures::receipt::claims()
    }
}

/// Answers each request by its path, for as long as the test runs.
pub(crate) fn host(answers: Vec<(String, Vec<u8>)>) -> String {
    let address = http::serve(move |request, stream| {
        let is = |known: &String| {
            known == request.target()
                || known == request.path() && request.query().starts_with("nonce=")
        };
        match answers.iter().find(|(known, _)| is(known)) {
            Some((_, body)) => http::respond(stream, "200 OK", body),
            None => http::respond(stream, "404 Not Found", br#"{"code":"LOG_UNKNOWN"}"#),
        }
    });
    format!("http://{address}")
}
