//! One X.509 certificate of the chain (RFC 5280 §4.1), in strict DER. Check 20.
//!
//! `x509-cert` parses it. This file adds the rules of a verifier: one encoding for each value, and none of the optional
//! forms that genuine chains do not use. A second reader, in the tests, shares no code with the library and must agree.

use std::fmt;

use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use der::asn1::{AnyRef, BitString, ObjectIdentifier};
use der::{Decode, Encode, Header, Reader, SliceReader, Tag, Tagged};
use provider::es384::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};
use x509_cert::certificate::Version;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{self, KeyUsages};
use x509_cert::name::Name;
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::claims::Claims;
use crate::error::{AttestationError, ErrorCode};
use crate::name::DisplayName;
use crate::observed::Observed;
use crate::report::CertificateView;

/// RFC 5758 §3.2: its parameters field MUST be absent.
const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
/// RFC 5480 §2.1.1: id-ecPublicKey, with the curve as parameter.
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// RFC 5480 §2.1.1.1.
const SECP384R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
/// RFC 5280 §4.2.1.9.
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
/// RFC 5280 §4.2.1.3.
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
/// RFC 5280 §4.2.1.13.
const CRL_DISTRIBUTION_POINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.31");
/// id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// RFC 5280 §4.1.2.2: most bytes of a serial number.
const MAX_SERIAL: usize = 20;

/// A parsed certificate. Only its canonical encoding has been checked.
pub(crate) struct Certificate<'a> {
    parsed: x509_cert::Certificate,
    /// The bytes that the issuer signed, as received.
    pub(crate) tbs: &'a [u8],
    /// Unix seconds.
    pub(crate) not_before: u64,
    /// Unix seconds.
    pub(crate) not_after: u64,
    /// Basic constraints, with their criticality.
    pub(crate) constraints: Option<(bool, BasicConstraints)>,
    pub(crate) usage: Option<KeyUsage>,
}

/// RFC 5280 §4.2.1.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasicConstraints {
    pub(crate) ca: bool,
    /// Number of issuers that may follow below, without the leaf.
    pub(crate) path_length: Option<u8>,
}

/// RFC 5280 §4.2.1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyUsage(pkix::KeyUsage);

impl<'a> Certificate<'a> {
    /// Reads one certificate. `name` identifies it in errors.
    pub(crate) fn parse(der: &'a [u8], name: &str) -> Result<Self, AttestationError> {
        Self::read(der).map_err(|refused| {
            let code = match refused {
                Refused::Critical(_) => ErrorCode::CriticalExtension,
                _ => ErrorCode::CertificateMalformed,
            };
            AttestationError::new(code, Observed::unreadable(name, refused))
        })
    }

    fn read(der: &'a [u8]) -> Result<Self, Refused> {
        let parsed: x509_cert::Certificate = canonical(der)?;
        let tbs = parsed.tbs_certificate();
        // §4.1.2.1: with extensions, version 3.
        if tbs.version() != Version::V3 {
            return Err(Refused::Rule("not of version 3"));
        }
        check_serial(tbs.serial_number().as_bytes())?;
        // §4.1.1.2: the outer algorithm repeats the signed one.
        if tbs.signature() != parsed.signature_algorithm() {
            return Err(Refused::Rule("two signature algorithms that differ"));
        }
        check_identifier(&tbs.signature().oid)?;
        check_identifier(&tbs.subject_public_key_info().algorithm.oid)?;
        // §4.1.2.4: not empty. A CA's subject is the next certificate's issuer (check 15).
        if tbs.issuer().is_empty() {
            return Err(Refused::Rule("an empty issuer"));
        }
        check_name(tbs.issuer())?;
        check_name(tbs.subject())?;
        whole_bytes(&tbs.subject_public_key_info().subject_public_key)?;
        whole_bytes(parsed.signature())?;
        // §4.1.2.8: CAs must not generate unique identifiers.
        if tbs.issuer_unique_id().is_some() || tbs.subject_unique_id().is_some() {
            return Err(Refused::Rule("a unique identifier"));
        }
        let (constraints, usage) = tbs
            .extensions()
            .map_or(Ok((None, None)), |list| read_extensions(list))?;
        let validity = tbs.validity();
        let [not_before, not_after] =
            [validity.not_before, validity.not_after].map(|time| time.to_unix_duration().as_secs());
        Ok(Self {
            tbs: signed_part(der)?,
            not_before,
            not_after,
            constraints,
            usage,
            parsed,
        })
    }

