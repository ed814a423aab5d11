//! The enclave's half: private keys, opening requests, sealing responses.

use attestation::{Aead, Kdf, Kem, KeyConfig};
use hpke::Serializable;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

#[cfg(not(target_family = "wasm"))]
use super::chunked::{self, ChunkError, ChunkSealer};
use super::suite::{self, Suite};
use super::{
    HEADER_LEN, MAX_ENCAPSULATED, REQUEST_LABEL, SealError, X25519, XWing, info, response,
};

/// One key pair per key encapsulation mechanism. Holds secrets: no `Debug`, no `Clone`; zeroized when dropped.
pub struct GatewayKeys {
    x_wing: KeyPair<XWing>,
    x25519: KeyPair<X25519>,
}

/// An opened request.
pub struct Opened {
    /// The inner message, padding included.
    pub inner: Vec<u8>,
    /// The encapsulated key: fresh for each honest request, so the replay window stores it.
    pub enc: Vec<u8>,
}

/// Seals the answer to one request; made by [`GatewayKeys::open`].
pub struct ResponseSealer {
    aead: Aead,
    enc: Vec<u8>,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

struct KeyPair<K: hpke::Kem> {
    // Both private key types of `hpke` zeroize themselves when dropped.
    secret: K::PrivateKey,
    config: KeyConfig,
}

impl GatewayKeys {
    /// Generates key pairs: X-Wing under `first_key_id`, X25519 under the identifier after it (255 is followed by 0).
    pub fn generate(first_key_id: u8, rng: &mut impl CryptoRng) -> Self {
        Self {
            x_wing: KeyPair::generate(first_key_id, Kem::XWing, rng),
            x25519: KeyPair::generate(first_key_id.wrapping_add(1), Kem::X25519, rng),
        }
    }

    /// The key configurations for clients, in order of preference.
    pub fn configs(&self) -> Vec<KeyConfig> {
        vec![self.x_wing.config.clone(), self.x25519.config.clone()]
    }

    /// Opens an encapsulated request (RFC 9458 §4.3).
    ///
    /// # Errors
    /// [`SealError::UnknownKey`], to be answered with the problem of RFC 9458 §5.3. Any other [`SealError`] means
    /// that no honest client sealed these bytes to this gateway.
    pub fn open(&self, sealed: &[u8]) -> Result<(Opened, ResponseSealer), SealError> {
        self.open_labelled(sealed, REQUEST_LABEL)
    }

