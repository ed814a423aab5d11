//! One X.509 certificate of the chain, in strict DER. Check 20.

use crate::document::Claims;
use crate::error::{AttestationError, ErrorCode};
use crate::name;
use crate::report::CertificateView;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode, Encode, Reader, SliceReader};
use es384::{DerSignature, Signature, VerifyingKey};
use sha2::{Digest, Sha256};
use x509_cert::certificate::Version;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};
use x509_cert::spki::AlgorithmIdentifierOwned;

/// RFC 5758 §3.2: ecdsa-with-SHA384, without parameters.
const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
/// RFC 5480 §2.1.1: id-ecPublicKey, whose parameters name the curve.
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// RFC 5480 §2.1.1.1: secp384r1.
const SECP384R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
/// RFC 5280 §4.2.1.9.
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
/// RFC 5280 §4.2.1.3.
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");

/// A parsed certificate. Nothing about it is verified except that it is canonical.
pub(crate) struct Certificate {
    inner: x509_cert::Certificate,
    tbs: Vec<u8>,
    pub(crate) subject: Vec<u8>,
    pub(crate) issuer: Vec<u8>,
    /// Unix seconds.
    pub(crate) not_before: u64,
    /// Unix seconds.
    pub(crate) not_after: u64,
    /// With its criticality.
    pub(crate) constraints: Option<(bool, BasicConstraints)>,
    pub(crate) usage: Option<KeyUsage>,
}

impl Certificate {
    /// Reads one certificate. `name` says which one in errors.
    pub(crate) fn parse(der: &[u8], name: &str) -> Result<Self, AttestationError> {
        let malformed = |what: String| {
            AttestationError::new(ErrorCode::CertificateMalformed, format!("{name}: {what}"))
        };
        let broken = |error: der::Error| malformed(error.to_string());
        let inner = x509_cert::Certificate::from_der(der).map_err(broken)?;
        // X.690 §10 and §11: one value has one encoding. Encoding again finds what a decoder may have let pass, like a
        // DEFAULT that is spelt out or a date in the wrong type (RFC 5280 §4.1.2.5).
        if inner.to_der().map_err(broken)? != der {
            return Err(malformed("not in canonical encoding".to_owned()));
        }
        let tbs = inner.tbs_certificate();
        // RFC 5280 §4.1.2.1: with extensions, version 3.
        if tbs.version() != Version::V3 {
            return Err(malformed("not of version 3".to_owned()));
        }
        // RFC 5280 §4.1.1.2: the outer algorithm repeats the signed one.
        if tbs.signature() != inner.signature_algorithm() {
            return Err(malformed("two signature algorithms that differ".to_owned()));
        }
        let extensions = tbs.extensions().map_or(&[][..], Vec::as_slice);
        // RFC 5280 §4.1.2.9: a sequence of one or more, or none at all.
        if tbs.extensions().is_some_and(Vec::is_empty) {
            return Err(malformed("an empty list of extensions".to_owned()));
        }
        let (constraints, usage) = read_extensions(extensions, name)?;
        Ok(Self {
            tbs: signed_part(der).map_err(broken)?.to_vec(),
            subject: tbs.subject().to_der().map_err(broken)?,
            issuer: tbs.issuer().to_der().map_err(broken)?,
            not_before: tbs.validity().not_before.to_unix_duration().as_secs(),
            not_after: tbs.validity().not_after.to_unix_duration().as_secs(),
            constraints,
            usage,
            inner,
        })
    }

    /// Check 14, its first half: the subject's key on P-384 and the issuer's signature in ECDSA with SHA-384.
    pub(crate) fn p384(&self, name: &str) -> Result<P384, AttestationError> {
        let refuse = |what: &str| {
            AttestationError::new(ErrorCode::ChainAlgorithm, format!("{name}: {what}"))
        };
        let AlgorithmIdentifierOwned { oid, parameters } = self.inner.signature_algorithm();
        // RFC 5758 §3.2: the parameters field MUST be absent.
        if *oid != ECDSA_WITH_SHA384 || parameters.is_some() {
            return Err(refuse("not signed with ECDSA and SHA-384"));
        }
        let spki = self.inner.tbs_certificate().subject_public_key_info();
        let curve = spki
            .algorithm
            .parameters
            .as_ref()
            .and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
        if spki.algorithm.oid != EC_PUBLIC_KEY || curve != Some(SECP384R1) {
            return Err(refuse("its key is not on P-384"));
        }
        let key = spki
            .subject_public_key
            .as_bytes()
            .and_then(es384::public_key);
        let signature = self.inner.signature().as_bytes().and_then(ecdsa_value);
        Ok(P384 {
            key: key.ok_or_else(|| refuse("its key is no point of P-384"))?,
            signature: signature
                .ok_or_else(|| refuse("its signature is no ECDSA value of P-384"))?,
        })
    }