    pub(crate) fn issuer(&self) -> &Name {
        self.parsed.tbs_certificate().issuer()
    }

    pub(crate) fn subject(&self) -> &Name {
        self.parsed.tbs_certificate().subject()
    }

    /// The subject's common name, if it occurs once and is text.
    pub(crate) fn common_name(&self) -> Option<&str> {
        let mut found = (self.subject().iter()).filter(|attribute| attribute.oid == COMMON_NAME);
        match (found.next(), found.next()) {
            (Some(only), None) => std::str::from_utf8(only.value.value()).ok(),
            _ => None,
        }
    }

    /// Big-endian, without leading zeros.
    pub(crate) fn serial(&self) -> &[u8] {
        match self.parsed.tbs_certificate().serial_number().as_bytes() {
            [0, magnitude @ ..] if !magnitude.is_empty() => magnitude,
            serial => serial,
        }
    }

    /// Whether it may issue certificates.
    pub(crate) fn is_ca(&self) -> bool {
        self.constraints.is_some_and(|(_, it)| it.ca)
    }

    /// RFC 5280 §4.2.1.3: cRLSign.
    pub(crate) fn may_sign_crls(&self) -> bool {
        self.usage.is_some_and(|usage| usage.0.crl_sign())
    }

    /// Encoded value of cRLDistributionPoints: where the issuer publishes revocations.
    pub(crate) fn distribution_points(&self) -> Option<&[u8]> {
        let extensions = self.parsed.tbs_certificate().extensions()?;
        let points = extensions
            .iter()
            .find(|extension| extension.extn_id == CRL_DISTRIBUTION_POINTS);
        points.map(|extension| extension.extn_value.as_bytes())
    }

    fn key(&self) -> &[u8] {
        let info = self.parsed.tbs_certificate().subject_public_key_info();
        info.subject_public_key.raw_bytes()
    }

    fn signature(&self) -> &[u8] {
        self.parsed.signature().raw_bytes()
    }

    /// Check 14, first half: the subject's key is on P-384 and the issuer's signature is ECDSA with SHA-384.
    pub(crate) fn p384(&self, name: &str) -> Result<P384, AttestationError> {
        let refuse = |what: &str| {
            AttestationError::new(ErrorCode::ChainAlgorithm, Observed::unreadable(name, what))
        };
        let algorithm = self.parsed.signature_algorithm();
        if algorithm.oid != ECDSA_WITH_SHA384 || algorithm.parameters.is_some() {
            return Err(refuse("not signed with ECDSA and SHA-384"));
        }
        let info = self.parsed.tbs_certificate().subject_public_key_info();
        if !is_p384(&info.algorithm) {
            return Err(refuse("its key is not on P-384"));
        }
        Ok(P384 {
            key: provider::es384::public_key(self.key())
                .ok_or_else(|| refuse("its key is not a point of P-384"))?,
            signature: provider::es384::signature_from_der(self.signature())
                .ok_or_else(|| refuse("its signature is not an ECDSA value of P-384"))?,
        })
    }

    /// Check 14, second half.
    pub(crate) fn is_signed_by(&self, issuer: &VerifyingKey, signature: &Signature) -> bool {
        provider::es384::verify(issuer, self.tbs, signature)
    }

    pub(crate) fn view(&self, role: &str, der: &[u8]) -> CertificateView {
        CertificateView {
            role: role.to_owned(),
            subject: DisplayName(self.subject()).to_string(),
            issuer: DisplayName(self.issuer()).to_string(),
            serial: hex(self.serial()),
            not_before: self.not_before,
            not_after: self.not_after,
            ca: self.is_ca(),
            path_length: self.constraints.and_then(|(_, it)| it.path_length),
            key_usage: self.usage.map(KeyUsage::names).unwrap_or_default(),
            sha256: hex(&Sha256::digest(der)),
            der: Base64::encode_string(der),
        }
    }
}

