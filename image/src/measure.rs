//! The hypervisor's measurements of an image, as documented by AWS ("Cryptographic attestation", in the list of PCRs).
//!
//! | PCR | over |
//! | --- | --- |
//! | 0 | kernel ‖ command line ‖ all ramdisks |
//! | 1 | kernel ‖ command line ‖ first ramdisk |
//! | 2 | the other ramdisks |
//! | 8 | the certificate that the image was signed with, DER |
//!
//! Each is a register of zeros that is extended once: SHA-384(48 zero bytes ‖ SHA-384(contents)). Section headers and metadata
//! are not measured.

use serde::Serialize;
use sha2::{Digest as _, Sha384};

/// One register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; Self::SIZE]);

impl Digest {
    /// Bytes of SHA-384.
    pub const SIZE: usize = 48;

    /// A register extended once with `contents`.
    pub fn of(contents: &[&[u8]]) -> Self {
        let mut hash = Sha384::new();
        for part in contents {
            hash.update(part);
        }
        let extended = Sha384::new()
            .chain_update([0; Self::SIZE])
            .chain_update(hash.finalize());
        Self(extended.finalize().into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; Self::SIZE] {
        &self.0
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The registers of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Measurements {
    /// Kernel, command line and all ramdisks: the image.
    #[serde(rename = "0")]
    pub pcr0: Digest,
    /// Kernel, command line and first ramdisk: the boot environment.
    #[serde(rename = "1")]
    pub pcr1: Digest,
    /// The other ramdisks: the application.
    #[serde(rename = "2")]
    pub pcr2: Digest,
    /// The signer's certificate, if the image is signed.
    #[serde(rename = "8", skip_serializing_if = "Option::is_none")]
    pub pcr8: Option<Digest>,
}

impl Measurements {
    /// Measures the parts of an unsigned image.
    pub fn of(kernel: &[u8], command_line: &[u8], ramdisks: &[Vec<u8>]) -> Self {
        let boot = [kernel, command_line];
        let (first, rest) = ramdisks.split_at(ramdisks.len().min(1));
        let first = first.iter().map(Vec::as_slice);
        let rest: Vec<&[u8]> = rest.iter().map(Vec::as_slice).collect();
        let boot: Vec<&[u8]> = boot.into_iter().chain(first).collect();
        Self {
            pcr0: Digest::of(&[boot.as_slice(), &rest].concat()),
            pcr1: Digest::of(&boot),
            pcr2: Digest::of(&rest),
            pcr8: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's hashlib.
    #[test]
    fn registers_agree_with_another_implementation() {
        let measured = Measurements::of(
            b"kernel",
            b"console=ttyS0",
            &[b"boot".to_vec(), b"app".to_vec(), b"more".to_vec()],
        );
        let expected = [
            "300345309f684699a6ec3bb51e9f65113156fd4207e62d9fe2c0f819549b0492b69478e507a4d1cdf1c3dc8e0cece9c4",
            "478dea37c4cbf7a807c622e20cd75a7fd0d1777b28707720faf3a8ab2b12c9d724d304ac3875a53b4e7f463669f7507b",
            "6d65187a0bbd8542e4f8994cc2fcf0f803eb0490af3618a38f38424f9a23659940e21c2ec0ded2e119d03409718ea03b",
        ];
        let found = [measured.pcr0, measured.pcr1, measured.pcr2].map(|digest| digest.to_string());
        assert_eq!(found, expected);
        assert_eq!(measured.pcr8, None);
    }

    #[test]
    fn an_image_without_an_application_measures_empty_contents() {
        let measured = Measurements::of(b"k", b"c", &[b"boot".to_vec()]);
        assert_eq!(measured.pcr2, Digest::of(&[]));
        assert_eq!(measured.pcr0, measured.pcr1);
    }
}