    /// Like [`open`](Self::open), for a message that was sealed under another label.
    pub(crate) fn open_labelled(
        &self,
        sealed: &[u8],
        label: &[u8],
    ) -> Result<(Opened, ResponseSealer), SealError> {
        if sealed.len() > MAX_ENCAPSULATED {
            return Err(SealError::TooLarge);
        }
        let (header, rest) = sealed
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(SealError::Truncated)?;
        match header[0] {
            id if id == self.x_wing.config.key_id => self.x_wing.open(label, header, rest),
            id if id == self.x25519.config.key_id => self.x25519.open(label, header, rest),
            id => Err(SealError::UnknownKey(id)),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
impl GatewayKeys {
    /// Opens an encapsulated request in chunks (draft-ietf-ohai-chunked-ohttp-08 §6.1) that has arrived as a whole.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] as for [`open`](Self::open); any other [`ChunkError`] means that no honest client sealed these
    /// bytes to this gateway.
    pub fn open_chunked(&self, sealed: &[u8]) -> Result<(Opened, ChunkSealer), ChunkError> {
        if sealed.len() > MAX_ENCAPSULATED {
            return Err(SealError::TooLarge.into());
        }
        let (header, rest) = sealed
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(SealError::Truncated)?;
        match header[0] {
            id if id == self.x_wing.config.key_id => self.x_wing.open_chunked(header, rest),
            id if id == self.x25519.config.key_id => self.x25519.open_chunked(header, rest),
            id => Err(SealError::UnknownKey(id).into()),
        }
    }
}

impl ResponseSealer {
    /// Encapsulates the response (RFC 9458 §4.4).
    ///
    /// # Errors
    /// [`SealError::TooLarge`].
    pub fn seal(self, inner: &[u8], rng: &mut impl CryptoRng) -> Result<Vec<u8>, SealError> {
        response::seal(self.aead, &self.enc, &self.secret, inner, rng)
    }
}

const OFFERED: [(Kdf, Aead); 3] = [
    (Kdf::HkdfSha256, Aead::Aes256Gcm),
    (Kdf::HkdfSha256, Aead::Aes128Gcm),
    (Kdf::HkdfSha256, Aead::ChaCha20Poly1305),
];

impl<K: hpke::Kem> KeyPair<K> {
    fn generate(key_id: u8, kem: Kem, rng: &mut impl CryptoRng) -> Self {
        let (secret, public) = K::gen_keypair_with_rng(rng);
        Self::new(key_id, kem, secret, &public)
    }

    fn new(key_id: u8, kem: Kem, secret: K::PrivateKey, public: &K::PublicKey) -> Self {
        let config = KeyConfig {
            key_id,
            kem,
            public_key: public.to_bytes().to_vec(),
            symmetric: OFFERED.to_vec(),
        };
        Self { secret, config }
    }

    /// The whole header must be one that this key would produce, so a swapped suite never reaches a primitive.
    #[inline]
    fn suite(&self, header: &[u8; HEADER_LEN]) -> Result<Suite, SealError> {
        self.config
            .symmetric
            .iter()
            .map(|(_, aead)| Suite {
                kem: self.config.kem,
                aead: *aead,
            })
            .find(|suite| suite.header(self.config.key_id) == *header)
            .ok_or(SealError::UnsupportedSuite)
    }

    fn open(
        &self,
        label: &[u8],
        header: &[u8; HEADER_LEN],
        rest: &[u8],
    ) -> Result<(Opened, ResponseSealer), SealError> {
        let suite = self.suite(header)?;
        let (enc, ciphertext) = rest
            .split_at_checked(suite.enc_len())
            .ok_or(SealError::Truncated)?;
        let (inner, secret) = suite::open::<K>(
            suite.aead,
            &self.secret,
            &info(label, header),
            enc,
            ciphertext,
        )?;
        let enc = enc.to_vec();
        Ok((
            Opened {
                inner,
                enc: enc.clone(),
            },
            ResponseSealer {
                aead: suite.aead,
                enc,
                secret,
            },
        ))
    }
}

#[cfg(not(target_family = "wasm"))]
impl<K: hpke::Kem + 'static> KeyPair<K> {
    fn open_chunked(
        &self,
        header: &[u8; HEADER_LEN],
        rest: &[u8],
    ) -> Result<(Opened, ChunkSealer), ChunkError> {
        let suite = self.suite(header)?;
        let (enc, chunks) = rest
            .split_at_checked(suite.enc_len())
            .ok_or(SealError::Truncated)?;
        let info = info(chunked::REQUEST_LABEL, header);
        let mut receiver = suite::receive_chunks::<K>(suite.aead, &self.secret, &info, enc)?;
        let inner = chunked::open_request(&mut *receiver, chunks)?;
        let secret = receiver.export(response::secret_len(suite.aead))?;
        let enc = enc.to_vec();
        Ok((
            Opened {
                inner,
                enc: enc.clone(),
            },
            ChunkSealer {
                aead: suite.aead,
                enc,
                secret,
            },
        ))
    }
}

#[cfg(test)]
impl GatewayKeys {
    /// A gateway whose X25519 key comes from a published example.
    pub(super) fn with_x25519_secret(key_id: u8, secret: &[u8], rng: &mut impl CryptoRng) -> Self {
        use hpke::{Deserializable, Kem as _};
        let secret = <X25519 as hpke::Kem>::PrivateKey::from_bytes(secret).unwrap();
        let public = X25519::sk_to_pk(&secret);
        Self {
            x_wing: KeyPair::generate(key_id.wrapping_add(100), Kem::XWing, rng),
            x25519: KeyPair::new(key_id, Kem::X25519, secret, &public),
        }
    }
}