/// Why a certificate is refused; the caller adds its name.
#[derive(Debug, PartialEq)]
enum Refused {
    /// The message of the library.
    Der(der::Error),
    /// A rule of this file.
    Rule(&'static str),
    /// RFC 5280 §4.2: an extension that occurs more than once.
    Twice(ObjectIdentifier),
    /// RFC 5280 §4.2: a critical extension that is not recognised.
    Critical(ObjectIdentifier),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Der(error) => write!(f, "{error}"),
            Self::Rule(what) => f.write_str(what),
            Self::Twice(oid) => write!(f, "extension {oid} twice"),
            Self::Critical(oid) => write!(f, "{oid}"),
        }
    }
}

impl From<der::Error> for Refused {
    fn from(error: der::Error) -> Self {
        Self::Der(error)
    }
}

/// Parses a value and encodes it again. This refuses what BER would accept, and what two readers could read differently.
fn canonical<'a, T: Decode<'a, Error = der::Error> + Encode>(der: &'a [u8]) -> Result<T, Refused> {
    let value = T::from_der(der)?;
    if value.to_der()? == der {
        Ok(value)
    } else {
        Err(Refused::Rule("not in DER"))
    }
}

/// The first value of the outer sequence, as encoded.
fn signed_part(der: &[u8]) -> Result<&[u8], der::Error> {
    let mut reader = SliceReader::new(der)?;
    Header::decode(&mut reader)?;
    reader.tlv_bytes()
}

/// §4.1.2.2: positive, and at most 20 bytes. The library accepts 21 bytes, and negative numbers.
fn check_serial(content: &[u8]) -> Result<(), Refused> {
    match content {
        [0x80..=0xff, ..] => Err(Refused::Rule("a negative integer")),
        [0, magnitude @ ..] | magnitude if magnitude.len() <= MAX_SERIAL => Ok(()),
        _ => Err(Refused::Rule("a serial number of more than 20 bytes")),
    }
}

/// X.690 §8.19.2: each arc in the fewest bytes. The library keeps the original bytes, so encoding again does not reveal this.
fn check_identifier(oid: &ObjectIdentifier) -> Result<(), Refused> {
    let mut arcs = oid.as_bytes().split_inclusive(|byte| *byte < 0x80);
    match arcs.all(|arc| arc.first() != Some(&0x80)) {
        true => Ok(()),
        false => Err(Refused::Rule("a broken object identifier")),
    }
}

/// RFC 5280 §4.1.2.4 and appendix A.1: a name consists of texts, in the characters of their types. The library accepts any
/// value, and a set that is empty or repeats a value.
fn check_name(name: &Name) -> Result<(), Refused> {
    for part in name.iter_rdn() {
        if part.is_empty() {
            return Err(Refused::Rule("a name with an empty set"));
        }
        let mut before = None;
        for attribute in part.iter() {
            // A set is sorted (X.690 §11.6), so repeated values are adjacent.
            if before.replace(attribute) == Some(attribute) {
                return Err(Refused::Rule("a name with an attribute twice"));
            }
            check_identifier(&attribute.oid)?;
            if !is_text(attribute.value.tag(), attribute.value.value()) {
                return Err(Refused::Rule("a name with a value that is not text"));
            }
        }
    }
    Ok(())
}

/// A DirectoryString or an IA5String. For the obsolete string types only the tag is checked.
fn is_text(tag: Tag, content: &[u8]) -> bool {
    match tag {
        Tag::Utf8String => std::str::from_utf8(content).is_ok(),
        Tag::PrintableString => content
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(byte)),
        Tag::Ia5String => content.is_ascii(),
        Tag::TeletexString | Tag::BmpString => true,
        _ => false,
    }
}

