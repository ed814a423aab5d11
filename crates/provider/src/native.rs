//! All uses of `graviola`, behind the proof that this processor supports it.

use graviola::aead::AesGcm;
use graviola::hashing::Sha384;
use graviola::key_agreement::x25519::{PublicKey, StaticPrivateKey};
use graviola::signing::ecdsa::{P384, VerifyingKey};
use graviola::signing::eddsa::Ed25519SigningKey;
use zeroize::Zeroizing;

/// Proof that the processor has every instruction that `graviola` needs.
#[derive(Clone, Copy)]
pub(crate) struct Native(());

impl Native {
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        graviola::util::is_cpu_supported().then_some(Self(()))
    }

    /// Whether the key of `point`, uncompressed, made `signature` (r ‖ s) over `message`.
    pub(crate) fn verifies_es384(self, point: &[u8], message: &[u8], signature: &[u8]) -> bool {
        VerifyingKey::<P384>::from_x962_uncompressed(point)
            .and_then(|key| key.verify::<Sha384>(&[message], signature))
            .is_ok()
    }

    pub(crate) fn x25519_public_key(self, secret: &[u8; 32]) -> [u8; 32] {
        StaticPrivateKey::from_array(secret).public_key().as_bytes()
    }

    /// The shared point; zeros if `point` is of low order. `graviola` refuses such points; here the caller decides whether
    /// to refuse them.
    pub(crate) fn x25519(self, secret: &[u8; 32], point: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        let secret = StaticPrivateKey::from_array(secret);
        let shared = secret.diffie_hellman(&PublicKey::from_array(point));
        Zeroizing::new(shared.map_or([0; 32], |shared| shared.0))
    }

    /// `None` if `graviola` refuses the seed, which never happens.
    pub(crate) fn ed25519(self, seed: &[u8; 32]) -> Option<Ed25519> {
        let key = Ed25519SigningKey::from_bytes(seed).ok()?;
        Some(Ed25519(Box::new(key)))
    }

    pub(crate) fn aes256gcm(self, key: &[u8; 32]) -> Aes256Gcm {
        Aes256Gcm(Box::new(AesGcm::new(key)))
    }
}

/// Wiped when dropped.
pub(crate) struct Ed25519(Box<Ed25519SigningKey>);

impl Ed25519 {
    pub(crate) fn public_key(&self) -> [u8; 32] {
        self.0.public_key().as_bytes()
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message)
    }
}

/// Key schedule and tables; wiped when dropped.
pub(crate) struct Aes256Gcm(Box<AesGcm>);

impl Aes256Gcm {
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        self.0.encrypt(nonce, aad, payload, &mut tag);
        tag
    }

    pub(crate) fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        payload: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        self.0.decrypt(nonce, aad, payload, tag).is_ok()
    }
}
