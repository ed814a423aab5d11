//! One enclave, its evidence and its client, the same in every run.

use std::sync::OnceLock;

use attestation::{
    AttestationReport, Conclusion, Policy, ServiceManifest, TrustAnchor, VerifiedAttestation,
};
use ed25519_dalek::SigningKey;
use fixtures::{NONCE, attested_contents, keyed_manifest};
use forge::{Contents, Forgery, Issuer};
use protocol::ohttp::GatewayKeys;
use protocol::receipt::ReceiptSigner;
use rand_chacha::rand_core::Rng;

pub(crate) use fixtures::{NOW, rng};

/// Seed of the receipt key.
const RECEIPT_SEED: u64 = 2;

/// State that is the same for all inputs.
pub(crate) struct Fixture {
    enclave: fixtures::Fixture,
    pub(crate) contents: Contents,
    pub(crate) manifest_bytes: Vec<u8>,
    pub(crate) document: Vec<u8>,
    pub(crate) gateway: GatewayKeys,
    pub(crate) signer: ReceiptSigner,
    pub(crate) attested: VerifiedAttestation,
}

/// Returns the fixture, created once.
pub(crate) fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(Fixture::new)
}

impl Fixture {
    fn new() -> Self {
        let mut rng = rng(1);
        let gateway = GatewayKeys::generate(1, &mut rng);
        let signer = ReceiptSigner::generate(&mut self::rng(RECEIPT_SEED));
        let manifest = keyed_manifest(gateway.configs(), signer.public_key(), NOW);
        let enclave = fixtures::Fixture::with_manifest(manifest, NOW, &mut rng);
        let (report, attested) = enclave.judge();
        Self {
            contents: attested_contents(&enclave.contents, &enclave.manifest, &NONCE),
            manifest_bytes: enclave.manifest.encode().unwrap(),
            document: enclave.document(),
            gateway,
            signer,
            attested: attested.unwrap_or_else(|| panic!("{:?}", report.message)),
            enclave,
        }
    }

    pub(crate) fn issuer(&self) -> &Issuer {
        &self.enclave.issuer
    }

    pub(crate) fn anchor(&self) -> &TrustAnchor {
        &self.enclave.anchor
    }

    pub(crate) fn manifest(&self) -> &ServiceManifest {
        &self.enclave.manifest
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.enclave.policy
    }

    /// This enclave's document in parts.
    pub(crate) fn forgery(&self) -> Forgery {
        self.issuer().forge(&self.contents, NOW.0)
    }

    /// Runs all checks on a document with this enclave's manifest.
    pub(crate) fn verify(&self, document: &[u8]) -> (AttestationReport, Conclusion) {
        self.enclave.verify(document, &self.manifest_bytes)
    }
}

/// The receipt key, for signing arbitrary claims.
pub(crate) fn receipt_key() -> SigningKey {
    let mut seed = [0; 32];
    // Drawn like in `ReceiptSigner::generate`.
    rng(RECEIPT_SEED).fill_bytes(&mut seed);
    SigningKey::from_bytes(&seed)
}
