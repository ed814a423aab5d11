//! DHKEM(X25519, HKDF-SHA256) of RFC 9180, over the fastest X25519 that this processor has ([`provider::x25519`]).
//!
//! A private key keeps its public key, which `hpke` would compute again for each message. `tests` compares its bytes with those of the
//! `hpke` crate.

use hkdf::Hkdf;
use hpke::kem::SharedSecret;
use hpke::{Deserializable, HpkeError, Kem, Serializable};
use hybrid_array::sizes::U32;
use provider::x25519::Secret;
use rand_core::CryptoRng;
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

/// KEM 0x0020 of HPKE. It authenticates no sender: HPKE's modes Auth and AuthPSK fail with it.
pub struct X25519;

/// A point, as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; LENGTH]);

/// A scalar, and its point. Zeroized when dropped; `Clone` because `hpke` requires it.
#[derive(Clone)]
pub struct PrivateKey {
    secret: Secret,
    public: PublicKey,
}

/// The sender's ephemeral point.
pub type EncappedKey = PublicKey;

const LENGTH: usize = 32;
const SUITE: &[u8; 5] = b"KEM\x00\x20";

impl PrivateKey {
    /// Clamped (RFC 9180 §7.1.2), so that each key has one form.
    fn new(mut bytes: Zeroizing<[u8; LENGTH]>) -> Self {
        bytes[0] &= 0xf8;
        bytes[LENGTH - 1] = bytes[LENGTH - 1] & 0x7f | 0x40;
        let secret = Secret::new(bytes);
        let public = PublicKey(secret.public_key());
        Self { secret, public }
    }

    /// RFC 9180 §7.1.4: an all-zero shared point is an error.
    fn agree(&self, point: &PublicKey) -> Option<Zeroizing<[u8; LENGTH]>> {
        let shared = self.secret.agree(&point.0);
        let zero: bool = shared.ct_eq(&[0; LENGTH]).into();
        (!zero).then_some(shared)
    }
}

impl Kem for X25519 {
    type PublicKey = PublicKey;
    type PrivateKey = PrivateKey;
    type EncappedKey = EncappedKey;
    type NSecret = U32;

    const KEM_ID: u16 = 0x0020;

    fn sk_to_pk(secret: &PrivateKey) -> PublicKey {
        secret.public
    }

    // RFC 9180 §7.1.3.
    fn derive_keypair(ikm: &[u8]) -> (PrivateKey, PublicKey) {
        let secret = PrivateKey::new(derive([b"dkp_prk", ikm], b"sk", &[]));
        let public = secret.public;
        (secret, public)
    }

    fn encap_with_rng(
        recipient: &PublicKey,
        sender: Option<(&PrivateKey, &PublicKey)>,
        rng: &mut impl CryptoRng,
    ) -> Result<(SharedSecret<Self>, EncappedKey), HpkeError> {
        if sender.is_some() {
            return Err(HpkeError::EncapError);
        }
        let (ephemeral, enc) = Self::gen_keypair_with_rng(rng);
        let shared = ephemeral.agree(recipient).ok_or(HpkeError::EncapError)?;
        Ok((extract_and_expand(&shared, &enc, recipient), enc))
    }

    fn decap(
        secret: &PrivateKey,
        sender: Option<&PublicKey>,
        enc: &EncappedKey,
    ) -> Result<SharedSecret<Self>, HpkeError> {
        if sender.is_some() {
            return Err(HpkeError::DecapError);
        }
        let shared = secret.agree(enc).ok_or(HpkeError::DecapError)?;
        Ok(extract_and_expand(&shared, enc, &secret.public))
    }
}

/// RFC 9180 §4.1:
///
/// ```text
/// eae_prk       = LabeledExtract("", "eae_prk", dh)
/// shared_secret = LabeledExpand(eae_prk, "shared_secret", enc ‖ pkR, 32)
/// ```
fn extract_and_expand(
    shared: &[u8; LENGTH],
    enc: &PublicKey,
    recipient: &PublicKey,
) -> SharedSecret<X25519> {
    let context = [enc.0, recipient.0].concat();
    SharedSecret((*derive([b"eae_prk", shared], b"shared_secret", &context)).into())
}

