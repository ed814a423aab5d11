//! Why a receipt is refused: the profile's layers and codes.

use std::fmt;

use super::rows::ReceiptCheck;

/// The profile's four layers of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// 1: is it a receipt?
    Parse = 1,
    /// 2: who signed it?
    Signature = 2,
    /// 3: can the claims be true?
    Claims = 3,
    /// 4: do they match the expectations?
    Policy = 4,
}

/// Stable codes of refusal. Variants may be added; a code never changes meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, error_codes::Coded)]
#[coded(all)]
#[non_exhaustive]
pub enum ReceiptCode {
    /// Over [`super::MAX_RECEIPT`].
    #[coded(
        "RECEIPT_TOO_LARGE",
        remedy = "Pass the receipt alone; it is far smaller than this."
    )]
    TooLarge,
    /// Not CBOR, or not of the shape that a receipt has.
    #[coded(
        "BAD_CBOR",
        remedy = "Check that the whole receipt was copied, and nothing else."
    )]
    BadCbor,
    /// Longer encodings than needed, indefinite lengths, keys out of order or doubled.
    #[coded(
        "NOT_DETERMINISTIC",
        remedy = "Have the issuer encode as RFC 8949 §4.2 says; do not trust a receipt that was re-encoded."
    )]
    NotDeterministic,
    /// No tag 18.
    #[coded(
        "NOT_COSE_SIGN1",
        remedy = "Pass a tagged COSE_Sign1; other structures are not receipts."
    )]
    NotTagged,
    /// Bytes after the receipt or after its claims.
    #[coded("TRAILING_BYTES", remedy = "Remove what follows the receipt.")]
    TrailingBytes,
    /// Another algorithm than EdDSA.
    #[coded(
        "BAD_ALG",
        remedy = "Refuse the receipt; the profile knows EdDSA only."
    )]
    BadAlg,
    /// Another content type than CWT.
    #[coded(
        "BAD_CONTENT_TYPE",
        remedy = "Refuse the receipt; it is another kind of token."
    )]
    BadContentType,
    /// Header parameters that the profile does not have.
    #[coded(
        "BAD_HEADERS",
        remedy = "Refuse the receipt; its headers are not the profile's."
    )]
    BadHeaders,
    /// A signature that is not 64 bytes.
    #[coded(
        "BAD_SIGNATURE_LENGTH",
        remedy = "Check that the whole receipt was copied."
    )]
    BadSignatureLength,
    /// A claim that the profile does not define.
    #[coded(
        "UNKNOWN_CLAIM",
        remedy = "Update the verifier, if the profile has grown; otherwise refuse the receipt."
    )]
    UnknownClaim,
    /// A mandatory claim is absent.
    #[coded("MISSING_CLAIM", remedy = "Refuse the receipt and tell its issuer.")]
    MissingClaim,
    /// A claim of another type.
    #[coded("BAD_CLAIM_TYPE", remedy = "Refuse the receipt and tell its issuer.")]
    BadClaimType,
    /// Another profile, or another version of it.
    #[coded(
        "BAD_PROFILE",
        remedy = "Use a verifier for the profile that the receipt names."
    )]
    BadProfile,
    /// The key is not an Ed25519 point, or is one of small order.
    #[coded("BAD_KEY", remedy = "Check the key; take it from verified evidence.")]
    BadKey,
    /// The signature does not fit.
    #[coded(
        "SIG_FAILED",
        remedy = "Do not rely on the receipt: it was changed, or another key signed it."
    )]
    SigFailed,
    /// `iat` is 0 or beyond the year 9999.
    #[coded("BAD_TIMESTAMP", remedy = "Refuse the receipt and tell its issuer.")]
    BadTimestamp,
    /// `cti` is not 16 bytes.
    #[coded("BAD_CTI_LENGTH", remedy = "Refuse the receipt and tell its issuer.")]
    BadIdLength,
    /// A hash that is not 32 bytes.
    #[coded("BAD_HASH_LENGTH", remedy = "Refuse the receipt and tell its issuer.")]
    BadHashLength,
    /// `model_hash` is all zero.
    #[coded("ZERO_MODEL_HASH", remedy = "Refuse the receipt: it names no model.")]
    ZeroModelHash,
    /// A register that is not 48 bytes.
    #[coded(
        "BAD_MEASUREMENT_LENGTH",
        remedy = "Refuse the receipt and tell its issuer."
    )]
    BadMeasurementLength,
    /// Unknown `measurement_type`.
    #[coded(
        "UNKNOWN_MEASUREMENT_TYPE",
        remedy = "Update the verifier, if it is a new platform."
    )]
    UnknownMeasurementType,
    /// A register that the platform does not have.
    #[coded(
        "UNEXPECTED_MEASUREMENT",
        remedy = "Refuse the receipt and tell its issuer."
    )]
    UnexpectedMeasurement,
    /// Neither "production" nor "evaluation".
    #[coded(
        "UNKNOWN_SECURITY_MODE",
        remedy = "Refuse the receipt and tell its issuer."
    )]
    UnknownSecurityMode,
    /// A `model_hash_scheme` that the profile does not define.
    #[coded(
        "UNKNOWN_HASH_SCHEME",
        remedy = "Update the verifier, if the profile has grown."
    )]
    UnknownHashScheme,
    /// `eat_nonce` outside 8..=64 bytes.
    #[coded("BAD_NONCE_LENGTH", remedy = "Refuse the receipt and tell its issuer.")]
    BadNonceLength,
    /// A counter beyond what JSON can carry exactly.
    #[coded("NUMBER_TOO_LARGE", remedy = "Refuse the receipt and tell its issuer.")]
    NumberTooLarge,
    /// Measured on another platform.
    #[coded(
        "PLATFORM_MISMATCH",
        remedy = "Check which platform the service should run on."
    )]
    PlatformMismatch,
    /// Names another attestation document.
    #[coded(
        "ATTESTATION_DOC_MISMATCH",
        remedy = "Pass the document that was current when the receipt was issued."
    )]
    DocumentMismatch,
    /// Registers differ from the document's.
    #[coded(
        "MEASUREMENT_MISMATCH",
        remedy = "Do not rely on the receipt: another image issued it."
    )]
    MeasurementMismatch,
    /// Another model.
    #[coded(
        "MODEL_HASH_MISMATCH",
        remedy = "Do not rely on the answer: another model gave it."
    )]
    ModelHashMismatch,
    /// Another name or version of a model.
    #[coded("MODEL_ID_MISMATCH", remedy = "Check which model was asked for.")]
    ModelIdMismatch,
    /// Issued under another policy.
    #[coded(
        "POLICY_MISMATCH",
        remedy = "Check which policy version the service should run under."
    )]
    PolicyMismatch,
    /// On trial where production is expected, or the reverse.
    #[coded(
        "SECURITY_MODE_MISMATCH",
        remedy = "Do not rely on receipts of an evaluation service in production."
    )]
    SecurityModeMismatch,
    /// Speaks of another request.
    #[coded(
        "REQUEST_HASH_MISMATCH",
        remedy = "Do not rely on the receipt: it is of another request."
    )]
    RequestHashMismatch,
    /// Speaks of another response.
    #[coded(
        "RESPONSE_HASH_MISMATCH",
        remedy = "Do not rely on the answer: the receipt is of another one."
    )]
    ResponseHashMismatch,
    /// Another nonce, or none.
    #[coded(
        "NONCE_MISMATCH",
        remedy = "Do not rely on the receipt: it answers another request."
    )]
    NonceMismatch,
    /// Older than allowed.
    #[coded(
        "TIMESTAMP_STALE",
        remedy = "Ask again, or allow a greater age when auditing."
    )]
    TimestampStale,
    /// Issued after the judged moment.
    #[coded("TIMESTAMP_FUTURE", remedy = "Check the clocks of both sides.")]
    TimestampFuture,
}

