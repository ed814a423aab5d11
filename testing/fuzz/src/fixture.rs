//! One enclave, its evidence and its client, the same in every run.

use std::sync::OnceLock;

use attestation::{
    Appraisal, AttestationReport, Conclusion, Freshness, HashScheme, ModelIdentity, Policy,
    SecurityMode, ServiceManifest, TrustAnchor, UnixMillis, VerifiedAttestation, manifest_binding,
};
use ed25519_dalek::SigningKey;
use forge::{Contents, DevelopmentRoot, Forgery, Issuer};
use protocol::ohttp::GatewayKeys;
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Time of all inputs.
pub(crate) const NOW: UnixMillis = UnixMillis(1_800_000_000_500);
/// The client's nonce.
pub(crate) const NONCE: [u8; 32] = [0x5a; 32];
/// Seed of the receipt key.
const RECEIPT_SEED: u64 = 2;

/// State that is the same for all inputs.
pub(crate) struct Fixture {
    pub(crate) issuer: Issuer,
    pub(crate) anchor: TrustAnchor,
    pub(crate) contents: Contents,
    pub(crate) manifest: ServiceManifest,
    pub(crate) manifest_bytes: Vec<u8>,
    pub(crate) policy: Policy,
    pub(crate) document: Vec<u8>,
    pub(crate) gateway: GatewayKeys,
    pub(crate) signer: ReceiptSigner,
    pub(crate) attested: VerifiedAttestation,
}

/// A deterministic random generator.
pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Returns the fixture, created once.
pub(crate) fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(Fixture::new)
}

impl Fixture {
    fn new() -> Self {
        let mut rng = rng(1);
        let root = DevelopmentRoot::generate(&mut rng, NOW.0);
        let issuer = Issuer::new(root, &mut rng, NOW.0);
        let anchor = TrustAnchor::development(issuer.root_der()).unwrap();
        let gateway = GatewayKeys::generate(1, &mut rng);
        let signer = ReceiptSigner::generate(&mut self::rng(RECEIPT_SEED));
        let manifest = ServiceManifest {
            version: 1,
            sealing_keys: gateway.configs(),
            receipt_key: signer.public_key(),
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
        };
        let manifest_bytes = manifest.encode().unwrap();
        let contents = Contents {
            public_key: manifest.x25519_key().map(<[u8]>::to_vec),
            user_data: Some(manifest_binding(&manifest_bytes).to_vec()),
            nonce: Some(NONCE.to_vec()),
            ..Contents::example()
        };
        let document = issuer.forge(&contents, NOW.0).build();
        let pins = (0..3).map(|index| (index, contents.pcrs[&index])).collect();
        let policy = Policy::for_development(anchor.clone(), pins, &manifest).unwrap();
        let (report, attested) = Appraisal::of(&document)
            .with_manifest(&manifest_bytes)
            .verify(&policy, live());
        let attested = attested.including_simulated();
        let attested = attested.unwrap_or_else(|| panic!("{:?}", report.message));
        Self {
            issuer,
            anchor,
            contents,
            manifest,
            manifest_bytes,
            policy,
            document,
            gateway,
            signer,
            attested,
        }
    }

    /// This enclave's document in parts.
    pub(crate) fn forgery(&self) -> Forgery {
        self.issuer.forge(&self.contents, NOW.0)
    }

    /// Runs all checks on a document with this enclave's manifest.
    pub(crate) fn verify(&self, document: &[u8]) -> (AttestationReport, Conclusion) {
        Appraisal::of(document)
            .with_manifest(&self.manifest_bytes)
            .verify(&self.policy, live())
    }
}

fn live() -> Freshness<'static> {
    Freshness::Live {
        nonce: &NONCE,
        now: NOW,
    }
}

/// The receipt key, for signing arbitrary claims.
pub(crate) fn receipt_key() -> SigningKey {
    let mut seed = [0; 32];
    // Drawn like in `ReceiptSigner::generate`.
    rng(RECEIPT_SEED).fill_bytes(&mut seed);
    SigningKey::from_bytes(&seed)
}
