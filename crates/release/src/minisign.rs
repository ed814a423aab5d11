//! Signatures in minisign's format (its manual page, "Signature format" and "Public key format"): an Ed25519 signature over
//! BLAKE2b-512 of the file, and a second one over the first and the trusted comment, which states the time of signing.

use base64ct::{Base64, Encoding};
use blake2::{Blake2b512, Digest};
use ed25519_dalek::{Signature as Ed25519, Signer, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

/// Longest accepted text of a key or signature in bytes.
pub const MAX_TEXT: usize = 8192;
const KEY_ALGORITHM: &[u8; 2] = b"Ed";
/// Signature over the file's hash. The older form, over the file itself, is refused; minisign has not written it since 2022.
const SIGNATURE_ALGORITHM: &[u8; 2] = b"ED";
const COMMENT: &str = "untrusted comment: ";
const TRUSTED: &str = "trusted comment: ";

/// Identifier of a key; it is not secret, and proves nothing.
pub type KeyId = [u8; 8];

/// Why a key or a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum SignatureError {
    /// The text is not a key.
    #[error("the publisher's key is not a minisign key")]
    #[coded(
        "RELEASE_KEY_MALFORMED",
        remedy = "Pass the publisher's key: two lines, or the second of them, as in RW…."
    )]
    Key,
    /// The secret key is encrypted with a password.
    #[error("the secret key is encrypted")]
    #[coded(
        "RELEASE_KEY_ENCRYPTED",
        remedy = "Sign with minisign itself, which asks for the password: minisign -S -m MANIFEST."
    )]
    KeyEncrypted,
    /// The text is not a signature.
    #[error("the signature is not a minisign signature over a hashed file")]
    #[coded(
        "RELEASE_SIGNATURE_MALFORMED",
        remedy = "Check which file this is; it has four lines."
    )]
    Malformed,
    /// The signature is by another key.
    #[error("the release is signed by another key than the publisher's")]
    #[coded(
        "RELEASE_KEY_OTHER",
        remedy = "Do not trust the release. If its publisher has a new key, get that from where you got the first."
    )]
    OtherKey,
    /// The signature does not fit the file and its comment.
    #[error("the signature is not over this release manifest and its comment")]
    #[coded(
        "RELEASE_SIGNATURE_INVALID",
        remedy = "Do not trust the release: it was changed after it was signed, or never signed."
    )]
    Invalid,
    /// The signature states no time.
    #[error("the signature does not state when it was made")]
    #[coded(
        "RELEASE_NOT_DATED",
        remedy = "Sign the manifest again, with a trusted comment that begins with timestamp:UNIX-SECONDS, as minisign writes it by itself."
    )]
    NotDated,
}

/// A publisher's public key.
#[derive(Clone, Debug)]
pub struct PublicKey {
    id: KeyId,
    key: VerifyingKey,
}

impl PublicKey {
    /// Reads the two lines of a key file, or only the second.
    ///
    /// # Errors
    /// [`SignatureError::Key`].
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let bytes: [u8; 42] = decode_key(text)?
            .as_slice()
            .try_into()
            .map_err(|_| SignatureError::Key)?;
        let (algorithm, rest) = bytes.split_at(2);
        let (id, key) = rest.split_at(8);
        if algorithm != KEY_ALGORITHM {
            return Err(SignatureError::Key);
        }
        let key = key.try_into().map_err(|_| SignatureError::Key)?;
        Ok(Self {
            id: id.try_into().map_err(|_| SignatureError::Key)?,
            key: VerifyingKey::from_bytes(&key).map_err(|_| SignatureError::Key)?,
        })
    }

    /// The two lines of a key file.
    pub fn to_text(&self) -> String {
        let bytes = [&KEY_ALGORITHM[..], &self.id, self.key.as_bytes()].concat();
        format!(
            "{COMMENT}minisign public key {}\n{}\n",
            base16ct::upper::encode_string(&reverse(self.id)),
            Base64::encode_string(&bytes)
        )
    }

    /// Verifies a signature over a file.
    ///
    /// # Errors
    /// [`SignatureError`].
    pub fn verify(&self, file: &[u8], signature: &Signature) -> Result<Signed, SignatureError> {
        if signature.id != self.id {
            return Err(SignatureError::OtherKey);
        }
        let verify = |message: &[u8], bytes: &[u8; 64]| {
            self.key
                .verify_strict(message, &Ed25519::from_bytes(bytes))
                .map_err(|_| SignatureError::Invalid)
        };
        verify(&Blake2b512::digest(file), &signature.over_file)?;
        verify(&signature.over_comment(), &signature.over_all)?;
        Ok(Signed {
            at: parse_timestamp(&signature.comment).ok_or(SignatureError::NotDated)?,
        })
    }
}

