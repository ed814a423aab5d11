//! AES-256-GCM by `graviola`, which interleaves AES and GHASH and uses AVX-512 where it is there.

use graviola::aead::AesGcm;

use super::TAG;
use crate::channel::ChannelError;

/// Key schedule and tables; wiped when dropped.
pub(super) struct Aes256Gcm(Box<AesGcm>);

/// Whether this processor has every instruction that `graviola` asks for: it panics where one is missing.
pub(super) fn is_supported() -> bool {
    graviola::util::is_cpu_supported()
}

impl Aes256Gcm {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Box::new(AesGcm::new(key)))
    }

    pub(super) fn seal(&self, nonce: &[u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        self.0.encrypt(nonce, header, payload, &mut tag);
        tag
    }

    pub(super) fn open(
        &self,
        nonce: &[u8; 12],
        header: &[u8],
        payload: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), ChannelError> {
        self.0
            .decrypt(nonce, header, payload, tag)
            .map_err(|_| ChannelError::Forged)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{open_as, seal_as};
    use super::*;
    use aes_gcm::KeyInit;

    /// Every length across the widths that either implementation works in, and some long ones.
    #[test]
    fn both_implementations_make_the_same_frames() {
        if !is_supported() {
            return;
        }
        let lengths = (0..520).chain([1_024, 1_536, 4_096, 4_097, 65_535, 393_216, 1 << 20]);
        for length in lengths {
            let key: [u8; 32] = std::array::from_fn(|at| (at * 7 + length) as u8);
            let nonce: [u8; 12] = std::array::from_fn(|at| (at + length) as u8);
            let plain: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
            let header = &plain[..length.min(16)];
            let (native, portable) = (Aes256Gcm::new(&key), aes_gcm::Aes256Gcm::new(&key.into()));
            let (mut one, mut two) = (plain.clone(), plain.clone());
            let tag = native.seal(&nonce, header, &mut one);
            assert_eq!(seal_as(&portable, &nonce, header, &mut two).unwrap(), tag);
            assert!(one == two, "{length} bytes");
            open_as(&portable, &nonce, header, &mut one, &tag).unwrap();
            native.open(&nonce, header, &mut two, &tag).unwrap();
            assert!(one == plain && two == plain, "{length} bytes");

            let mut wrong = tag;
            wrong[length % TAG] ^= 1;
            let refused = native.open(&nonce, header, &mut one, &wrong);
            assert_eq!(refused, Err(ChannelError::Forged));
        }
    }
}
