//! Keys of one direction and the cipher that uses them: one AEAD pass over a frame, in place.
//!
//! ```text
//! secret[0]     = secret("client to server") or secret("server to client")
//! key[e]        = Expand(secret[e], "clearseal/1 channel key", 32)
//! iv[e]         = Expand(secret[e], "clearseal/1 channel iv", 12)
//! secret[e + 1] = Expand(secret[e], "clearseal/1 channel rekey", 32)
//! frame         = header ‖ Seal(key[e], iv[e] XOR (0 ‖ sequence), aad = header, payload)
//! ```

use attestation::Aead;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadInOut, KeyInit, Nonce};
use hkdf::Hkdf;
#[cfg(not(target_family = "wasm"))]
use provider::aes256gcm::Aes256Gcm;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::ChannelError;
use super::frame::TAG;

/// Secret, cipher and nonce prefix of one epoch of one direction. No `Debug`, no `Clone`.
pub(super) struct Keys {
    aead: Aead,
    secret: Zeroizing<[u8; 32]>,
    cipher: Cipher,
    iv: [u8; 12],
}

impl Keys {
    /// The keys of one epoch.
    pub(super) fn new(aead: Aead, secret: Zeroizing<[u8; 32]>) -> Result<Self, ChannelError> {
        let schedule = schedule(&secret)?;
        let mut key = Zeroizing::new([0; 32]);
        let mut iv = [0; 12];
        expand(&schedule, b"clearseal/1 channel key", key.as_mut_slice())?;
        expand(&schedule, b"clearseal/1 channel iv", &mut iv)?;
        let cipher = Cipher::new(aead, &key)?;
        Ok(Self {
            aead,
            secret,
            cipher,
            iv,
        })
    }

    /// The keys of the next epoch: the old keys cannot be derived from them.
    pub(super) fn next(&self) -> Result<Self, ChannelError> {
        let mut secret = Zeroizing::new([0; 32]);
        expand(
            &schedule(&self.secret)?,
            b"clearseal/1 channel rekey",
            secret.as_mut_slice(),
        )?;
        Self::new(self.aead, secret)
    }

    /// Encrypts `payload` in place; returns its tag.
    pub(super) fn seal(
        &self,
        sequence: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<[u8; TAG], ChannelError> {
        let nonce = self.nonce(sequence);
        match &self.cipher {
            #[cfg(not(target_family = "wasm"))]
            Cipher::Aes256Gcm(cipher) => cipher
                .seal(&nonce, header, payload)
                .map_err(|_| ChannelError::Internal),
            Cipher::ChaCha20Poly1305(cipher) => {
                let nonce: &Nonce<ChaCha20Poly1305> = (&nonce).into();
                cipher
                    .encrypt_inout_detached(nonce, header, InOutBuf::from(payload))
                    .map(Into::into)
                    .map_err(|_| ChannelError::Internal)
            }
        }
    }

    /// Decrypts `payload` in place, if everything is unchanged.
    pub(super) fn open(
        &self,
        sequence: u64,
        header: &[u8],
        payload: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), ChannelError> {
        let nonce = self.nonce(sequence);
        match &self.cipher {
            #[cfg(not(target_family = "wasm"))]
            Cipher::Aes256Gcm(cipher) => cipher
                .open(&nonce, header, payload, tag)
                .map_err(|_| ChannelError::Forged),
            Cipher::ChaCha20Poly1305(cipher) => {
                let nonce: &Nonce<ChaCha20Poly1305> = (&nonce).into();
                cipher
                    .decrypt_inout_detached(nonce, header, InOutBuf::from(payload), tag.into())
                    .map_err(|_| ChannelError::Forged)
            }
        }
    }

    /// nonce = iv XOR (0 ‖ sequence). A direction uses each sequence number once, across all epochs.
    fn nonce(&self, sequence: u64) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, of_sequence) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= of_sequence;
        }
        nonce
    }
}

/// Whether AES-GCM is faster than ChaCha20-Poly1305 on this processor.
pub(super) fn has_fast_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq")
    }
    #[cfg(target_arch = "aarch64")]
    {
        std::arch::is_aarch64_feature_detected!("aes")
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        false
    }
}

enum Cipher {
    #[cfg(not(target_family = "wasm"))]
    Aes256Gcm(Aes256Gcm),
    ChaCha20Poly1305(Box<ChaCha20Poly1305>),
}

impl Cipher {
    fn new(aead: Aead, key: &[u8; 32]) -> Result<Self, ChannelError> {
        match aead {
            #[cfg(not(target_family = "wasm"))]
            Aead::Aes256Gcm => Ok(Self::Aes256Gcm(Aes256Gcm::new(key))),
            Aead::ChaCha20Poly1305 => Ok(Self::ChaCha20Poly1305(Box::new(ChaCha20Poly1305::new(
                key.into(),
            )))),
            _ => Err(ChannelError::NoSuite),
        }
    }
}

fn schedule(secret: &[u8; 32]) -> Result<Hkdf<Sha256>, ChannelError> {
    Hkdf::from_prk(secret).map_err(|_| ChannelError::Internal)
}

fn expand(schedule: &Hkdf<Sha256>, label: &[u8], out: &mut [u8]) -> Result<(), ChannelError> {
    schedule
        .expand(label, out)
        .map_err(|_| ChannelError::Internal)
}
