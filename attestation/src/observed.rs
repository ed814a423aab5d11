//! What refused evidence held instead of what it had to: data, and a sentence made of it.

use crate::cbor::CborError;
use crate::manifest::{ManifestError, SecurityMode};
use crate::policy::ModelPin;
use crate::time::UnixMillis;
use base16ct::lower::encode_string as hex;
use std::fmt::Display;

/// What the evidence held. It displays as the end of a sentence, for a person.
///
/// Names and texts come from evidence: nobody vouches for them. Certificates are named by their place: `root`,
/// `certificate 1`, `leaf`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "each field is what its variant's sentence says of it"
)]
pub enum Observed {
    /// A fault without a measure.
    #[error("{0}")]
    Fault(&'static str),
    /// So many bytes.
    #[error("{of} of {bytes} bytes")]
    Size { of: &'static str, bytes: usize },
    /// One of several is so many bytes long.
    #[error("entry {index} has {bytes} bytes")]
    EntrySize { index: usize, bytes: usize },
    /// Bytes that are compared as a whole.
    #[error("protected header {}", excerpt(.0))]
    ProtectedHeader(Vec<u8>),
    /// A CBOR tag (RFC 8949 §3.4).
    #[error("tag {0}")]
    Tag(u64),
    /// So many items of an array; none where its length is indefinite.
    #[error("{}", .0.map_or("an array of indefinite length".to_owned(), |items| format!("an array of {items}")))]
    Array(Option<u64>),
    /// CBOR that cannot be read.
    #[error("{0}")]
    Cbor(CborError),
    /// CBOR that cannot be read, and in which part or field it stands.
    #[error("{within}: {error}")]
    CborWithin { within: String, error: CborError },
    /// What `coset` says of the envelope.
    #[error("{0}")]
    Cose(String),
    /// A field that is not there.
    #[error("no {0}")]
    Missing(&'static str),
    /// A field or register that stands there more than once.
    #[error("{0} twice")]
    Twice(String),
    /// A text that is not the one expected, cut where it is long.
    #[error("{of} {text:?}")]
    Text { of: &'static str, text: String },
    /// A number that is no moment in milliseconds.
    #[error("timestamp {0}")]
    Timestamp(u64),
    /// The number of a register that no enclave has.
    #[error("PCR{0}")]
    Register(u64),
    /// A register that is no SHA-384 digest.
    #[error("PCR{0} of another length than 48 bytes")]
    RegisterSize(u64),
    /// SHA-256 of the certificate that stands where the root has to.
    #[error("root {}…{}", hex(&sha256[..4]), hex(&sha256[30..]))]
    Root { sha256: [u8; 32] },
    /// What a certificate may not be.
    #[error("the {certificate} {is}")]
    Certificate {
        certificate: String,
        is: &'static str,
    },
    /// Why a certificate, its key or its signature cannot be read.
    #[error("{certificate}: {why}")]
    Unreadable { certificate: String, why: String },
    /// Two certificates that do not follow one another by name.
    #[error("the {subject}'s issuer is not the {issuer}")]
    Issuer { subject: String, issuer: String },
    /// More issuers than one of them allows.
    #[error("the {certificate} allows {limit} issuers below it, and {below} follow")]
    PathLength {
        certificate: String,
        limit: u8,
        below: usize,
    },
    /// A certificate before its time.
    #[error("the {certificate} is valid from {from}, judged as of {at}")]
    NotYetValid {
        certificate: String,
        from: UnixMillis,
        at: UnixMillis,
    },
    /// A certificate past its time.
    #[error("the {certificate} was valid until {until}, judged as of {at}")]
    Expired {
        certificate: String,
        until: UnixMillis,
        at: UnixMillis,
    },
    /// Two moments that have to be one.
    #[error("chain as of {chain}, freshness as of {freshness}")]
    Moments {
        chain: UnixMillis,
        freshness: UnixMillis,
    },
    /// A policy past its time.
    #[error("policy {policy}, until {until}, judged as of {at}")]
    PolicyEnded {
        policy: String,
        until: UnixMillis,
        at: UnixMillis,
    },
    /// A release that the policy does not accept yet.
    #[error("release {release}, accepted from {from}, judged as of {at}")]
    ReleaseNotBegun {
        release: String,
        from: UnixMillis,
        at: UnixMillis,
    },
    /// A release that the policy no longer accepts.
    #[error("release {release}, accepted until {}, judged as of {at}", until.map_or("never".to_owned(), |until| until.to_string()))]
    ReleaseEnded {
        release: String,
        until: Option<UnixMillis>,
        at: UnixMillis,
    },
    /// The first register that differs from the closest release.
    #[error(
        "PCR{index} is {}, release {release} has {}",
        measured.as_ref().map_or("absent".to_owned(), |value| excerpt(&value[..])),
        excerpt(&pinned[..])
    )]
    Measurement {
        index: u8,
        measured: Option<[u8; 48]>,
        release: String,
        pinned: [u8; 48],
    },
    /// A field of the document beside what had to stand there.
    #[error("{field} {}, {whose} {}", or(attested.as_deref(), "null"), or(demanded.as_deref(), "none"))]
    Differs {
        field: &'static str,
        attested: Option<Vec<u8>>,
        whose: &'static str,
        demanded: Option<Vec<u8>>,
    },
    /// When the document was made, and the moment that it is judged for.
    #[error("made at {made}, judged as of {at}")]
    Made { made: UnixMillis, at: UnixMillis },
    /// How old the document is.
    #[error("{} s old, the policy allows {allowed_seconds}", millis.div_ceil(1000))]
    Age { millis: u64, allowed_seconds: u64 },
    /// The service's model beside the policy's.
    #[error("model {}, policy {}", model_name(service), policy.as_ref().map_or(NONE.to_owned(), model_name))]
    Model {
        service: ModelPin,
        policy: Option<ModelPin>,
    },
    /// The service's policy version beside the policy's.
    #[error("{service:?}, policy {}", policy.as_ref().map_or(NONE.to_owned(), |version| format!("{version:?}")))]
    PolicyVersion {
        service: String,
        policy: Option<String>,
    },
    /// The service's security mode beside the policy's.
    #[error("{}, policy {}", service.as_str(), policy.map_or(NONE, SecurityMode::as_str))]
    Mode {
        service: SecurityMode,
        policy: Option<SecurityMode>,
    },
    /// A manifest that cannot be read.
    #[error("{0}")]
    Manifest(ManifestError),
    /// A manifest outside of its own time.
    #[error("valid from {from} until {until}, judged as of {at}")]
    ManifestTime {
        from: UnixMillis,
        until: UnixMillis,
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

/// The first bytes in hex, for a person: evidence can be long.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    match bytes {
        [] => "of no bytes".to_owned(),
        _ if bytes.len() <= 16 => hex(bytes),
        _ => format!("{}… ({} bytes)", hex(&bytes[..16]), bytes.len()),
    }
}

fn or(bytes: Option<&[u8]>, absent: &str) -> String {
    bytes.map_or(absent.to_owned(), excerpt)
}

fn model_name(model: &ModelPin) -> String {
    format!("{:?} {}…", model.id, hex(&model.sha256[..8]))
}
