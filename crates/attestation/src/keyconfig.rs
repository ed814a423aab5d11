//! Key configurations of Oblivious HTTP (RFC 9458 §3): how an enclave names the keys that requests are sealed to.

/// Largest key list (`application/ohttp-keys`) in bytes: enough for a few keys.
pub const MAX_KEY_LIST: usize = 8 * 1024;

/// Key encapsulation mechanisms of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kem {
    /// X-Wing: X25519 with ML-KEM-768. Preferred, because recorded traffic may be attacked with quantum computers later.
    XWing,
    /// DHKEM(X25519, HKDF-SHA256) (RFC 9180 §7.1).
    X25519,
}

impl Kem {
    /// In the order of preference.
    pub const ALL: [Self; 2] = [Self::XWing, Self::X25519];

    /// Number in the HPKE registry.
    pub const fn id(self) -> u16 {
        match self {
            Self::XWing => 0x647a,
            Self::X25519 => 0x0020,
        }
    }

    /// The mechanism with this number, if this protocol uses it.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kem| kem.id() == id)
    }

    /// Length of a public key (Npk), bytes.
    pub const fn public_key_len(self) -> usize {
        match self {
            Self::XWing => 1216,
            Self::X25519 => 32,
        }
    }

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::XWing => "X-Wing",
            Self::X25519 => "X25519",
        }
    }
}

/// Key derivation functions of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kdf {
    /// HKDF-SHA256 (RFC 9180 §7.2).
    HkdfSha256,
}

impl Kdf {
    /// Number in the HPKE registry.
    pub const fn id(self) -> u16 {
        1
    }

    /// The function with this number, if this protocol uses it.
    pub fn from_id(id: u16) -> Option<Self> {
        (id == 1).then_some(Self::HkdfSha256)
    }
}

/// Authenticated ciphers of this protocol (RFC 9180 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aead {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Aead {
    /// Every cipher.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Number in the HPKE registry.
    pub const fn id(self) -> u16 {
        match self {
            Self::Aes128Gcm => 1,
            Self::Aes256Gcm => 2,
            Self::ChaCha20Poly1305 => 3,
        }
    }

    /// The cipher with this number, if this protocol uses it.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|aead| aead.id() == id)
    }
}

/// One public key and the symmetric suites that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConfig {
    /// Identifies the key in requests.
    pub key_id: u8,
    /// The mechanism that the key is for.
    pub kem: Kem,
    /// [`Kem::public_key_len`] bytes.
    pub public_key: Vec<u8>,
    /// In the server's order of preference; never empty.
    pub symmetric: Vec<(Kdf, Aead)>,
}

/// Why a key list cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyConfigError {
    /// Lengths that do not match the data.
    #[error("the key list is cut short or has bytes left over")]
    Malformed,
    /// More than [`MAX_KEY_LIST`].
    #[error("the key list is longer than {MAX_KEY_LIST} bytes")]
    TooLong,
    /// A public key of another length than its mechanism has, or no symmetric suite.
    #[error("a key configuration does not fit its mechanism")]
    Inconsistent,
}

impl KeyConfig {
    /// Writes an `application/ohttp-keys` list (RFC 9458 §3.1 and §3.2).
    pub fn encode_list(configs: &[Self]) -> Result<Vec<u8>, KeyConfigError> {
        let mut out = Vec::new();
        for config in configs {
            let encoded = config.encode()?;
            let length = u16::try_from(encoded.len()).map_err(|_| KeyConfigError::TooLong)?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&encoded);
        }
        if out.len() > MAX_KEY_LIST {
            Err(KeyConfigError::TooLong)
        } else {
            Ok(out)
        }
    }

    /// Reads an `application/ohttp-keys` list. Skips configurations and suites that this version does not know, as
    /// RFC 9458 §3.2 requires; those that it knows must be valid.
    pub fn decode_list(bytes: &[u8]) -> Result<Vec<Self>, KeyConfigError> {
        if bytes.len() > MAX_KEY_LIST {
            return Err(KeyConfigError::TooLong);
        }
        let mut rest = Cursor(bytes);
        let mut configs = Vec::new();
        while !rest.0.is_empty() {
            let length = rest.u16()?;
            configs.extend(Self::decode(rest.take(usize::from(length))?)?);
        }
        Ok(configs)
    }

    fn encode(&self) -> Result<Vec<u8>, KeyConfigError> {
        if self.public_key.len() != self.kem.public_key_len() || self.symmetric.is_empty() {
            return Err(KeyConfigError::Inconsistent);
        }
        let suites =
            u16::try_from(self.symmetric.len() * 4).map_err(|_| KeyConfigError::TooLong)?;
        let mut out = vec![self.key_id];
        out.extend_from_slice(&self.kem.id().to_be_bytes());
        out.extend_from_slice(&self.public_key);
        out.extend_from_slice(&suites.to_be_bytes());
        for (kdf, aead) in &self.symmetric {
            out.extend_from_slice(&kdf.id().to_be_bytes());
            out.extend_from_slice(&aead.id().to_be_bytes());
        }
        Ok(out)
    }

    /// One configuration; `None` if this version knows nothing in it.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, KeyConfigError> {
        let mut rest = Cursor(bytes);
        let key_id = rest.take(1)?[0];
        // The key length of an unknown mechanism is unknown too, so the whole configuration is skipped.
        let Some(kem) = Kem::from_id(rest.u16()?) else {
            return Ok(None);
        };
        let public_key = rest.take(kem.public_key_len())?.to_vec();
        let length = usize::from(rest.u16()?);
        let suites = rest.take(length)?;
        // RFC 9458 §3.1: 4 bytes a suite, at least one.
        if !rest.0.is_empty() || suites.is_empty() || !suites.len().is_multiple_of(4) {
            return Err(KeyConfigError::Malformed);
        }
        let symmetric: Vec<_> = suites
            .chunks_exact(4)
            .filter_map(|suite| {
                let kdf = Kdf::from_id(u16::from_be_bytes([suite[0], suite[1]]))?;
                Some((
                    kdf,
                    Aead::from_id(u16::from_be_bytes([suite[2], suite[3]]))?,
                ))
            })
            .collect();
        Ok((!symmetric.is_empty()).then_some(Self {
            key_id,
            kem,
            public_key,
            symmetric,
        }))
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], KeyConfigError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(KeyConfigError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, KeyConfigError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}
