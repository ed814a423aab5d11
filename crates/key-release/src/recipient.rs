//! The RSA key of one release.

use aes::Aes256;
use cipher::{Block, BlockCipherDecrypt, KeyInit};
use rand_core::CryptoRng;
use rsa::PrivateKey;
use rsa::pkcs8::EncodePublicKey;
use sealed_model::DataKey;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::envelope::Envelope;

/// An RSA-2048 key that opens one envelope. It has no `Clone`, and is zeroized when dropped.
pub struct RecipientKey {
    private: PrivateKey,
    spki: Vec<u8>,
}

impl RecipientKey {
    /// Makes a key. Takes a few hundred milliseconds, so keep it off an async runtime.
    ///
    /// # Errors
    /// [`KeyReleaseRefused`] where the library makes no key, according to its documentation only for a failing `rng`.
    pub fn generate(rng: &mut impl CryptoRng) -> Result<Self, KeyReleaseRefused> {
        PrivateKey::new(rng, 2048)
            .map_err(|_| KeyReleaseRefused)
            .and_then(Self::from_private)
    }

    /// DER of the SubjectPublicKeyInfo, 294 bytes: `public_key` of the attestation document.
    pub fn public_key_der(&self) -> &[u8] {
        &self.spki
    }

    /// Opens one envelope, and destroys the key.
    ///
    /// ```text
    /// envelope = parse(bytes), else the dummy                      ok = parsed
    /// cek      = OAEP-Decrypt(key, envelope.wrapped), else random  ok &= decrypted, and 32 bytes
    /// plain    = CBC-Decrypt(cek, envelope.iv, content)            ok &= plain[32..48] is sixteen times 0x10
    ///                                                              ok &= envelope.recipient = SHA-256(SPKI)
    /// ```
    ///
    /// A data key has 32 bytes, so the content has 48, and the last 16 are only padding (PKCS #7, RFC 5652 §6.3). All 16 are
    /// compared. The length of the padding is fixed, so there is no padding oracle: an edited envelope is accepted only where
    /// 128 bits match.
    ///
    /// The work is the same for every failure, except for the time that OAEP takes inside the library (`docs/THREATS.md`). With one
    /// attempt for each key that time cannot be measured repeatedly.
    ///
    /// # Errors
    /// [`KeyReleaseRefused`], for every cause.
    pub fn open(
        self,
        envelope: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<DataKey, KeyReleaseRefused> {
        let parsed = Envelope::parse(envelope).ok();
        let parsed = parsed.and_then(|envelope| Some((envelope.content::<48>()?, envelope)));
        let mut accept = Choice::from(u8::from(parsed.is_some()));
        let (recipient, wrapped_key, iv, content) = match &parsed {
            Some((content, envelope)) => (
                envelope.recipient,
                envelope.wrapped_key,
                envelope.iv,
                content,
            ),
            None => (&[0; 32], &DUMMY_WRAPPED_KEY, &[0; 16], &[0; 48]),
        };

        let expected: [u8; 32] = Sha256::digest(&self.spki).into();
        accept &= recipient.ct_eq(&expected);

        let mut key = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *key);
        // With an `rng` the library blinds base, exponents and moduli.
        let unwrapped = self
            .private
            .oaep_decrypt_with_rng::<Sha256, _>(rng, wrapped_key);
        let unwrapped = Zeroizing::new(unwrapped.unwrap_or_default());
        accept &= unwrapped.len().ct_eq(&key.len());
        for (to, from) in key.iter_mut().zip(unwrapped.iter()) {
            *to = *from;
        }

        let mut plain = Zeroizing::new(*content);
        cbc_decrypt(&key, iv, &mut plain);
        let (data_key, padding) = split_padding(&plain);
        accept &= padding.ct_eq(&[16; 16]);

        let data_key = DataKey::new(data_key);
        if bool::from(accept) {
            Ok(data_key)
        } else {
            Err(KeyReleaseRefused)
        }
    }

    fn from_private(private: PrivateKey) -> Result<Self, KeyReleaseRefused> {
        let spki = private
            .as_public_key()
            .to_public_key_der()
            .map_err(|_| KeyReleaseRefused)?
            .into_vec();
        Ok(Self { private, spki })
    }

    /// A known key, for tests.
    #[cfg(test)]
    pub(crate) fn from_pkcs1(der: &[u8]) -> Self {
        use rsa::pkcs1::DecodeRsaPrivateKey;
        let private = PrivateKey::from_pkcs1_der(der).unwrap();
        Self::from_private(private).unwrap()
    }
}

/// The envelope was not opened, and the key is destroyed. One value for every cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error(
    "the answer of the key service could not be opened; the cause is not stated, because the host could learn from it"
)]
#[coded(
    "KEY_RELEASE_REFUSED",
    remedy = "Start again, which makes another key; compare key ARN, encryption context and the wrapped key."
)]
pub struct KeyReleaseRefused;

/// Smaller than every modulus of 2,048 bits, so that it takes the same path as a genuine key.
const DUMMY_WRAPPED_KEY: [u8; 256] = [1; 256];

/// CBC (NIST SP 800-38A §6.2) over three blocks, in place.
fn cbc_decrypt(key: &[u8; 32], iv: &[u8; 16], blocks: &mut [u8; 48]) {
    let cipher = Aes256::new(key.into());
    let mut previous = *iv;
    for block in blocks.as_chunks_mut::<16>().0 {
        let encrypted = *block;
        cipher.decrypt_block(<&mut Block<Aes256>>::from(&mut *block));
        for (byte, mask) in block.iter_mut().zip(previous) {
            *byte ^= mask;
        }
        previous = encrypted;
    }
}

fn split_padding(plain: &[u8; 48]) -> (&[u8; 32], &[u8; 16]) {
    let (data_key, rest) = plain.split_first_chunk().unwrap_or((&[0; 32], &[]));
    (data_key, rest.first_chunk().unwrap_or(&[0; 16]))
}

#[cfg(test)]
mod tests;