fn whole_bytes(bits: &BitString) -> Result<(), Refused> {
    match bits.unused_bits() {
        0 => Ok(()),
        _ => Err(Refused::Rule("a bit string that does not end with a byte")),
    }
}

fn is_p384(algorithm: &AlgorithmIdentifierOwned) -> bool {
    let curve = algorithm.parameters.as_ref();
    algorithm.oid == EC_PUBLIC_KEY
        && curve.is_some_and(|curve| AnyRef::from(curve).decode_as() == Ok(SECP384R1))
}

/// Key and signature of a certificate that uses the chain's only algorithm.
pub(crate) struct P384 {
    pub(crate) key: VerifyingKey,
    pub(crate) signature: Signature,
}

/// The chain for a reader, root first, as far as it can be parsed. Also works for a refused document.
pub(crate) fn views(claims: &Claims) -> Vec<CertificateView> {
    let total = claims.cabundle.len() + 1;
    let certificates = claims
        .cabundle
        .iter()
        .chain([&claims.certificate])
        .enumerate();
    certificates
        .filter_map(|(at, der)| {
            Certificate::parse(der, "")
                .ok()
                .map(|parsed| parsed.view(role(at, total), der))
        })
        .collect()
}

/// AWS's name for the certificate at this position in a chain of `total`.
pub(crate) fn role(at: usize, total: usize) -> &'static str {
    match (at, total) {
        (0, _) => "root",
        _ if at + 1 == total => "leaf",
        (1, 5) => "regional",
        (2, 5) => "zonal",
        (3, 5) => "instance",
        _ => "ca",
    }
}

type Recognised = (Option<(bool, BasicConstraints)>, Option<KeyUsage>);

/// RFC 5280 §4.2.
fn read_extensions(list: &[Extension]) -> Result<Recognised, Refused> {
    // §4.1.2.9: a sequence of one or more, or none at all.
    if list.is_empty() {
        return Err(Refused::Rule("an empty list of extensions"));
    }
    let (mut constraints, mut usage) = (None, None);
    for (at, extension) in list.iter().enumerate() {
        let oid = extension.extn_id;
        check_identifier(&oid)?;
        // §4.2: no more than one instance of an extension.
        if list[..at].iter().any(|earlier| earlier.extn_id == oid) {
            return Err(Refused::Twice(oid));
        }
        let value = extension.extn_value.as_bytes();
        match oid {
            BASIC_CONSTRAINTS => {
                let it: pkix::BasicConstraints = canonical(value)?;
                let it = BasicConstraints {
                    ca: it.ca,
                    path_length: it.path_len_constraint,
                };
                constraints = Some((extension.critical, it));
            }
            KEY_USAGE => usage = Some(KeyUsage(canonical(value)?)),
            _ if extension.critical => return Err(Refused::Critical(oid)),
            _ => {}
        }
    }
    Ok((constraints, usage))
}

impl KeyUsage {
    const NAMES: [(KeyUsages, &'static str); 9] = [
        (KeyUsages::DigitalSignature, "digitalSignature"),
        (KeyUsages::NonRepudiation, "nonRepudiation"),
        (KeyUsages::KeyEncipherment, "keyEncipherment"),
        (KeyUsages::DataEncipherment, "dataEncipherment"),
        (KeyUsages::KeyAgreement, "keyAgreement"),
        (KeyUsages::KeyCertSign, "keyCertSign"),
        (KeyUsages::CRLSign, "cRLSign"),
        (KeyUsages::EncipherOnly, "encipherOnly"),
        (KeyUsages::DecipherOnly, "decipherOnly"),
    ];

    pub(crate) fn digital_signature(self) -> bool {
        self.0.digital_signature()
    }

    pub(crate) fn key_cert_sign(self) -> bool {
        self.0.key_cert_sign()
    }

    fn names(self) -> Vec<String> {
        let set = Self::NAMES
            .iter()
            .filter(|(bit, _)| self.0.0.contains(*bit));
        set.map(|(_, name)| (*name).to_owned()).collect()
    }
}

#[cfg(test)]
mod second_reader;
#[cfg(test)]
mod tests;
