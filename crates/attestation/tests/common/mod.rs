//! A complete valid fixture, from which each test changes one thing.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

pub mod appraisal;
pub mod boundaries;
pub mod differences;

pub use appraisal::{appraisal_cases, judged_at_another_moment};

use attestation::{
    Aead, Appraisal, AttestationDocument, AttestationReport, CheckLog, Conclusion, Freshness,
    HashScheme, Kdf, Kem, KeyConfig, ModelIdentity, Policy, Row, RowState, SecurityMode,
    ServiceManifest, TrustAnchor, UnixMillis, VerifiedAttestation, manifest_binding,
};
use forge::{Contents, DevelopmentRoot, Forgery, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// The moment of every fixture.
pub const NOW: UnixMillis = UnixMillis(1_800_000_000_500);

/// Seed of every fixture's randomness.
pub const NONCE: [u8; 32] = [0x5a; 32];

/// An enclave, its evidence, and its verifier's policy.
pub struct Fixture {
    pub issuer: Issuer,
    pub anchor: TrustAnchor,
    pub contents: Contents,
    pub manifest: ServiceManifest,
    pub policy: Policy,
    pub nonce: Vec<u8>,
    pub now: UnixMillis,
    /// Revocation lists that came with the document.
    pub crls: Vec<u8>,
}

impl Fixture {
    pub fn new() -> Self {
        let mut rng = ChaCha20Rng::from_seed([42; 32]);
        let root = DevelopmentRoot::generate(&mut rng, NOW.0);
        let issuer = Issuer::new(root, &mut rng, NOW.0);
        let anchor = TrustAnchor::development(issuer.root_der()).unwrap();
        let contents = Contents::example();
        let manifest = manifest();
        let policy = Policy::for_development(anchor.clone(), pins(&contents), &manifest).unwrap();
        Self {
            issuer,
            anchor,
            contents,
            manifest,
            policy,
            nonce: NONCE.to_vec(),
            now: NOW,
            crls: Vec::new(),
        }
    }

    /// The document that the enclave would have signed for this manifest and [`NONCE`].
    pub fn document(&self) -> Vec<u8> {
        self.forged(|_| {})
    }

    pub fn forged(&self, change: impl FnOnce(&mut Forgery)) -> Vec<u8> {
        let contents = Contents {
            user_data: Some(manifest_binding(&self.manifest.encode().unwrap()).to_vec()),
            public_key: self.manifest.x25519_key().map(<[u8]>::to_vec),
            nonce: Some(NONCE.to_vec()),
            ..self.contents.clone()
        };
        let mut forgery = self.issuer.forge(&contents, NOW.0);
        change(&mut forgery);
        forgery.build()
    }

    /// The document of a vector of check 27, and its revocation lists.
    pub fn with_lists(&self, vector: &forge::CrlVector) -> (Vec<u8>, Vec<u8>) {
        let mut lists = Vec::new();
        let document = self.forged(|forgery| lists = (vector.lists)(forgery));
        (document, lists)
    }

    /// The lists that root, regional and zonal CA published, without those that `keep` refuses.
    pub fn lists(&self, keep: impl Fn(usize) -> bool) -> Vec<u8> {
        let forgery = self.issuer.forge(&self.contents, NOW.0);
        let lists = (0..3)
            .filter(|at| keep(*at))
            .map(|at| forgery.sign_crl(&forgery.crl(at), at));
        lists.collect::<Vec<_>>().concat()
    }

    pub fn live(&self) -> Freshness<'_> {
        Freshness::Live {
            nonce: &self.nonce,
            now: self.now,
        }
    }

    pub fn verify(&self, document: &[u8], manifest: &[u8]) -> (AttestationReport, Conclusion) {
        self.verify_as_of(self.live(), document, manifest)
    }

    pub fn verify_as_of(
        &self,
        freshness: Freshness<'_>,
        document: &[u8],
        manifest: &[u8],
    ) -> (AttestationReport, Conclusion) {
        Appraisal::of(document)
            .with_manifest(manifest)
            .with_crls(&self.crls)
            .verify(&self.policy, freshness)
    }

    pub fn judge(&self) -> (AttestationReport, Option<VerifiedAttestation>) {
        let (report, concluded) = self.verify(&self.document(), &self.manifest.encode().unwrap());
        (report, concluded.including_simulated())
    }

    /// Changes the policy through its JSON, as an operator would.
    pub fn edit_policy(&mut self, edit: impl FnOnce(&mut serde_json::Value)) {
        let mut json = serde_json::from_str(&self.policy.to_json()).unwrap();
        edit(&mut json);
        self.policy = Policy::chosen_by_hand(json.to_string().as_bytes()).unwrap();
    }
}

