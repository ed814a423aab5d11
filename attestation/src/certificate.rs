//! One X.509 certificate of the chain (RFC 5280 §4.1), in strict DER. Check 20.
//!
//! Read here and not by a library: every page loads what stands here, and a library's types for all of X.509 are a tenth
//! of the verifier. The tests hold what is accepted, and every value that is read, against `x509-cert`.

use crate::der::{DerError, Oid, Reader, tag};
use crate::document::Claims;
use crate::error::{AttestationError, ErrorCode};
use crate::name::Name;
use crate::report::CertificateView;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use es384::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

/// RFC 5758 §3.2: ecdsa-with-SHA384 (1.2.840.10045.4.3.3), whose parameters field MUST be absent.
const ECDSA_WITH_SHA384: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03";
/// RFC 5480 §2.1.1: id-ecPublicKey (1.2.840.10045.2.1) with the curve as parameter, secp384r1 (1.3.132.0.34).
const EC_P384: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";
/// RFC 5280 §4.2.1.9: 2.5.29.19.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
/// RFC 5280 §4.2.1.3: 2.5.29.15.
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
/// RFC 5280 §4.1.2.2: most bytes of a serial number.
const MAX_SERIAL: usize = 20;

/// A parsed certificate. Nothing about it is verified except that it is canonical.
pub(crate) struct Certificate<'a> {
    /// The bytes that the issuer signed, as received.
    pub(crate) tbs: &'a [u8],
    /// Big-endian, as many bytes as it needs.
    serial: &'a [u8],
    pub(crate) issuer: Name<'a>,
    pub(crate) subject: Name<'a>,
    /// Unix seconds.
    pub(crate) not_before: u64,
    /// Unix seconds.
    pub(crate) not_after: u64,
    /// With its criticality.
    pub(crate) constraints: Option<(bool, BasicConstraints)>,
    pub(crate) usage: Option<KeyUsage>,
    /// Content of the AlgorithmIdentifier.
    key_algorithm: &'a [u8],
    key: &'a [u8],
    /// Content of the AlgorithmIdentifier.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

/// RFC 5280 §4.2.1.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasicConstraints {
    pub(crate) ca: bool,
    /// How many issuers may follow below, the leaf not counted.
    pub(crate) path_length: Option<u8>,
}

/// RFC 5280 §4.2.1.3. Bit 0, the highest of the first byte, is digitalSignature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyUsage(u16);

impl<'a> Certificate<'a> {
    /// Reads one certificate. `name` says which one in errors.
    pub(crate) fn parse(der: &'a [u8], name: &str) -> Result<Self, AttestationError> {
        Self::read(der).map_err(|refused| {
            let (code, what) = match refused {
                Refused::Der(error) => (ErrorCode::CertificateMalformed, error.to_string()),
                Refused::Twice(oid) => (
                    ErrorCode::CertificateMalformed,
                    format!("extension {oid} twice"),
                ),
                Refused::Critical(oid) => (ErrorCode::CriticalExtension, oid.to_string()),
            };
            AttestationError::new(code, format!("{name}: {what}"))
        })
    }

