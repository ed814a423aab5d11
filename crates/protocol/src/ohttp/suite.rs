//! Maps identifiers received at run time to the types of the `hpke` crate, in one place.

use attestation::{Aead, Kdf, Kem, KeyConfig};
use hpke::aead::{AeadCtxR, AeadCtxS, ChaCha20Poly1305};
#[cfg(not(target_family = "wasm"))]
use hpke::aead::{AesGcm128, AesGcm256};
use hpke::inout::InOutBuf;
use hpke::kdf::HkdfSha256;
use hpke::{Deserializable, HpkeError, OpModeR, OpModeS, Serializable};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::{HEADER_LEN, SealError, TAG_LEN, X25519, XWing, response};

/// Runs `$body` with `$type` standing for the KEM of the `hpke` crate.
macro_rules! with_kem {
    ($kem:expr, $type:ident => $body:expr) => {
        match $kem {
            Kem::XWing => {
                type $type = XWing;
                $body
            }
            Kem::X25519 => {
                type $type = X25519;
                $body
            }
        }
    };
}

/// Runs `$body` with `$type` standing for the AEAD of the `hpke` crate. Pages have only ChaCha20-Poly1305.
macro_rules! with_aead {
    ($aead:expr, $type:ident => $body:expr) => {
        match $aead {
            #[cfg(not(target_family = "wasm"))]
            Aead::Aes128Gcm => {
                type $type = AesGcm128;
                $body
            }
            #[cfg(not(target_family = "wasm"))]
            Aead::Aes256Gcm => {
                type $type = AesGcm256;
                $body
            }
            Aead::ChaCha20Poly1305 => {
                type $type = ChaCha20Poly1305;
                $body
            }
            #[cfg(target_family = "wasm")]
            Aead::Aes128Gcm | Aead::Aes256Gcm => Err(SealError::UnsupportedSuite),
        }
    };
}

/// One combination of mechanisms (RFC 9180 §7). The derivation is HKDF-SHA256 in all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Suite {
    pub(super) kem: Kem,
    pub(super) aead: Aead,
}

impl Suite {
    pub(super) fn choose(config: &KeyConfig, preference: &[Aead]) -> Option<Self> {
        let aead = preference
            .iter()
            .find(|aead| config.symmetric.contains(&(Kdf::HkdfSha256, **aead)))?;
        Some(Self {
            kem: config.kem,
            aead: *aead,
        })
    }

    /// RFC 9458 §4.3: key identifier, KEM, KDF, AEAD.
    pub(super) fn header(self, key_id: u8) -> [u8; HEADER_LEN] {
        let [kem, kdf, aead] =
            [self.kem.id(), Kdf::HkdfSha256.id(), self.aead.id()].map(u16::to_be_bytes);
        [key_id, kem[0], kem[1], kdf[0], kdf[1], aead[0], aead[1]]
    }

    pub(super) fn enc_len(self) -> usize {
        with_kem!(self.kem, K => <K as hpke::Kem>::EncappedKey::size())
    }
}

/// A client's half of one exchange after key encapsulation, whatever its suite.
pub(super) trait Sender: Send {
    /// Encrypts the one message in place; returns its tag, and the secret from which the response's key will come.
    fn seal(
        self: Box<Self>,
        aead: Aead,
        message: &mut [u8],
    ) -> Result<([u8; TAG_LEN], Zeroizing<Vec<u8>>), SealError>;
}

impl<A: hpke::aead::Aead, K: hpke::Kem> Sender for AeadCtxS<A, HkdfSha256, K>
where
    Self: Send,
{
    fn seal(
        mut self: Box<Self>,
        aead: Aead,
        message: &mut [u8],
    ) -> Result<([u8; TAG_LEN], Zeroizing<Vec<u8>>), SealError> {
        let tag = self
            .seal_inout_detached(InOutBuf::from(message), b"")
            .map_err(|_| SealError::Internal)?;
        let tag = <[u8; TAG_LEN]>::try_from(tag.to_bytes().as_slice())
            .map_err(|_| SealError::Internal)?;
        let secret = export(aead, |label, secret| self.export(label, secret))?;
        Ok((tag, secret))
    }
}

