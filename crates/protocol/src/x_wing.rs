//! X-Wing (draft-connolly-cfrg-xwing-kem) as a KEM of HPKE (draft-ietf-hpke-pq): ML-KEM-768 (FIPS 203) and X25519
//! together, safe while either of them is.
//!
//! The `hpke` crate also has one, and `tests/x_wing.rs` checks that both give the same bytes. This one uses libcrux's
//! formally verified ML-KEM, with vector instructions if the processor has them, and expands a private key once,
//! where `hpke` expands it for every message. Together this removes most of the cost of a post-quantum request.
//!
//! ```text
//! expand(sk):       expanded = SHAKE256(sk, 96)
//!                   (pk_M, sk_M) = ML-KEM-768.KeyGen_internal(expanded[0:32], expanded[32:64])
//!                   sk_X = expanded[64:96]; pk_X = X25519(sk_X, 9)                                      §5.2
//! combine(…):       ss = SHA3-256(ss_M ‖ ss_X ‖ ct_X ‖ pk_X ‖ label)                                   §5.3
//! encapsulate(pk):  (ss_M, ct_M) = ML-KEM-768.Encaps(pk_M)
//!                   ct_X = X25519(ek_X, 9); ss_X = X25519(ek_X, pk_X), with a random ek_X
//!                   ss = combine(ss_M, ss_X, ct_X, pk_X); enc = ct_M ‖ ct_X                             §5.4
//! decapsulate(enc): ss_M = ML-KEM-768.Decaps(sk_M, ct_M); ss_X = X25519(sk_X, ct_X)
//!                   ss = combine(ss_M, ss_X, ct_X, pk_X)                                                §5.5
//! ```
//!
//! Remove it when `hpke`, or a provider for it, is as fast: the benchmark `crypto` measures both.

use hpke::kem::SharedSecret;
use hpke::{Deserializable, HpkeError, Kem, Serializable};
use hybrid_array::sizes::{U32, U1120, U1216};
use libcrux_ml_kem::mlkem768::{self, MlKem768Ciphertext, MlKem768PrivateKey, MlKem768PublicKey};
use provider::x25519::Secret;
use rand_core::CryptoRng;
use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, Zeroizing};

/// A point, as sent.
type X25519Key = [u8; 32];

/// KEM 0x647a of HPKE. It authenticates no sender: HPKE's modes Auth and AuthPSK fail with it.
pub struct XWing;

/// 1,216 bytes: an ML-KEM-768 encapsulation key that is in range (FIPS 203 §7.2), and an X25519 public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    ml_kem: [u8; ML_KEM_KEY],
    x25519: X25519Key,
}

/// The expansion of a private key's 32 bytes. Zeroized when dropped; `Clone` because `hpke` requires it.
#[derive(Clone)]
pub struct PrivateKey {
    seed: Zeroizing<[u8; SEED]>,
    ml_kem: Box<DecapsulationKey>,
    x25519: Secret,
    public: PublicKey,
}

/// 1,120 bytes: an ML-KEM-768 ciphertext, and the sender's ephemeral X25519 key.
#[derive(Clone)]
pub struct EncappedKey {
    ml_kem: MlKem768Ciphertext,
    x25519: X25519Key,
}

const SEED: usize = 32;
const ML_KEM_KEY: usize = 1_184;
const ML_KEM_CIPHERTEXT: usize = 1_088;
const LABEL: &[u8; 6] = br"\.//^\";

impl Kem for XWing {
    type PublicKey = PublicKey;
    type PrivateKey = PrivateKey;
    type EncappedKey = EncappedKey;
    type NSecret = U32;

    const KEM_ID: u16 = 0x647a;

    fn sk_to_pk(secret: &PrivateKey) -> PublicKey {
        secret.public.clone()
    }

    // draft-ietf-hpke-pq §4: seed = SHAKE256.LabeledDerive(ikm, "DeriveKeyPair", "", 32).
    fn derive_keypair(ikm: &[u8]) -> (PrivateKey, PublicKey) {
        let label: [&[u8]; 3] = [b"HPKE-v1KEM\x64\x7a", b"\x00\x0dDeriveKeyPair", b"\x00\x20"];
        let input = Zeroizing::new([ikm, &label.concat()].concat());
        let secret = PrivateKey::expand(Zeroizing::new(libcrux_sha3::shake256(&input)));
        let public = secret.public.clone();
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
        let mut message = Zeroizing::new([0; 32]);
        rng.fill_bytes(message.as_mut_slice());
        let mut ephemeral = Zeroizing::new([0; 32]);
        rng.fill_bytes(ephemeral.as_mut_slice());

        let key = MlKem768PublicKey::from(&recipient.ml_kem);
        let (ciphertext, ml_kem_secret) = mlkem768::encapsulate(&key, *message);
        let ephemeral = Secret::new(ephemeral);
        let enc = EncappedKey {
            ml_kem: ciphertext,
            x25519: ephemeral.public_key(),
        };
        let x25519_secret = ephemeral.agree(&recipient.x25519);
        let shared = combine(
            &Zeroizing::new(ml_kem_secret),
            &x25519_secret,
            &enc,
            recipient,
        );
        Ok((shared, enc))
    }