    /// RFC 5280 §4.1: Certificate, and the TBSCertificate inside.
    fn read(der: &'a [u8]) -> Result<Self, Refused<'a>> {
        let mut input = Reader::new(der);
        let mut outer = input.sequence()?;
        input.finish()?;
        let signed = outer.element(tag::SEQUENCE)?;
        let algorithm = algorithm(&mut outer)?;
        let signature = outer.whole_bytes()?;
        outer.finish()?;

        let mut tbs = Reader::new(signed.content);
        // §4.1.2.1: with extensions, version 3, which is written as 2.
        match tbs.optional(context(0))? {
            Some(version) if version.content == [tag::INTEGER, 1, 2] => {}
            _ => return Err(DerError("not of version 3").into()),
        }
        let serial = tbs.unsigned()?;
        if serial.len() > MAX_SERIAL {
            return Err(DerError("a serial number of more than 20 bytes").into());
        }
        // §4.1.1.2: the outer algorithm repeats the signed one.
        if self::algorithm(&mut tbs)? != algorithm {
            return Err(DerError("two signature algorithms that differ").into());
        }
        let issuer = Name::read(&mut tbs)?;
        // §4.1.2.4: not empty. A CA's subject is the next one's issuer (check 15).
        if issuer.is_empty() {
            return Err(DerError("an empty issuer").into());
        }
        let mut validity = tbs.sequence()?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        validity.finish()?;
        let subject = Name::read(&mut tbs)?;
        let mut key_info = tbs.sequence()?;
        let key_algorithm = self::algorithm(&mut key_info)?;
        let key = key_info.whole_bytes()?;
        key_info.finish()?;
        // §4.1.2.8: the unique identifiers [1] and [2], which no CA may generate, are no part of a certificate here.
        let (constraints, usage) = match tbs.optional(context(3))? {
            Some(extensions) => read_extensions(extensions.content)?,
            None => (None, None),
        };
        tbs.finish()?;
        Ok(Self {
            tbs: signed.whole,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            constraints,
            usage,
            key_algorithm,
            key,
            algorithm,
            signature,
        })
    }

    /// Check 14, its first half: the subject's key on P-384 and the issuer's signature in ECDSA with SHA-384.
    pub(crate) fn p384(&self, name: &str) -> Result<P384, AttestationError> {
        let refuse = |what: &str| {
            AttestationError::new(ErrorCode::ChainAlgorithm, format!("{name}: {what}"))
        };
        if self.algorithm != ECDSA_WITH_SHA384 {
            return Err(refuse("not signed with ECDSA and SHA-384"));
        }
        if self.key_algorithm != EC_P384 {
            return Err(refuse("its key is not on P-384"));
        }
        Ok(P384 {
            key: es384::public_key(self.key)
                .ok_or_else(|| refuse("its key is no point of P-384"))?,
            signature: ecdsa_value(self.signature)
                .ok_or_else(|| refuse("its signature is no ECDSA value of P-384"))?,
        })
    }

    /// Check 14, its second half.
    pub(crate) fn is_signed_by(&self, issuer: &VerifyingKey, signature: &Signature) -> bool {
        es384::verify(issuer, self.tbs, signature)
    }

    fn view(&self, role: &str, der: &[u8]) -> CertificateView {
        CertificateView {
            role: role.to_owned(),
            subject: self.subject.to_string(),
            issuer: self.issuer.to_string(),
            serial: hex(self.serial),
            not_before: self.not_before,
            not_after: self.not_after,
            ca: self.constraints.is_some_and(|(_, it)| it.ca),
            path_length: self.constraints.and_then(|(_, it)| it.path_length),
            key_usage: self.usage.map(KeyUsage::names).unwrap_or_default(),
            sha256: hex(&Sha256::digest(der)),
            der: Base64::encode_string(der),
        }
    }
}

/// Why a certificate is refused, before anyone knows its name.
enum Refused<'a> {
    Der(DerError),
    /// RFC 5280 §4.2: an extension that stands there more than once.
    Twice(Oid<'a>),
    /// RFC 5280 §4.2: a critical extension that is not recognised.
    Critical(Oid<'a>),
}

impl From<DerError> for Refused<'_> {
    fn from(error: DerError) -> Self {
        Self::Der(error)
    }
}

/// The tag of `[number] EXPLICIT`.
const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// RFC 5280 §4.1.1.2: an identifier and, for some, parameters. Returns the content.
fn algorithm<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DerError> {
    let element = reader.element(tag::SEQUENCE)?;
    let mut parts = Reader::new(element.content);
    parts.oid()?;
    if !parts.is_empty() {
        parts.any()?;
    }
    parts.finish()?;
    Ok(element.content)
}

/// RFC 3279 §2.2.3: r and s in strict DER; zero and anything from the order on is refused.
pub(crate) fn ecdsa_value(der: &[u8]) -> Option<Signature> {
    let mut input = Reader::new(der);
    let mut sequence = input.sequence().ok()?;
    input.finish().ok()?;
    let (r, s) = (sequence.unsigned().ok()?, sequence.unsigned().ok()?);
    sequence.finish().ok()?;
    es384::signature(r, s)
}

/// Key and signature of a certificate that keeps to the one algorithm of the chain.
pub(crate) struct P384 {
    pub(crate) key: VerifyingKey,
    pub(crate) signature: Signature,
}

/// The chain for a reader, root first, as far as it can be parsed.
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

/// What AWS calls the certificate at this place of a chain of `total`.
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

/// RFC 5280 §4.2. `der` is inside the explicit tag.
fn read_extensions(der: &[u8]) -> Result<Recognised, Refused<'_>> {
    let mut input = Reader::new(der);
    let mut list = input.sequence()?;
    input.finish()?;
    // §4.1.2.9: a sequence of one or more, or none at all.
    if list.is_empty() {
        return Err(DerError("an empty list of extensions").into());
    }
    let (mut constraints, mut usage) = (None, None);
    let mut seen: Vec<Oid<'_>> = Vec::new();
    while !list.is_empty() {
        let mut extension = list.sequence()?;
        let oid = extension.oid()?;
        let critical = extension.flag()?;
        let value = extension.element(tag::OCTET_STRING)?.content;
        extension.finish()?;
        // §4.2: no more than one instance of an extension.
        if seen.contains(&oid) {
            return Err(Refused::Twice(oid));
        }
        seen.push(oid);
        match oid.as_bytes() {
            BASIC_CONSTRAINTS => constraints = Some((critical, BasicConstraints::read(value)?)),
            KEY_USAGE => usage = Some(KeyUsage::read(value)?),
            _ if critical => return Err(Refused::Critical(oid)),
            _ => {}
        }
    }
    Ok((constraints, usage))
}