/// Content of a verified signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    /// Time of signing by the publisher's clock, in Unix seconds.
    pub at: u64,
}

/// A signature that is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    id: KeyId,
    over_file: [u8; 64],
    comment: String,
    over_all: [u8; 64],
}

impl Signature {
    /// Reads the four lines of a signature file.
    ///
    /// # Errors
    /// [`SignatureError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        Self::read(text).ok_or(SignatureError::Malformed)
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let mut lines = skip_byte_order_mark(text).lines();
        lines.next()?.strip_prefix(COMMENT)?;
        let first = Base64::decode_vec(lines.next()?).ok()?;
        let comment = lines.next()?.strip_prefix(TRUSTED)?.to_owned();
        let second = Base64::decode_vec(lines.next()?).ok()?;
        if lines.any(|line| !line.is_empty()) {
            return None;
        }
        let (algorithm, rest) = first.split_at_checked(2)?;
        let (id, over_file) = rest.split_at_checked(8)?;
        (algorithm == SIGNATURE_ALGORITHM).then_some(())?;
        Some(Self {
            id: id.try_into().ok()?,
            over_file: over_file.try_into().ok()?,
            comment,
            over_all: second.as_slice().try_into().ok()?,
        })
    }

    /// The four lines of a signature file.
    pub fn to_text(&self) -> String {
        let first = [&SIGNATURE_ALGORITHM[..], &self.id, &self.over_file].concat();
        format!(
            "{COMMENT}signature of a release\n{}\n{TRUSTED}{}\n{}\n",
            Base64::encode_string(&first),
            self.comment,
            Base64::encode_string(&self.over_all)
        )
    }

    fn over_comment(&self) -> Vec<u8> {
        [&self.over_file[..], self.comment.as_bytes()].concat()
    }
}

/// A publisher's secret key without a password (`minisign -G -W`).
pub struct SecretKey {
    id: KeyId,
    key: SigningKey,
}

impl SecretKey {
    /// A key from random bytes.
    pub fn from_random(id: KeyId, seed: &[u8; 32]) -> Self {
        Self {
            id,
            key: SigningKey::from_bytes(seed),
        }
    }

