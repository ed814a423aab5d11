//! A signed image: a COSE_Sign1 (RFC 9052 §4.2, untagged, ES384) over PCR0, together with the certificate of its key. The
//! hypervisor verifies it before booting, and reports the certificate as PCR8.
//!
//! In this CBOR, byte strings are arrays of numbers: AWS's tool writes them this way, and the hypervisor accepts no other form.

use p384::ecdsa::signature::{Signer as _, Verifier as _};
use p384::ecdsa::{Signature, SigningKey, VerifyingKey};
use x509_cert::Certificate;
use x509_cert::der::{DecodePem, Encode};

use crate::measure::Digest;

/// A private key and its certificate. Holds a secret, so it has no `Debug` and no `Clone`.
pub struct EifSigner {
    key: SigningKey,
    pem: Vec<u8>,
}

/// Why an image was not signed, or a signature is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The key cannot be read.
    #[error(
        "SIGN_KEY: the signing key cannot be read; it has to be a P-384 private key in PEM, PKCS #8 or SEC 1"
    )]
    Key,
    /// The certificate cannot be read.
    #[error(
        "SIGN_CERTIFICATE: the certificate cannot be read; it has to be one X.509 certificate with a P-384 key, in PEM"
    )]
    Certificate,
    /// Key and certificate do not match.
    #[error(
        "SIGN_KEY_OTHER: the certificate is of another key; give --certificate the one of --sign-key"
    )]
    OtherKey,
    /// The section is malformed.
    #[error("SIGNATURE_SECTION: the signature section cannot be read; sign the image again")]
    Section,
    /// The signature is over another image, or by another key.
    #[error(
        "SIGNATURE_INVALID: the signature is not over this image by the key of its certificate; do not run it"
    )]
    Invalid,
}

impl EifSigner {
    /// Reads a private key and its certificate.
    ///
    /// # Errors
    /// [`SignatureError`].
    pub fn from_pem(key: &str, certificate: &str) -> Result<Self, SignatureError> {
        use p384::pkcs8::DecodePrivateKey as _;
        let key = p384::SecretKey::from_pkcs8_pem(key)
            .or_else(|_| p384::SecretKey::from_sec1_pem(key).map_err(|_| SignatureError::Key))
            .map_err(|_| SignatureError::Key)?;
        let key = SigningKey::from(key);
        if key_of(&parse(certificate.as_bytes())?)? != *key.verifying_key() {
            return Err(SignatureError::OtherKey);
        }
        Ok(Self {
            key,
            pem: certificate.as_bytes().to_vec(),
        })
    }

    /// The signature section for an image with this PCR0. The same image gives the same bytes (RFC 6979).
    pub fn sign(&self, pcr0: &Digest) -> Vec<u8> {
        let payload = payload(pcr0);
        let signature: Signature = self.key.sign(&to_be_signed(&payload));
        let envelope = [
            &[0x84][..],
            &bytes(&PROTECTED),
            &[0xa0],
            &bytes(&payload),
            &bytes(&signature.to_bytes()),
        ]
        .concat();
        [
            &[0x81, 0xa2][..],
            &text("signing_certificate"),
            &numbers(&self.pem),
            &text("signature"),
            &numbers(&envelope),
        ]
        .concat()
    }
}

/// Verifies that the section is a signature over `pcr0`; returns PCR8.
///
/// # Errors
/// [`SignatureError`].
pub fn verify(section: &[u8], pcr0: &Digest) -> Result<Digest, SignatureError> {
    let (pem, envelope) = split(section)?;
    let certificate = parse(&pem)?;
    let key = key_of(&certificate)?;
    let payload = payload(pcr0);
    // Everything except the signature is known, so the envelope is compared instead of parsed.
    let head = [
        &[0x84][..],
        &bytes(&PROTECTED),
        &[0xa0],
        &bytes(&payload),
        &[0x58, 96],
    ]
    .concat();
    let signature = envelope
        .strip_prefix(&head[..])
        .ok_or(SignatureError::Invalid)?;
    let signature = Signature::from_slice(signature).map_err(|_| SignatureError::Invalid)?;
    key.verify(&to_be_signed(&payload), &signature)
        .map_err(|_| SignatureError::Invalid)?;
    fingerprint(&certificate)
}