impl ReceiptCode {
    /// The layer that refuses with this code.
    pub const fn layer(self) -> Layer {
        match self {
            Self::TooLarge
            | Self::BadCbor
            | Self::NotDeterministic
            | Self::NotTagged
            | Self::TrailingBytes
            | Self::BadAlg
            | Self::BadContentType
            | Self::BadHeaders
            | Self::BadSignatureLength
            | Self::UnknownClaim
            | Self::MissingClaim
            | Self::BadClaimType
            | Self::BadProfile => Layer::Parse,
            Self::BadKey | Self::SigFailed => Layer::Signature,
            Self::BadTimestamp
            | Self::BadIdLength
            | Self::BadHashLength
            | Self::ZeroModelHash
            | Self::BadMeasurementLength
            | Self::UnknownMeasurementType
            | Self::UnexpectedMeasurement
            | Self::UnknownSecurityMode
            | Self::UnknownHashScheme
            | Self::BadNonceLength
            | Self::NumberTooLarge => Layer::Claims,
            Self::PlatformMismatch
            | Self::DocumentMismatch
            | Self::MeasurementMismatch
            | Self::ModelHashMismatch
            | Self::ModelIdMismatch
            | Self::PolicyMismatch
            | Self::SecurityModeMismatch
            | Self::RequestHashMismatch
            | Self::ResponseHashMismatch
            | Self::NonceMismatch
            | Self::TimestampStale
            | Self::TimestampFuture => Layer::Policy,
        }
    }
}

/// A refusal: the row, the code, and the observed value. Holds nothing of the contents of request or response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptRefusal {
    /// Stable code.
    pub code: ReceiptCode,
    pub(super) row: ReceiptCheck,
    pub(super) observed: String,
}

impl ReceiptRefusal {
    pub(super) fn new(row: ReceiptCheck, code: ReceiptCode, observed: impl Into<String>) -> Self {
        Self {
            code,
            row,
            observed: observed.into(),
        }
    }
}

impl fmt::Display for ReceiptRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the receipt was refused with {} ({}): {}",
            self.code.code(),
            self.observed,
            self.code.remedy()
        )
    }
}

impl std::error::Error for ReceiptRefusal {}