    /// Reads a key file without a password.
    ///
    /// # Errors
    /// [`SignatureError::Key`], [`SignatureError::KeyEncrypted`].
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        // Lengths: algorithm 2, key derivation 2, checksum algorithm 2, salt 32, limits 16, identifier 8, seed and key 64, checksum 32.
        let bytes = Zeroizing::new(decode_key(text)?);
        let bytes: &[u8; 158] = bytes
            .as_slice()
            .try_into()
            .map_err(|_| SignatureError::Key)?;
        let (head, rest) = bytes.split_at(6);
        let (_, rest) = rest.split_at(48);
        let (id, rest) = rest.split_at(8);
        let (seed, rest) = rest.split_at(32);
        let (public, _) = rest.split_at(32);
        match head {
            b"Ed\0\0B2" => {}
            b"EdScB2" => return Err(SignatureError::KeyEncrypted),
            _ => return Err(SignatureError::Key),
        }
        let seed: &[u8; 32] = seed.try_into().map_err(|_| SignatureError::Key)?;
        let id = id.try_into().map_err(|_| SignatureError::Key)?;
        let secret = Self::from_random(id, seed);
        if secret.key.verifying_key().as_bytes() == public {
            Ok(secret)
        } else {
            Err(SignatureError::Key)
        }
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey {
            id: self.id,
            key: self.key.verifying_key(),
        }
    }

    /// Signs a file; `at` is the stated time in Unix seconds.
    pub fn sign(&self, file: &[u8], at: u64) -> Signature {
        let over_file = self.key.sign(&Blake2b512::digest(file)).to_bytes();
        let mut signature = Signature {
            id: self.id,
            over_file,
            comment: format!("timestamp:{at}\thashed"),
            over_all: [0; 64],
        };
        signature.over_all = self.key.sign(&signature.over_comment()).to_bytes();
        signature
    }
}

fn decode_key(text: &str) -> Result<Vec<u8>, SignatureError> {
    if text.len() > MAX_TEXT {
        return Err(SignatureError::Key);
    }
    let mut lines = skip_byte_order_mark(text)
        .lines()
        .filter(|line| !line.trim().is_empty());
    let line = match (lines.next(), lines.next(), lines.next()) {
        (Some(comment), Some(key), None) if comment.starts_with(COMMENT) => key,
        (Some(key), None, None) => key,
        _ => return Err(SignatureError::Key),
    };
    Base64::decode_vec(line.trim()).map_err(|_| SignatureError::Key)
}

/// Skips a byte order mark, which some editors write.
fn skip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads `timestamp:1700000000` at the start of a comment, alone or before a tab.
fn parse_timestamp(comment: &str) -> Option<u64> {
    let first = comment.split('\t').next()?;
    let digits = first.strip_prefix("timestamp:")?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    digits.parse().ok()
}

