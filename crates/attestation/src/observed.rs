//! The values that refused evidence held instead of the expected ones, and a sentence made of them.

use std::fmt::Display;

use base16ct::lower::encode_string as hex;

use crate::cbor::CborError;
use crate::manifest::{ManifestError, ModelPin, SecurityMode};
use crate::time::UnixMillis;

/// A value from refused evidence. Displays as the end of a sentence, for a person.
///
/// Names and texts come from evidence and are not verified. Certificates are named by position: `root`,
/// `certificate 1`, `leaf`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Observed {
    /// An error without data.
    #[error("{0}")]
    Fault(&'static str),
    /// A part of a size that it must not have.
    #[error("{of} of {bytes} bytes")]
    Size {
        /// The part.
        of: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// An entry of a list, of a size that it must not have.
    #[error("entry {index} has {bytes} bytes")]
    EntrySize {
        /// Its index, from 0.
        index: usize,
        /// Its size.
        bytes: usize,
    },
    /// The protected header, which is compared byte by byte.
    #[error("protected header {}", excerpt(.0))]
    ProtectedHeader(Vec<u8>),
    /// A CBOR tag other than the one of COSE_Sign1 (RFC 8949 §3.4).
    #[error("tag {0}")]
    Tag(u64),
    /// An array whose length is not four; `None` if its length is indefinite.
    #[error("{}", .0.map_or("an array of indefinite length".to_owned(), |items| format!("an array of {items}")))]
    Array(Option<u64>),
    /// CBOR that cannot be read.
    #[error("{0}")]
    Cbor(CborError),
    /// CBOR that cannot be read, and the part or field that holds it.
    #[error("{within}: {error}")]
    CborWithin {
        /// The part or field.
        within: String,
        /// The error.
        error: CborError,
    },
    /// The message of `coset` about the envelope.
    #[error("{0}")]
    Cose(String),
    /// A field that is missing.
    #[error("no {0}")]
    Missing(&'static str),
    /// A field or register that occurs more than once.
    #[error("{0} twice")]
    Duplicate(String),
    /// A text that is not the expected one, truncated if it is long.
    #[error("{of} {text:?}")]
    Text {
        /// The field that holds it.
        of: &'static str,
        /// The text, truncated if it is long.
        text: String,
    },
    /// A number that is not a moment in milliseconds.
    #[error("timestamp {0}")]
    Timestamp(u64),
    /// The number of a register that no enclave has.
    #[error("PCR{0}")]
    Register(u64),
    /// A register that is not a SHA-384 digest.
    #[error("PCR{0} of another length than 48 bytes")]
    RegisterSize(u64),
    /// SHA-256 of the certificate in the root's position.
    #[error("root {}…{}", hex(&sha256[..4]), hex(&sha256[30..]))]
    Root {
        /// The hash.
        sha256: [u8; 32],
    },
    /// A certificate that breaks a rule of the chain.
    #[error("the {certificate} {is}")]
    Certificate {
        /// Which one: `root`, `certificate 1`, `leaf`.
        certificate: String,
        /// The broken rule, in words.
        is: &'static str,
    },
    /// Why a certificate, its key or its signature cannot be read.
    #[error("{certificate}: {why}")]
    Unreadable {
        /// Which one: `root`, `certificate 1`, `leaf`.
        certificate: String,
        /// The reason, in words.
        why: String,
    },
    /// Two certificates that do not follow one another by name.
    #[error("the {subject}'s issuer is not the {issuer}")]
    Issuer {
        /// The certificate below.
        subject: String,
        /// The one above it.
        issuer: String,
    },
    /// More issuers than one of them allows.
    #[error("the {certificate} allows {limit} issuers below it, and {below} follow")]
    PathLength {
        /// Which one: `root`, `certificate 1`, `leaf`.
        certificate: String,
        /// Issuers that it allows below itself.
        limit: u8,
        /// Issuers in the chain.
        below: usize,
    },
    /// A certificate before its notBefore.
    #[error("the {certificate} is valid from {from}, judged as of {at}")]
    NotYetValid {
        /// Which one: `root`, `certificate 1`, `leaf`.
        certificate: String,
        /// When it begins.
        from: UnixMillis,
        /// The appraised moment.
        at: UnixMillis,
    },
    /// A certificate after its notAfter.
    #[error("the {certificate} was valid until {until}, judged as of {at}")]
    Expired {
        /// Which one: `root`, `certificate 1`, `leaf`.
        certificate: String,
        /// When it ends.
        until: UnixMillis,
        /// The appraised moment.
        at: UnixMillis,
    },
    /// A certificate that a revocation list names.
    #[error("the {certificate} is revoked since {since} ({reason}), per CRL of {list}")]
    Revoked {
        /// Which one: `certificate 1`, `leaf`.
        certificate: String,
        /// When its issuer revoked it.
        since: UnixMillis,
        /// The reason, as RFC 5280 §5.3.1 names it.
        reason: &'static str,
        /// When the list was made.
        list: UnixMillis,
    },
    /// The chain and the freshness were appraised at different moments.
    #[error("chain as of {chain}, freshness as of {freshness}")]
    JudgedTimes {
        /// The moment of the chain.
        chain: UnixMillis,
        /// The requested moment.
        freshness: UnixMillis,
    },
    /// A policy that has ended.
    #[error("policy {policy}, until {until}, judged as of {at}")]
    PolicyEnded {
        /// Its name.
        policy: String,
        /// When it ends.
        until: UnixMillis,
        /// The appraised moment.
        at: UnixMillis,
    },
    /// A release that the policy does not accept yet.
    #[error("release {release}, accepted from {from}, judged as of {at}")]
    ReleaseNotBegun {
        /// Its name.
        release: String,
        /// When it begins.
        from: UnixMillis,
        /// The appraised moment.
        at: UnixMillis,
    },
    /// A release that the policy no longer accepts.
    #[error("release {release}, accepted until {}, judged as of {at}", until.map_or("never".to_owned(), |until| until.to_string()))]
    ReleaseEnded {
        /// Its name.
        release: String,
        /// When it ends.
        until: Option<UnixMillis>,
        /// The appraised moment.
        at: UnixMillis,
    },
    /// The first register that differs from the closest release.
    #[error(
        "PCR{index} is {}, release {release} has {}",
        measured.as_ref().map_or("absent".to_owned(), |value| excerpt(&value[..])),
        excerpt(&pinned[..])
    )]
    Measurement {
        /// The register.
        index: u8,
        /// The document's value; `None` if the register is absent.
        measured: Option<[u8; 48]>,
        /// The closest release.
        release: String,
        /// The pinned value.
        pinned: [u8; 48],
    },
    /// A field of the document, and the value that it should have.
    #[error("{field} {}, {whose} {}", excerpt_or(attested.as_deref(), "null"), excerpt_or(demanded.as_deref(), "none"))]
    Differs {
        /// The field of the document.
        field: &'static str,
        /// Its value; `None` if it is null.
        attested: Option<Vec<u8>>,
        /// The source of the other value.
        whose: &'static str,
        /// The other value, if there is one.
        demanded: Option<Vec<u8>>,
    },
    /// A document that was made after the appraised moment.
    #[error("made at {made}, judged as of {at}")]
    FromFuture {
        /// When the document was made.
        made: UnixMillis,
        /// The appraised moment.
        at: UnixMillis,
    },
    /// A document that is too old.
    #[error("{} s old, the policy allows {allowed_seconds}", millis.div_ceil(1000))]
    Age {
        /// Its age, in milliseconds.
        millis: u64,
        /// The policy's bound, in seconds.
        allowed_seconds: u64,
    },
    /// The service's model, compared with the policy's.
    #[error("model {}, policy {}", model_name(service), policy.as_ref().map_or(NONE.to_owned(), model_name))]
    Model {
        /// The service's value.
        service: ModelPin,
        /// The policy's value, if it has one.
        policy: Option<ModelPin>,
    },
    /// The service's policy version, compared with the policy's.
    #[error("{service:?}, policy {}", policy.as_ref().map_or(NONE.to_owned(), |version| format!("{version:?}")))]
    PolicyVersion {
        /// The service's value.
        service: String,
        /// The policy's value, if it has one.
        policy: Option<String>,
    },
    /// The service's security mode, compared with the policy's.
    #[error("{}, policy {}", service.as_str(), policy.map_or(NONE, SecurityMode::as_str))]
    SecurityMode {
        /// The service's value.
        service: SecurityMode,
        /// The policy's value, if it has one.
        policy: Option<SecurityMode>,
    },
    /// A manifest that cannot be read.
    #[error("{0}")]
    Manifest(ManifestError),
    /// A manifest outside its own validity.
    #[error("valid from {from} until {until}, judged as of {at}")]
    ManifestTime {
        /// When it begins.
        from: UnixMillis,
        /// When it ends.
        until: UnixMillis,
        /// The appraised moment.
        at: UnixMillis,
    },
}