/// A valid manifest.
pub fn manifest() -> ServiceManifest {
    let symmetric = vec![
        (Kdf::HkdfSha256, Aead::ChaCha20Poly1305),
        (Kdf::HkdfSha256, Aead::Aes256Gcm),
    ];
    ServiceManifest {
        version: 1,
        sealing_keys: vec![
            KeyConfig {
                key_id: 2,
                kem: Kem::X25519,
                public_key: vec![2; 32],
                symmetric: symmetric.clone(),
            },
            KeyConfig {
                key_id: 1,
                kem: Kem::XWing,
                public_key: vec![1; 1216],
                symmetric,
            },
        ],
        receipt_key: [3; 32],
        model: ModelIdentity {
            id: "all-MiniLM-L6-v2".to_owned(),
            version: "1".to_owned(),
            sha256: [4; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "2027-01".to_owned(),
        security_mode: SecurityMode::Evaluation,
        not_before: NOW.seconds() - 60,
        not_after: NOW.seconds() + 3_600,
    }
}

/// The registers that a release pins.
pub fn pins(contents: &Contents) -> std::collections::BTreeMap<u8, [u8; 48]> {
    contents
        .pcrs
        .iter()
        .filter(|(index, _)| **index < 3)
        .map(|(index, value)| (*index, *value))
        .collect()
}

/// The row of check `id`, wherever it is listed.
pub fn row(rows: &[Row], id: u8) -> &Row {
    rows.iter().find(|row| row.id == id).unwrap()
}

/// Asserts that a refused report lists its rows in the order in which they ran: every row before the failed one has run, and
/// no row after it.
pub fn assert_in_run_order(rows: &[Row], name: &str) {
    let failed = rows.iter().position(|row| row.state == RowState::Failed);
    let (before, after) = rows.split_at(failed.unwrap());
    for row in before {
        assert_ne!(row.state, RowState::NotRun, "{name}: {}", row.name);
    }
    for row in &after[1..] {
        assert_eq!(row.state, RowState::NotRun, "{name}: {}", row.name);
    }
}

/// The document's own timestamp; if it cannot be read, an arbitrary moment.
pub fn own_time(document: &[u8]) -> UnixMillis {
    let parsed = AttestationDocument::parse(document, &mut CheckLog::new());
    parsed.map_or(UnixMillis(1_700_000_000_000), |document| {
        document.claims().timestamp
    })
}

/// Every Nitro document among the shared vectors: its name, its bytes, the root to judge it under, and its own time.
pub fn nitro_documents(
    vectors: &std::path::Path,
) -> Vec<(String, Vec<u8>, TrustAnchor, UnixMillis)> {
    let nitro = vectors.join("nitro");
    let own_root = std::fs::read(nitro.join("testpki/test_root.der")).unwrap();
    let own_root = TrustAnchor::development(&own_root).unwrap();
    let mut documents = Vec::new();
    for folder in ["documents", "refused", "derived", "testpki"] {
        let mut files: Vec<_> = std::fs::read_dir(nitro.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "cbor")
            })
            .collect();
        files.sort();
        for path in files {
            let document = std::fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let anchor = match folder {
                "testpki" => own_root.clone(),
                _ => TrustAnchor::aws_nitro_g1(),
            };
            let at = own_time(&document);
            documents.push((format!("{folder}/{name}"), document, anchor, at));
        }
    }
    assert!(documents.len() > 200, "{} documents", documents.len());
    documents
}

/// Folder of the shared vectors; `None`, after a message, if it is not set.
pub fn vectors() -> Option<std::path::PathBuf> {
    forge::shared_vectors()
}
