//! The root certificate that a chain must begin with. There is no default and no search: the caller names one.

use crate::certificate::Certificate;
use crate::error::AttestationError;

/// AWS Nitro Enclaves root certificate G1, as AWS publishes it.
const AWS_NITRO_ENCLAVES_ROOT_G1: &[u8] = include_bytes!("aws_nitro_enclaves_root_g1.der");

/// A pinned root certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustAnchor {
    der: Vec<u8>,
}

impl TrustAnchor {
    /// The root of every genuine Nitro enclave (SHA-256 641a0321…bb5b).
    pub fn aws_nitro_g1() -> Self {
        Self {
            der: AWS_NITRO_ENCLAVES_ROOT_G1.to_vec(),
        }
    }

    /// A self-made root, for development and tests. Its signatures prove nothing about hardware.
    ///
    /// Fails with `CERTIFICATE_MALFORMED` or `CRITICAL_EXTENSION` where `der` is not a certificate in strict DER.
    pub fn development(der: &[u8]) -> Result<Self, AttestationError> {
        Certificate::parse(der, "development root")?;
        Ok(Self { der: der.to_vec() })
    }

    /// Whether this is AWS's root.
    pub fn is_aws(&self) -> bool {
        self.der == AWS_NITRO_ENCLAVES_ROOT_G1
    }

    /// The certificate.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_pinned_root_is_the_published_one() {
        let fingerprint =
            base16ct::lower::encode_string(&Sha256::digest(TrustAnchor::aws_nitro_g1().der()));
        assert_eq!(
            fingerprint,
            "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b"
        );
    }

    #[test]
    fn aws_is_aws_however_it_was_named() {
        assert!(TrustAnchor::aws_nitro_g1().is_aws());
        let named = TrustAnchor::development(AWS_NITRO_ENCLAVES_ROOT_G1).unwrap();
        assert!(named.is_aws());
        assert!(TrustAnchor::development(b"no certificate").is_err());
    }
}
