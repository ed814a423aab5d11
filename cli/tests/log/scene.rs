//! A development enclave's bundle and log, and a host that shows them.

use crate::common::run;
use attestation::{
    Aead, HashScheme, Kdf, Kem, KeyConfig, ModelIdentity, Policy, SecurityMode, ServiceManifest,
    TrustAnchor, manifest_binding,
};
use forge::{Contents, DevelopmentRoot, Issuer};
use merkle::json::{Consistency, Format, Inclusion, SignedHead, hex, to_json};
use merkle::tree::{Frontier, leaf_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::bundle::AuditBundle;
use protocol::receipt::{Measurements, Platform, ReceiptClaims, ReceiptSigner};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const NOW: u64 = 1_795_183_380;

/// A folder with bundle.json, receipt, policy.json, and the log of three receipts of which the bundle's is the second.
pub(crate) struct Scene {
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

impl Scene {
    pub(crate) fn new(name: &str) -> Self {
        Self::at(name, NOW)
    }

    /// An enclave of today, whose hosts can answer a client.
    pub(crate) fn live(name: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self::at(name, now.as_secs())
    }

    fn at(name: &str, now: u64) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let signer = ReceiptSigner::generate(&mut rng);
        let manifest = manifest(&signer, now);
        let bytes = manifest.encode().unwrap();
        let root = DevelopmentRoot::generate(&mut rng, now * 1000);
        let mut issuer = Issuer::new(root, &mut rng, now * 1000);
        let contents = Contents {
            public_key: Some(manifest.x25519_key().unwrap().to_vec()),
            user_data: Some(manifest_binding(&bytes).to_vec()),
            nonce: Some(vec![7; 32]),
            ..Contents::example()
        };
        let document = issuer.document(&contents, now * 1000, &mut rng);
        let pinned = (0..3).map(|index| (index, contents.pcrs[&index])).collect();
        let root = TrustAnchor::development(issuer.root_der()).unwrap();
        let policy = Policy::for_development(root, pinned, &manifest).unwrap();
        let receipts =
            [0, 1, 2].map(|number| signer.sign(&claims(number, now, &contents, &document)));
        let scene = Self {
            folder,
            key: hex(&signer.public_key()),
            receipts,
            signer,
            document,
            manifest: bytes,
            issuer: Arc::new(issuer),
            contents,
            now,
        };
        let bundle = AuditBundle {
            receipt: scene.receipts[1].clone(),
            document: scene.document.clone(),
            manifest: scene.manifest.clone(),
            content: None,
            salt: None,
            crls: Vec::new(),
        };
        scene.write("bundle.json", bundle.to_json().unwrap().as_bytes());
        scene.write("receipt", &scene.receipts[1]);
        scene.write("policy.json", policy.to_json().as_bytes());
        scene.write("earlier.json", to_json(&scene.head(2)).unwrap().as_bytes());
        scene.write("head.json", to_json(&scene.head(3)).unwrap().as_bytes());
        scene.write(
            "proof.json",
            to_json(&scene.inclusion()).unwrap().as_bytes(),
        );
        let consistency = to_json(&scene.consistency()).unwrap();
        scene.write("consistency.json", consistency.as_bytes());
        scene
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

pub(crate) fn manifest(signer: &ReceiptSigner, now: u64) -> ServiceManifest {
    ServiceManifest {
        version: 1,
        sealing_keys: vec![KeyConfig {
            key_id: 1,
            kem: Kem::X25519,
            public_key: vec![9; 32],
            symmetric: vec![(Kdf::HkdfSha256, Aead::Aes256Gcm)],
        }],
        receipt_key: signer.public_key(),
        model: ModelIdentity {
            id: "all-MiniLM-L6-v2".into(),
            version: "1".into(),
            sha256: [5; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "1".into(),
        security_mode: SecurityMode::Evaluation,
        not_before: now - 60,
        not_after: now + 3600,
    }
}

fn claims(number: u64, now: u64, contents: &Contents, document: &[u8]) -> ReceiptClaims {
    ReceiptClaims {
        issuer: "clearseal".into(),
        issued_at: now + number,
        id: [9; 16],
        nonce: None,
        model_id: "all-MiniLM-L6-v2".into(),
        model_version: "1".into(),
        model_hash: [5; 32],
        model_hash_scheme: Some(HashScheme::Sha256Manifest),
        request_hash: [6; 32],
        response_hash: [7; 32],
        document_hash: receipt_hash(document),
        measurements: Measurements {
            platform: Platform::NitroPcr,
            pcr0: contents.pcrs[&0],
            pcr1: contents.pcrs[&1],
            pcr2: contents.pcrs[&2],
            pcr3: None,
            pcr4: None,
            pcr8: None,
        },
        policy_version: "1".into(),
        sequence_number: number,
        execution_time_ms: 7,
        memory_peak_mb: 170,
        security_mode: SecurityMode::Evaluation,
    }
}

/// Answers each request by its path, for as long as the test runs.
pub(crate) fn host(answers: Vec<(String, Vec<u8>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 2048];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, body) = answers
                .iter()
                .find(|(known, _)| known == path || path.starts_with(&format!("{known}?nonce=")))
                .map_or(
                    ("404 Not Found", &br#"{"code":"LOG_UNKNOWN"}"#[..]),
                    |(_, body)| ("200 OK", &body[..]),
                );
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            )
            .unwrap();
            stream.write_all(body).unwrap();
        }
    });
    url
}