impl BasicConstraints {
    fn read(der: &[u8]) -> Result<Self, DerError> {
        let mut input = Reader::new(der);
        let mut sequence = input.sequence()?;
        input.finish()?;
        let ca = sequence.flag()?;
        let path_length = match sequence.is_empty() {
            true => None,
            false => match sequence.unsigned()? {
                [length] => Some(*length),
                _ => return Err(DerError("a path length over 255")),
            },
        };
        sequence.finish()?;
        Ok(Self { ca, path_length })
    }
}

impl KeyUsage {
    const NAMES: [&'static str; 9] = [
        "digitalSignature",
        "nonRepudiation",
        "keyEncipherment",
        "dataEncipherment",
        "keyAgreement",
        "keyCertSign",
        "cRLSign",
        "encipherOnly",
        "decipherOnly",
    ];

    fn read(der: &[u8]) -> Result<Self, DerError> {
        let mut input = Reader::new(der);
        let (bytes, unused) = input.bit_string()?;
        input.finish()?;
        // X.690 §11.2.2: a list of named bits ends with the last that is set.
        if bytes.last().is_some_and(|last| last >> unused & 1 == 0) {
            return Err(DerError("a key usage that ends with bits that are not set"));
        }
        match *bytes {
            [] => Ok(Self(0)),
            [first] => Ok(Self(u16::from_be_bytes([first, 0]))),
            [first, 0x80] => Ok(Self(u16::from_be_bytes([first, 0x80]))),
            _ => Err(DerError("a key usage that nobody knows")),
        }
    }

    fn has(self, bit: usize) -> bool {
        self.0 << bit & 0x8000 != 0
    }

    pub(crate) fn digital_signature(self) -> bool {
        self.has(0)
    }

    pub(crate) fn key_cert_sign(self) -> bool {
        self.has(5)
    }

    fn names(self) -> Vec<String> {
        let set = Self::NAMES.iter().enumerate();
        set.filter(|(bit, _)| self.has(*bit))
            .map(|(_, name)| (*name).to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests;