/// Reverses an identifier, because minisign shows identifiers as little-endian numbers.
fn reverse(mut id: KeyId) -> KeyId {
    id.reverse();
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: u64 = 1_800_000_000;

    fn key() -> SecretKey {
        SecretKey::from_random([1, 2, 3, 4, 5, 6, 7, 8], &[9; 32])
    }

    #[test]
    fn a_signature_verifies_and_states_its_time() {
        let text = key().sign(b"manifest", AT).to_text();
        let public = PublicKey::parse(&key().public().to_text()).unwrap();
        let signature = Signature::parse(&text).unwrap();
        let signed = public.verify(b"manifest", &signature).unwrap();
        assert_eq!(signed.at, AT);
        // The second line of a key is accepted alone, so that it can be passed on a command line.
        let text = key().public().to_text();
        let line = text.lines().nth(1).unwrap();
        PublicKey::parse(line).unwrap();
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let marked = |text: &str| format!("\u{feff}{text}");
        let key_text = key().public().to_text();
        let signature = Signature::parse(&marked(&key().sign(b"m", AT).to_text())).unwrap();
        for text in [&key_text[..], key_text.lines().nth(1).unwrap()] {
            let public = PublicKey::parse(&marked(text)).unwrap();
            assert_eq!(public.verify(b"m", &signature).unwrap().at, AT);
        }
        let secret = include_str!("../tests/minisign.key");
        assert!(SecretKey::parse(&marked(secret)).is_ok());
    }

    /// Made by minisign 0.11: `minisign -G -W`, and `minisign -S -m` over the six bytes `hello` and a line feed.
    #[test]
    fn files_of_minisign_are_read() {
        let public = PublicKey::parse(include_str!("../tests/minisign.pub")).unwrap();
        let signature = Signature::parse(include_str!("../tests/hello.minisig")).unwrap();
        let signed = public.verify(b"hello\n", &signature).unwrap();
        assert!(signed.at > 1_600_000_000);
        let refused = public.verify(b"hello!", &signature);
        assert_eq!(refused, Err(SignatureError::Invalid));
        let secret = SecretKey::parse(include_str!("../tests/minisign.key")).unwrap();
        assert_eq!(
            secret.public().to_text().lines().nth(1),
            include_str!("../tests/minisign.pub").lines().nth(1)
        );
    }

    #[test]
    fn forged_signatures_are_refused() {
        let public = key().public();
        let good = key().sign(b"manifest", AT);
        let verify = |file: &[u8], signature: &Signature| public.verify(file, signature);
        assert_eq!(verify(b"other", &good), Err(SignatureError::Invalid));
        // A newer date on an old signature: the comment is signed too.
        let mut renewed = good.clone();
        renewed.comment = good.comment.replace("18", "19");
        assert_eq!(verify(b"manifest", &renewed), Err(SignatureError::Invalid));
        // The comment of one signature on another file's.
        let mut mixed = key().sign(b"other", AT);
        mixed.over_all = good.over_all;
        assert_eq!(verify(b"other", &mixed), Err(SignatureError::Invalid));
        let other_key = SecretKey::from_random([8; 8], &[7; 32]).sign(b"manifest", AT);
        assert_eq!(
            verify(b"manifest", &other_key),
            Err(SignatureError::OtherKey)
        );
        // The publisher's identifier on another key's signature.
        let impersonated =
            SecretKey::from_random([1, 2, 3, 4, 5, 6, 7, 8], &[7; 32]).sign(b"manifest", AT);
        assert_eq!(
            verify(b"manifest", &impersonated),
            Err(SignatureError::Invalid)
        );
    }

    #[test]
    fn a_signature_without_a_date_is_refused() {
        for comment in ["", "file:x", "timestamp:", "timestamp:-1", "x\ttimestamp:1"] {
            let mut signature = key().sign(b"m", AT);
            signature.comment = comment.to_owned();
            signature.over_all = key().key.sign(&signature.over_comment()).to_bytes();
            let refused = key().public().verify(b"m", &signature);
            assert_eq!(refused, Err(SignatureError::NotDated), "{comment:?}");
        }
    }

    #[test]
    fn other_texts_are_not_keys_or_signatures() {
        let text = key().sign(b"m", AT).to_text();
        let older = text.replacen("RUQ", "RWQ", 1);
        assert_ne!(older, text);
        let more = format!("{text}more\n");
        let large = format!("{text}{}", "\n".repeat(MAX_TEXT));
        for text in ["", "a\nb\nc\nd\n", &older, &more, &large] {
            assert_eq!(Signature::parse(text), Err(SignatureError::Malformed));
        }
        for text in ["", "RWQ=", "a\nb\nc", &"A".repeat(MAX_TEXT + 1)] {
            assert!(PublicKey::parse(text).is_err() && SecretKey::parse(text).is_err());
        }
        let mut encrypted = vec![0; 158];
        encrypted[..6].copy_from_slice(b"EdScB2");
        let refused = SecretKey::parse(&Base64::encode_string(&encrypted)).err();
        assert_eq!(refused, Some(SignatureError::KeyEncrypted));
    }

    proptest! {
        #[test]
        fn no_changed_character_verifies(at in 0_usize..400, to in "[ -~]") {
            let text = key().sign(b"manifest", AT).to_text();
            let at = at % text.len();
            let mut changed = text.clone();
            changed.replace_range(at..=at, &to);
            let first_line = text.find('\n').unwrap_or_default();
            if let Ok(signature) = Signature::parse(&changed) {
                // The untrusted comment is not signed.
                let verified = key().public().verify(b"manifest", &signature).is_ok();
                prop_assert_eq!(verified, changed == text || at < first_line);
            }
        }

        #[test]
        fn nothing_panics(text in "\\PC*") {
            Signature::parse(&text).ok();
            PublicKey::parse(&text).ok();
            SecretKey::parse(&text).ok();
        }
    }
}