    fn decap(
        secret: &PrivateKey,
        sender: Option<&PublicKey>,
        enc: &EncappedKey,
    ) -> Result<SharedSecret<Self>, HpkeError> {
        if sender.is_some() {
            return Err(HpkeError::DecapError);
        }
        let ml_kem_secret = mlkem768::decapsulate(&secret.ml_kem.0, &enc.ml_kem);
        let x25519_secret = secret.x25519.agree(&enc.x25519);
        Ok(combine(
            &Zeroizing::new(ml_kem_secret),
            &x25519_secret,
            enc,
            &secret.public,
        ))
    }
}

/// draft-connolly-cfrg-xwing-kem §5.3. Neither half is checked for zeros: if one is broken, the other protects the secret.
fn combine(
    ml_kem_secret: &[u8; 32],
    x25519_secret: &[u8; 32],
    enc: &EncappedKey,
    recipient: &PublicKey,
) -> SharedSecret<XWing> {
    let parts: [&[u8]; 5] = [
        ml_kem_secret,
        x25519_secret,
        &enc.x25519,
        &recipient.x25519,
        LABEL,
    ];
    let input = Zeroizing::new(parts.concat());
    SharedSecret(libcrux_sha3::sha256(&input).into())
}

impl PrivateKey {
    /// draft-connolly-cfrg-xwing-kem §5.2: 64 bytes for ML-KEM's key generation, 32 for X25519.
    fn expand(seed: Zeroizing<[u8; SEED]>) -> Self {
        let expanded = Zeroizing::new(libcrux_sha3::shake256::<96>(seed.as_slice()));
        let mut ml_kem_seed = Zeroizing::new([0; 64]);
        ml_kem_seed.copy_from_slice(&expanded[..64]);
        let mut x25519_scalar = Zeroizing::new([0; 32]);
        x25519_scalar.copy_from_slice(&expanded[64..]);

        let (secret, public) = mlkem768::generate_key_pair(*ml_kem_seed).into_parts();
        let x25519 = Secret::new(x25519_scalar);
        let public = PublicKey {
            ml_kem: public.into(),
            x25519: x25519.public_key(),
        };
        Self {
            seed,
            ml_kem: Box::new(DecapsulationKey(secret)),
            x25519,
            public,
        }
    }
}

#[derive(Clone)]
struct DecapsulationKey(MlKem768PrivateKey);

impl Drop for DecapsulationKey {
    fn drop(&mut self) {
        self.0[0..MlKem768PrivateKey::len()].zeroize();
    }
}

impl ConstantTimeEq for PrivateKey {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.seed.ct_eq(other.seed.as_slice())
    }
}

impl Serializable for PrivateKey {
    type OutputSize = U32;

    fn write_exact(&self, out: &mut [u8]) {
        out.copy_from_slice(self.seed.as_slice());
    }
}

impl Deserializable for PrivateKey {
    fn from_bytes(encoded: &[u8]) -> Result<Self, HpkeError> {
        let seed = <[u8; SEED]>::try_from(encoded)
            .map_err(|_| HpkeError::IncorrectInputLength(SEED, encoded.len()))?;
        Ok(Self::expand(Zeroizing::new(seed)))
    }
}

impl Serializable for PublicKey {
    type OutputSize = U1216;

    fn write_exact(&self, out: &mut [u8]) {
        join(&self.ml_kem, &self.x25519, out);
    }
}

impl Deserializable for PublicKey {
    fn from_bytes(encoded: &[u8]) -> Result<Self, HpkeError> {
        let (ml_kem, x25519) = part::<ML_KEM_KEY>(encoded)?;
        if !mlkem768::validate_public_key(&MlKem768PublicKey::from(ml_kem)) {
            return Err(HpkeError::ValidationError);
        }
        Ok(Self {
            ml_kem: *ml_kem,
            x25519,
        })
    }
}

impl Serializable for EncappedKey {
    type OutputSize = U1120;

    fn write_exact(&self, out: &mut [u8]) {
        join(self.ml_kem.as_slice(), &self.x25519, out);
    }
}

impl Deserializable for EncappedKey {
    fn from_bytes(encoded: &[u8]) -> Result<Self, HpkeError> {
        let (ml_kem, x25519) = part::<ML_KEM_CIPHERTEXT>(encoded)?;
        Ok(Self {
            ml_kem: ml_kem.into(),
            x25519,
        })
    }
}

/// ML-KEM's part comes first, X25519's 32 bytes after it.
fn part<const ML_KEM: usize>(encoded: &[u8]) -> Result<(&[u8; ML_KEM], X25519Key), HpkeError> {
    let wrong = HpkeError::IncorrectInputLength(ML_KEM + 32, encoded.len());
    let Some((ml_kem, x25519)) = encoded.split_first_chunk::<ML_KEM>() else {
        return Err(wrong);
    };
    Ok((ml_kem, X25519Key::try_from(x25519).map_err(|_| wrong)?))
}

/// Panics if `out` is not as long as both together, as [`Serializable::write_exact`] requires.
fn join(ml_kem: &[u8], x25519: &X25519Key, out: &mut [u8]) {
    let (first, rest) = out.split_at_mut(ml_kem.len());
    first.copy_from_slice(ml_kem);
    rest.copy_from_slice(x25519);
}