/// Encapsulates a fresh key to `public_key`; returns `enc` and the sender.
pub(super) fn encapsulate(
    suite: Suite,
    public_key: &[u8],
    info: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Box<dyn Sender>), SealError> {
    with_kem!(suite.kem, K => with_aead!(suite.aead, A => {
        encapsulate_as::<K, A>(public_key, info, rng)
    }))
}

fn encapsulate_as<K, A>(
    public_key: &[u8],
    info: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Box<dyn Sender>), SealError>
where
    K: hpke::Kem + 'static,
    A: hpke::aead::Aead + 'static,
    AeadCtxS<A, HkdfSha256, K>: Sender,
{
    let recipient = K::PublicKey::from_bytes(public_key).map_err(|_| SealError::BadKey)?;
    // RFC 9180 §7.1.4: an all-zero shared secret is an error, which `hpke` raises here.
    let (enc, context): (_, AeadCtxS<A, HkdfSha256, K>) =
        hpke::setup_sender_with_rng(&OpModeS::Base, &recipient, info, rng)
            .map_err(|_| SealError::BadKey)?;
    Ok((enc.to_bytes().to_vec(), Box::new(context)))
}

/// The gateway's half: opens `rest`, which is `enc` and ciphertext.
pub(super) fn open<K: hpke::Kem>(
    aead: Aead,
    secret_key: &K::PrivateKey,
    info: &[u8],
    enc: &[u8],
    ciphertext: &[u8],
) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), SealError> {
    with_aead!(aead, A => open_as::<K, A>(aead, secret_key, info, enc, ciphertext))
}

fn open_as<K: hpke::Kem, A: hpke::aead::Aead>(
    aead: Aead,
    secret_key: &K::PrivateKey,
    info: &[u8],
    enc: &[u8],
    ciphertext: &[u8],
) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), SealError> {
    let encapped = K::EncappedKey::from_bytes(enc).map_err(|_| SealError::BadKey)?;
    let mut context: AeadCtxR<A, HkdfSha256, K> =
        hpke::setup_receiver(&OpModeR::Base, secret_key, &encapped, info)
            .map_err(|_| SealError::BadKey)?;
    if ciphertext.len() < TAG_LEN {
        return Err(SealError::Truncated);
    }
    let plaintext = context
        .open(ciphertext, b"")
        .map_err(|_| SealError::OpenFailed)?;
    Ok((
        plaintext,
        export(aead, |label, secret| context.export(label, secret))?,
    ))
}

/// RFC 9458 §4.4: secret = context.Export("message/bhttp response", max(Nn, Nk)).
fn export(
    aead: Aead,
    export: impl FnOnce(&[u8], &mut [u8]) -> Result<(), HpkeError>,
) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let mut secret = Zeroizing::new(vec![0; response::secret_len(aead)]);
    export(response::LABEL, &mut secret).map_err(|_| SealError::Internal)?;
    Ok(secret)
}

/// A client's half of one exchange in chunks.
#[cfg(not(target_family = "wasm"))]
pub(super) trait ChunkSender {
    /// Encrypts the next chunk in place; returns its tag.
    fn seal(&mut self, aad: &[u8], chunk: &mut [u8]) -> Result<[u8; TAG_LEN], SealError>;

    /// The secret of `length` bytes from which the response's key will come.
    fn export(&self, length: usize) -> Result<Zeroizing<Vec<u8>>, SealError>;
}

#[cfg(not(target_family = "wasm"))]
impl<A: hpke::aead::Aead, K: hpke::Kem> ChunkSender for AeadCtxS<A, HkdfSha256, K> {
    fn seal(&mut self, aad: &[u8], chunk: &mut [u8]) -> Result<[u8; TAG_LEN], SealError> {
        let tag = self.seal_inout_detached(InOutBuf::from(chunk), aad);
        let tag = tag.map_err(|_| SealError::Internal)?;
        <[u8; TAG_LEN]>::try_from(tag.to_bytes().as_slice()).map_err(|_| SealError::Internal)
    }

