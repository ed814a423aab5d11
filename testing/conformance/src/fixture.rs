//! One development root and one enclave, the same in every kit.

use forge::{Contents, DevelopmentRoot, Forgery, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// Creation time of every document of the kit, Unix milliseconds. A whole second, because certificates have no finer resolution
/// and verifiers may differ in rounding.
pub(crate) const NOW: u64 = 1_800_000_000_000;
/// The nonce of every document of the kit.
pub(crate) const NONCE: [u8; 32] = [0x5a; 32];

pub(crate) struct Fixture {
    issuer: Issuer,
    contents: Contents,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let mut rng = ChaCha20Rng::from_seed(*b"clearseal conformance kit, no. 1");
        let root = DevelopmentRoot::generate(&mut rng, NOW);
        let issuer = Issuer::new(root, &mut rng, NOW);
        let contents = Contents {
            nonce: Some(NONCE.to_vec()),
            user_data: Some(b"conformance".to_vec()),
            public_key: None,
            ..Contents::example()
        };
        Self { issuer, contents }
    }

    pub(crate) fn root(&self) -> &[u8] {
        self.issuer.root_der()
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    pub(crate) fn document(&self, change: impl FnOnce(&mut Forgery)) -> Vec<u8> {
        let mut forgery = self.issuer.forge(&self.contents, NOW);
        change(&mut forgery);
        forgery.build()
    }
}