/// LabeledExpand(LabeledExtract("", label, ikm), purpose, info, 32), RFC 9180 §4:
///
/// ```text
/// suite_id                            = "KEM" ‖ kem_id
/// LabeledExtract(salt, label, ikm)    = Extract(salt, "HPKE-v1" ‖ suite_id ‖ label ‖ ikm)
/// LabeledExpand(prk, label, info, L)  = Expand(prk, L ‖ "HPKE-v1" ‖ suite_id ‖ label ‖ info, L)
/// ```
fn derive([label, ikm]: [&[u8]; 2], purpose: &[u8], info: &[u8]) -> Zeroizing<[u8; LENGTH]> {
    const VERSION: &[u8] = b"HPKE-v1";
    let input = Zeroizing::new([VERSION, SUITE, label, ikm].concat());
    let (_, key) = Hkdf::<Sha256>::extract(None, &input);
    let mut derived = Zeroizing::new([0; LENGTH]);
    let parts: [&[u8]; 5] = [&[0, LENGTH as u8], VERSION, SUITE, purpose, info];
    // Fails only for more than 255 hash lengths of output; 32 bytes are one.
    key.expand_multi_info(&parts, derived.as_mut_slice()).ok();
    derived
}

impl ConstantTimeEq for PrivateKey {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.secret.bytes().ct_eq(other.secret.bytes().as_slice())
    }
}

impl Serializable for PrivateKey {
    type OutputSize = U32;

    fn write_exact(&self, out: &mut [u8]) {
        out.copy_from_slice(self.secret.bytes());
    }
}

impl Deserializable for PrivateKey {
    fn from_bytes(encoded: &[u8]) -> Result<Self, HpkeError> {
        Ok(Self::new(Zeroizing::new(exact(encoded)?)))
    }
}

impl Serializable for PublicKey {
    type OutputSize = U32;

    fn write_exact(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

impl Deserializable for PublicKey {
    fn from_bytes(encoded: &[u8]) -> Result<Self, HpkeError> {
        exact(encoded).map(Self)
    }
}

fn exact(encoded: &[u8]) -> Result<[u8; LENGTH], HpkeError> {
    <[u8; LENGTH]>::try_from(encoded)
        .map_err(|_| HpkeError::IncorrectInputLength(LENGTH, encoded.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hpke::aead::ExportOnlyAead;
    use hpke::kdf::HkdfSha256;
    use hpke::kem::X25519HkdfSha256 as Theirs;
    use hpke::{OpModeR, OpModeS};
    use provider::x25519::LOW_ORDER;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn it_makes_the_bytes_of_the_hpke_crate() {
        for seed in 0..16 {
            let rng = || ChaCha20Rng::seed_from_u64(seed);
            let (ours, public) = X25519::derive_keypair(&[seed as u8; 32]);
            let (theirs, their_public) = Theirs::derive_keypair(&[seed as u8; 32]);
            assert_eq!(ours.to_bytes(), theirs.to_bytes());
            assert_eq!(public.to_bytes(), their_public.to_bytes());
            let (secret, enc) = X25519::encap_with_rng(&public, None, &mut rng()).unwrap();
            let (expected, their_enc) =
                Theirs::encap_with_rng(&their_public, None, &mut rng()).unwrap();
            assert_eq!(enc.to_bytes(), their_enc.to_bytes());
            assert!(secret.0 == expected.0);
            assert!(X25519::decap(&ours, None, &enc).unwrap().0 == expected.0);
            assert!(Theirs::decap(&theirs, None, &their_enc).unwrap().0 == expected.0);
        }
    }

    #[test]
    fn points_of_low_order_and_senders_are_refused() {
        let (secret, public) = X25519::derive_keypair(&[1; 32]);
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        for low in LOW_ORDER {
            let low = PublicKey(low);
            assert!(X25519::decap(&secret, None, &low).is_err());
            assert!(X25519::encap_with_rng(&low, None, &mut rng).is_err());
            let setup = hpke::setup_receiver::<ExportOnlyAead, HkdfSha256, X25519>;
            assert!(setup(&OpModeR::Base, &secret, &low, b"").is_err());
        }
        let sender = Some((&secret, &public));
        assert!(X25519::encap_with_rng(&public, sender, &mut rng).is_err());
        assert!(X25519::decap(&secret, Some(&public), &public).is_err());
        let auth = OpModeS::Auth((secret, public));
        let setup = hpke::setup_sender_with_rng::<ExportOnlyAead, HkdfSha256, X25519>;
        assert!(setup(&auth, &public, b"", &mut rng).is_err());
    }
}