    fn export(&self, length: usize) -> Result<Zeroizing<Vec<u8>>, SealError> {
        export_for_chunks(length, |label, secret| self.export(label, secret))
    }
}

/// The gateway's half.
#[cfg(not(target_family = "wasm"))]
pub(super) trait ChunkReceiver {
    /// Decrypts the next chunk in place.
    fn open(&mut self, aad: &[u8], chunk: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), SealError>;

    /// See [`ChunkSender::export`].
    fn export(&self, length: usize) -> Result<Zeroizing<Vec<u8>>, SealError>;
}

#[cfg(not(target_family = "wasm"))]
impl<A: hpke::aead::Aead, K: hpke::Kem> ChunkReceiver for AeadCtxR<A, HkdfSha256, K> {
    fn open(&mut self, aad: &[u8], chunk: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), SealError> {
        let tag = hpke::aead::AeadTag::<A>::from_bytes(tag).map_err(|_| SealError::Internal)?;
        self.open_inout_detached(InOutBuf::from(chunk), aad, &tag)
            .map_err(|_| SealError::OpenFailed)
    }

    fn export(&self, length: usize) -> Result<Zeroizing<Vec<u8>>, SealError> {
        export_for_chunks(length, |label, secret| self.export(label, secret))
    }
}

#[cfg(not(target_family = "wasm"))]
fn export_for_chunks(
    length: usize,
    export: impl FnOnce(&[u8], &mut [u8]) -> Result<(), HpkeError>,
) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let mut secret = Zeroizing::new(vec![0; length]);
    export(super::chunked::RESPONSE_LABEL, &mut secret).map_err(|_| SealError::Internal)?;
    Ok(secret)
}

/// Like [`encapsulate`], for a message in chunks.
#[cfg(not(target_family = "wasm"))]
pub(super) fn encapsulate_chunks(
    suite: Suite,
    public_key: &[u8],
    info: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Box<dyn ChunkSender>), SealError> {
    with_kem!(suite.kem, K => with_aead!(suite.aead, A => {
        encapsulate_chunks_as::<K, A>(public_key, info, rng)
    }))
}

#[cfg(not(target_family = "wasm"))]
fn encapsulate_chunks_as<K: hpke::Kem + 'static, A: hpke::aead::Aead + 'static>(
    public_key: &[u8],
    info: &[u8],
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, Box<dyn ChunkSender>), SealError> {
    let recipient = K::PublicKey::from_bytes(public_key).map_err(|_| SealError::BadKey)?;
    // RFC 9180 §7.1.4: an all-zero shared secret is an error, which `hpke` raises here.
    let (enc, context): (_, AeadCtxS<A, HkdfSha256, K>) =
        hpke::setup_sender_with_rng(&OpModeS::Base, &recipient, info, rng)
            .map_err(|_| SealError::BadKey)?;
    Ok((enc.to_bytes().to_vec(), Box::new(context)))
}

/// The gateway's context of a message in chunks.
#[cfg(not(target_family = "wasm"))]
pub(super) fn receive_chunks<K: hpke::Kem + 'static>(
    aead: Aead,
    secret_key: &K::PrivateKey,
    info: &[u8],
    enc: &[u8],
) -> Result<Box<dyn ChunkReceiver>, SealError> {
    with_aead!(aead, A => receive_chunks_as::<K, A>(secret_key, info, enc))
}

#[cfg(not(target_family = "wasm"))]
fn receive_chunks_as<K: hpke::Kem + 'static, A: hpke::aead::Aead + 'static>(
    secret_key: &K::PrivateKey,
    info: &[u8],
    enc: &[u8],
) -> Result<Box<dyn ChunkReceiver>, SealError> {
    let encapped = K::EncappedKey::from_bytes(enc).map_err(|_| SealError::BadKey)?;
    let context: AeadCtxR<A, HkdfSha256, K> =
        hpke::setup_receiver(&OpModeR::Base, secret_key, &encapped, info)
            .map_err(|_| SealError::BadKey)?;
    Ok(Box::new(context))
}