impl Observed {
    pub(crate) fn size(of: &'static str, bytes: usize) -> Self {
        Self::Size { of, bytes }
    }

    pub(crate) fn within(part: &str, error: CborError) -> Self {
        Self::CborWithin {
            within: part.to_owned(),
            error,
        }
    }

    pub(crate) fn text(of: &'static str, text: impl Iterator<Item = char>) -> Self {
        let text = text.collect();
        Self::Text { of, text }
    }

    pub(crate) fn certificate(name: &str, is: &'static str) -> Self {
        Self::Certificate {
            certificate: name.to_owned(),
            is,
        }
    }

    pub(crate) fn unreadable(name: &str, why: impl Display) -> Self {
        Self::Unreadable {
            certificate: name.to_owned(),
            why: why.to_string(),
        }
    }
}

const NONE: &str = "names none";

impl From<&'static str> for Observed {
    fn from(fault: &'static str) -> Self {
        Self::Fault(fault)
    }
}

/// The first bytes in hex, because evidence can be long.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    match bytes {
        [] => "of no bytes".to_owned(),
        _ if bytes.len() <= 16 => hex(bytes),
        _ => format!("{}… ({} bytes)", hex(&bytes[..16]), bytes.len()),
    }
}

fn excerpt_or(bytes: Option<&[u8]>, absent: &str) -> String {
    bytes.map_or(absent.to_owned(), excerpt)
}

fn model_name(model: &ModelPin) -> String {
    format!("{:?} {}…", model.id, hex(&model.sha256[..8]))
}
