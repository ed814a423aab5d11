//! Keys that sign notes. The name and the key ID select a key, and the ID also binds the algorithm:
//!
//! ```text
//! key ID       SHA-256(NAME ‖ 0x0A ‖ type ‖ public key)[:4]
//! public key   NAME+hex(key ID)+base64(type ‖ public key)
//! private key  PRIVATE+KEY+NAME+hex(key ID)+base64(type ‖ seed)
//! type         0x01: Ed25519 over the text (logs);  0x04: Ed25519 cosignature with a time (witnesses)
//!
//! cosignature  u64 time ‖ Ed25519("cosignature/v1\ntime " ‖ decimal time ‖ "\n" ‖ text)
//! ```

use std::fmt;

use base64ct::{Base64, Encoding as _};
use ed25519_dalek::{Signature as Ed25519, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::lines::base64;
use crate::note::{Note, Signature, is_name};

/// Prefix of a private key.
const PRIVATE: &str = "PRIVATE+KEY+";
/// Largest time that a cosignature may state.
const MAX_TIME: u64 = i64::MAX as u64;

/// Why a text is not a key, or a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum KeyError {
    /// Not of the format, or its ID is that of another key.
    #[error("this is not a key of the form NAME+ID+KEY")]
    #[coded(
        "NOTE_KEY_MALFORMED",
        remedy = "Copy the whole key: name, eight hex digits and base64, with + between them."
    )]
    Malformed,
    /// An algorithm that is not implemented, such as ML-DSA-44.
    #[error("the key's type {0:#04x} is not one of 0x01 (Ed25519) and 0x04 (Ed25519 cosignature)")]
    #[coded(
        "NOTE_KEY_UNSUPPORTED",
        remedy = "Use an Ed25519 key of the same log or witness."
    )]
    Unsupported(u8),
    /// The note holds no signature of this key.
    #[error("the note is not signed with this key")]
    #[coded(
        "NOTE_UNSIGNED",
        remedy = "Check that the note and the key belong to the same log or witness."
    )]
    Unsigned,
    /// A signature that names this key is not one of it.
    #[error("a signature that names this key does not fit the text")]
    #[coded(
        "NOTE_SIG_FAILED",
        remedy = "Do not rely on the note: it was changed, or signed without the key that it names."
    )]
    Signature,
}

/// Use of a key, which its ID binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// Signs texts, as logs do.
    Log,
    /// Cosigns checkpoints with the time, as witnesses do.
    Witness,
}

impl Use {
    const fn type_byte(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Witness => 4,
        }
    }

    fn from_byte(byte: u8) -> Result<Self, KeyError> {
        match byte {
            1 => Ok(Self::Log),
            4 => Ok(Self::Witness),
            other => Err(KeyError::Unsupported(other)),
        }
    }
}

/// Computes the ID of a key.
fn key_id(name: &str, r#use: Use, public: &[u8; 32]) -> u32 {
    let digest: [u8; 32] = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', r#use.type_byte()])
        .chain_update(public)
        .finalize()
        .into();
    let [a, b, c, d, ..] = digest;
    u32::from_be_bytes([a, b, c, d])
}

