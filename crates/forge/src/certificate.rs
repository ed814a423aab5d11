use p384::ecdsa::{DerSignature, Signature, SigningKey, signature::hazmat::PrehashSigner};
use sha2::{Digest, Sha256, Sha384};

use crate::der;

/// The hash that a certificate is signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// The one that AWS uses.
    Sha384,
    /// Weaker than the curve.
    Sha256,
}

/// A certificate in encoded pieces, before it is signed. A changed piece is signed like any other.
#[derive(Clone, Debug)]
pub struct CertificateSpec {
    /// `[0] EXPLICIT` version.
    pub version: Vec<u8>,
    /// Serial number as INTEGER.
    pub serial: Vec<u8>,
    /// AlgorithmIdentifier inside the signed part.
    pub inner_algorithm: Vec<u8>,
    /// AlgorithmIdentifier next to the signature.
    pub outer_algorithm: Vec<u8>,
    /// Issuer as Name.
    pub issuer: Vec<u8>,
    /// Start as Time.
    pub not_before: Vec<u8>,
    /// End as Time.
    pub not_after: Vec<u8>,
    /// Subject as Name.
    pub subject: Vec<u8>,
    /// SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
    /// Encoded Extensions. An empty list omits the element.
    pub extensions: Vec<Vec<u8>>,
    /// Hash of the signature.
    pub hash: Hash,
    /// Changes the certificate after it was signed.
    pub after_signing: Option<fn(&mut Vec<u8>)>,
}

impl CertificateSpec {
    /// Replaces the extension with this encoded identifier, or removes it with `None`.
    pub fn set_extension(&mut self, oid: &[u8], replacement: Option<Vec<u8>>) {
        // An Extension is a SEQUENCE head of two bytes (three for longer ones), followed by the identifier.
        let found = self.extensions.iter().position(|extension| {
            extension.get(2..).is_some_and(|rest| rest.starts_with(oid))
                || extension.get(3..).is_some_and(|rest| rest.starts_with(oid))
        });
        match (found, replacement) {
            (Some(at), Some(replacement)) => self.extensions[at] = replacement,
            (Some(at), None) => drop(self.extensions.remove(at)),
            (None, Some(replacement)) => self.extensions.push(replacement),
            (None, None) => {}
        }
    }

    /// Signs with the issuer's key (deterministic ECDSA, RFC 6979); returns DER, unless a piece is malformed.
    pub fn sign(&self, issuer: &SigningKey) -> Vec<u8> {
        let validity = der::sequence(&[&self.not_before, &self.not_after]);
        let extensions = match self.extensions.is_empty() {
            true => Vec::new(),
            false => der::tlv(0xa3, &der::tlv(0x30, &self.extensions.concat())),
        };
        let signed = der::sequence(&[
            &self.version,
            &self.serial,
            &self.inner_algorithm,
            &self.issuer,
            &validity,
            &self.subject,
            &self.public_key,
            &extensions,
        ]);
        let digest = match self.hash {
            Hash::Sha384 => Sha384::digest(&signed).to_vec(),
            Hash::Sha256 => Sha256::digest(&signed).to_vec(),
        };
        let signature = sign_digest(issuer, &digest)
            .map(|signature| DerSignature::from(signature).as_bytes().to_vec());
        let signature = der::bit_string(&signature.unwrap_or_default());
        let mut certificate = der::sequence(&[&signed, &self.outer_algorithm, &signature]);
        if let Some(change) = self.after_signing {
            change(&mut certificate);
        }
        certificate
    }
}

/// P-384 signs digests of at least 24 bytes, which both hashes above have; returns `None` for shorter ones.
pub(crate) fn sign_digest(key: &SigningKey, digest: &[u8]) -> Option<Signature> {
    key.sign_prehash(digest).ok()
}