    /// The bytes that the issuer signed, as received.
    pub(crate) fn signed_bytes(&self) -> &[u8] {
        &self.tbs
    }

    /// Check 14, its second half.
    pub(crate) fn is_signed_by(&self, issuer: &VerifyingKey, signature: &Signature) -> bool {
        es384::verify(issuer, &self.tbs, signature)
    }

    /// The subject's common name, where it is there once.
    pub(crate) fn common_name(&self) -> Option<String> {
        let name = self.inner.tbs_certificate().subject();
        let mut found = name
            .iter()
            .filter(|attribute| attribute.oid == ObjectIdentifier::new_unwrap("2.5.4.3"));
        let (attribute, None) = (found.next()?, found.next()) else {
            return None;
        };
        std::str::from_utf8(attribute.value.value())
            .ok()
            .map(str::to_owned)
    }

    fn view(&self, role: &str, der: &[u8]) -> CertificateView {
        let tbs = self.inner.tbs_certificate();
        CertificateView {
            role: role.to_owned(),
            subject: name::display(tbs.subject()),
            issuer: name::display(tbs.issuer()),
            serial: hex(tbs.serial_number().as_bytes()),
            not_before: self.not_before,
            not_after: self.not_after,
            ca: self
                .constraints
                .as_ref()
                .is_some_and(|(_, constraints)| constraints.ca),
            path_length: self
                .constraints
                .as_ref()
                .and_then(|(_, constraints)| constraints.path_len_constraint),
            key_usage: self
                .usage
                .map(|usage| usage_names(&usage))
                .unwrap_or_default(),
            sha256: hex(&Sha256::digest(der)),
            der: Base64::encode_string(der),
        }
    }
}

/// RFC 3279 §2.2.3: r and s in strict DER; zero and anything from the order on is refused.
pub(crate) fn ecdsa_value(der: &[u8]) -> Option<Signature> {
    let der = DerSignature::try_from(der).ok()?;
    Signature::try_from(der).ok()
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

fn read_extensions(extensions: &[Extension], name: &str) -> Result<Recognised, AttestationError> {
    let malformed = |what: String| {
        AttestationError::new(ErrorCode::CertificateMalformed, format!("{name}: {what}"))
    };
    let (mut constraints, mut usage) = (None, None);
    for (at, extension) in extensions.iter().enumerate() {
        let oid = extension.extn_id;
        // RFC 5280 §4.2: no more than one instance of an extension.
        if extensions[..at].iter().any(|before| before.extn_id == oid) {
            return Err(malformed(format!("extension {oid} twice")));
        }
        let value = extension.extn_value.as_bytes();
        match oid {
            BASIC_CONSTRAINTS => {
                constraints = Some((extension.critical, canonical(value).map_err(malformed)?));
            }
            KEY_USAGE => usage = Some(canonical(value).map_err(malformed)?),
            // RFC 5280 §4.2: refuse a critical extension that is not recognised.
            _ if extension.critical => {
                return Err(AttestationError::new(
                    ErrorCode::CriticalExtension,
                    format!("{name}: {oid}"),
                ));
            }
            _ => {}
        }
    }
    Ok((constraints, usage))
}

/// The value inside an extension, with nothing after it, in the only encoding that it has.
fn canonical<'a, T: Decode<'a, Error = der::Error> + Encode>(value: &'a [u8]) -> Result<T, String> {
    let decoded = T::from_der(value).map_err(|error| error.to_string())?;
    match decoded.to_der() {
        Ok(encoded) if encoded == value => Ok(decoded),
        _ => Err("an extension that is not in canonical encoding".to_owned()),
    }
}

/// The first element of the outer sequence, as received (RFC 5280 §4.1.1.3: the signature is over these bytes).
fn signed_part(der: &[u8]) -> der::Result<&[u8]> {
    let outer = AnyRef::from_der(der)?;
    let mut reader = SliceReader::new(outer.value())?;
    reader.tlv_bytes()
}

fn usage_names(usage: &KeyUsage) -> Vec<String> {
    let names = [
        (usage.digital_signature(), "digitalSignature"),
        (usage.non_repudiation(), "nonRepudiation"),
        (usage.key_encipherment(), "keyEncipherment"),
        (usage.data_encipherment(), "dataEncipherment"),
        (usage.key_agreement(), "keyAgreement"),
        (usage.key_cert_sign(), "keyCertSign"),
        (usage.crl_sign(), "cRLSign"),
        (usage.encipher_only(), "encipherOnly"),
        (usage.decipher_only(), "decipherOnly"),
    ];
    names
        .into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| name.to_owned())
        .collect()
}