/// Splits `NAME+ID+KEY`, and returns name, ID, type and the 32 bytes of the key.
fn split_key(text: &str) -> Result<(&str, u32, Use, [u8; 32]), KeyError> {
    let (name, rest) = text.split_once('+').ok_or(KeyError::Malformed)?;
    let (id, key) = rest.split_once('+').ok_or(KeyError::Malformed)?;
    let mut id_bytes = [0; 4];
    let has_id = base16ct::lower::decode(id, &mut id_bytes).is_ok_and(|read| read.len() == 4);
    let key = Base64::decode_vec(key).map_err(|_| KeyError::Malformed)?;
    let (&byte, key) = key.split_first().ok_or(KeyError::Malformed)?;
    if !has_id || !is_name(name) {
        return Err(KeyError::Malformed);
    }
    let r#use = Use::from_byte(byte)?;
    let key = key.try_into().map_err(|_| KeyError::Malformed)?;
    Ok((name, u32::from_be_bytes(id_bytes), r#use, key))
}

/// A public key, which verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    name: String,
    id: u32,
    r#use: Use,
    key: VerifyingKey,
}

impl Verifier {
    fn new(name: &str, r#use: Use, public: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(public)
            .ok()
            // Not canonical, or of small order: two verifiers could disagree.
            .filter(|key| !key.is_weak() && key.to_edwards().compress().as_bytes() == public)
            .ok_or(KeyError::Malformed)?;
        Ok(Self {
            name: name.to_owned(),
            id: key_id(name, r#use, public),
            r#use,
            key,
        })
    }

    /// Reads a public key.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] or [`KeyError::Unsupported`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let (name, id, r#use, public) = split_key(text)?;
        let found = Self::new(name, r#use, &public)?;
        match found.id == id {
            true => Ok(found),
            false => Err(KeyError::Malformed),
        }
    }

    /// Name of the key: a log's origin, or a witness's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Key ID.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Use of the key.
    pub fn key_use(&self) -> Use {
        self.r#use
    }

    /// The 32 bytes of the public key.
    pub fn public_key(&self) -> [u8; 32] {
        self.key.to_bytes()
    }

    /// Verifies the note's signatures of this key, and returns the time of a cosignature, the latest where there are several; 0 for
    /// a log's signature. Strict (RFC 8032 §5.1.7, cofactorless).
    ///
    /// # Errors
    /// [`KeyError::Unsigned`]; [`KeyError::Signature`] where one of them is wrong, whatever the others are.
    pub fn verify(&self, note: &Note) -> Result<u64, KeyError> {
        let own = note
            .signatures()
            .iter()
            .filter(|signature| signature.name() == self.name && signature.id() == self.id);
        let mut latest = None;
        for signature in own {
            let time = self
                .verify_one(note.text(), signature.bytes())
                .ok_or(KeyError::Signature)?;
            latest = latest.max(Some(time));
        }
        latest.ok_or(KeyError::Unsigned)
    }

    fn verify_one(&self, text: &str, bytes: &[u8]) -> Option<u64> {
        let (time, signature, message) = match self.r#use {
            Use::Log => (0, bytes, text.to_owned()),
            Use::Witness => {
                let (time, signature) = bytes.split_first_chunk()?;
                let time = u64::from_be_bytes(*time);
                // Without a time, a cosignature does not state that this is the largest tree.
                if time == 0 || time > MAX_TIME {
                    return None;
                }
                (time, signature, cosigned_message(time, text))
            }
        };
        let signature = Ed25519::from_slice(signature).ok()?;
        self.key
            .verify_strict(message.as_bytes(), &signature)
            .ok()?;
        Some(time)
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, self.id, self.r#use, self.key.as_bytes())
    }
}

fn write_key(
    out: &mut impl fmt::Write,
    name: &str,
    id: u32,
    r#use: Use,
    key: &[u8; 32],
) -> fmt::Result {
    let bytes = [&[r#use.type_byte()][..], key].concat();
    write!(out, "{name}+{id:08x}+{}", base64(&bytes))
}

fn cosigned_message(time: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

/// A private key. It is overwritten when it is dropped.
pub struct Signer {
    public: Verifier,
    key: SigningKey,
}

impl Signer {
    /// Makes a key of 32 random bytes.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] where the name is not one of a key.
    pub fn from_seed(name: &str, r#use: Use, seed: &[u8; 32]) -> Result<Self, KeyError> {
        if !is_name(name) {
            return Err(KeyError::Malformed);
        }
        let key = SigningKey::from_bytes(seed);
        let public = Verifier::new(name, r#use, &key.verifying_key().to_bytes())?;
        Ok(Self { public, key })
    }

    /// Reads a private key, of the form that Go's `note.GenerateKey` writes.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] or [`KeyError::Unsupported`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.strip_prefix(PRIVATE).ok_or(KeyError::Malformed)?;
        let (name, id, r#use, seed) = split_key(text)?;
        let found = Self::from_seed(name, r#use, &seed)?;
        match found.public.id == id {
            true => Ok(found),
            false => Err(KeyError::Malformed),
        }
    }

    /// Writes the private key.
    pub fn to_private(&self) -> String {
        let mut out = PRIVATE.to_owned();
        let Verifier {
            name, id, r#use, ..
        } = &self.public;
        // A String takes everything that is written to it.
        let _ = write_key(&mut out, name, *id, *r#use, self.key.as_bytes());
        out
    }

    /// The public half.
    pub fn verifier(&self) -> &Verifier {
        &self.public
    }

    /// Signs a text. `time`, in Unix seconds, becomes part of a witness's cosignature; a log's signature ignores it.
    pub fn sign(&self, text: &str, time: u64) -> Signature {
        let bytes = match self.public.r#use {
            Use::Log => self.key.sign(text.as_bytes()).to_vec(),
            Use::Witness => {
                let time = time.clamp(1, MAX_TIME);
                let signature = self.key.sign(cosigned_message(time, text).as_bytes());
                [&time.to_be_bytes()[..], &signature.to_bytes()].concat()
            }
        };
        Signature::new(&self.public.name, self.public.id, bytes)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public)
    }
}