/// Returns PCR8 of an image with this section, without verifying the signature.
///
/// # Errors
/// [`SignatureError`].
pub fn measure(section: &[u8]) -> Result<Digest, SignatureError> {
    fingerprint(&parse(&split(section)?.0)?)
}

fn fingerprint(certificate: &Certificate) -> Result<Digest, SignatureError> {
    let der = certificate
        .to_der()
        .map_err(|_| SignatureError::Certificate)?;
    Ok(Digest::of(&[&der]))
}

/// {1: -35}, ES384 (RFC 9053 §2.1).
const PROTECTED: [u8; 4] = [0xa1, 0x01, 0x38, 0x22];
/// Upper bound on a certificate and envelope.
const SECTION_MAX: usize = 64 * 1024;

fn parse(pem: &[u8]) -> Result<Certificate, SignatureError> {
    Certificate::from_pem(pem).map_err(|_| SignatureError::Certificate)
}

fn key_of(certificate: &Certificate) -> Result<VerifyingKey, SignatureError> {
    let point = certificate
        .tbs_certificate()
        .subject_public_key_info()
        .subject_public_key
        .as_bytes()
        .ok_or(SignatureError::Certificate)?;
    VerifyingKey::from_sec1_bytes(point).map_err(|_| SignatureError::Certificate)
}

fn payload(pcr0: &Digest) -> Vec<u8> {
    [
        &[0xa2][..],
        &text("register_index"),
        &[0],
        &text("register_value"),
        &numbers(pcr0.as_bytes()),
    ]
    .concat()
}

/// RFC 9052 §4.4, without external data.
fn to_be_signed(payload: &[u8]) -> Vec<u8> {
    [
        &[0x84][..],
        &text("Signature1"),
        &bytes(&PROTECTED),
        &bytes(&[]),
        &bytes(payload),
    ]
    .concat()
}

fn head(major: u8, length: usize) -> Vec<u8> {
    let major = major << 5;
    // Lengths here are below SECTION_MAX.
    match length {
        0..24 => vec![major | length as u8],
        24..256 => vec![major | 24, length as u8],
        _ => {
            let [high, low] = (length.min(u16::MAX.into()) as u16).to_be_bytes();
            vec![major | 25, high, low]
        }
    }
}

fn bytes(value: &[u8]) -> Vec<u8> {
    [&head(2, value.len())[..], value].concat()
}

fn text(value: &str) -> Vec<u8> {
    [&head(3, value.len())[..], value.as_bytes()].concat()
}

fn numbers(value: &[u8]) -> Vec<u8> {
    let mut out = head(4, value.len());
    for byte in value {
        out.extend_from_slice(&head(0, (*byte).into()));
    }
    out
}

/// Splits a section into certificate (PEM) and envelope.
fn split(section: &[u8]) -> Result<(Vec<u8>, Vec<u8>), SignatureError> {
    let read = || -> Option<(Vec<u8>, Vec<u8>)> {
        let rest = (section.len() <= SECTION_MAX).then_some(section)?;
        let rest = rest.strip_prefix(&[0x81, 0xa2])?;
        let rest = rest.strip_prefix(&text("signing_certificate")[..])?;
        let (pem, rest) = take_numbers(rest)?;
        let rest = rest.strip_prefix(&text("signature")[..])?;
        let (envelope, rest) = take_numbers(rest)?;
        rest.is_empty().then_some((pem, envelope))
    };
    read().ok_or(SignatureError::Section)
}

fn take_numbers(from: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (length, mut rest) = take_head(4, from)?;
    // Each number takes at least one byte, so the allocation is bounded by the input.
    let mut out = Vec::with_capacity(length.min(rest.len()));
    for _ in 0..length {
        let (number, after) = take_head(0, rest)?;
        out.push(u8::try_from(number).ok()?);
        rest = after;
    }
    Some((out, rest))
}

fn take_head(major: u8, from: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = from.split_first()?;
    let (value, rest) = match first & 0x1f {
        small @ 0..24 => (usize::from(small), rest),
        24 => {
            let (value, rest) = rest.split_first()?;
            (usize::from(*value), rest)
        }
        25 => {
            let (value, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*value)), rest)
        }
        _ => return None,
    };
    (first >> 5 == major).then_some((value, rest))
}
