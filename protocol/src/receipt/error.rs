//! Why a receipt is refused: the profile's layers and codes.

use super::rows::ReceiptCheck;
use std::fmt;

/// The profile's four layers of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// 1: is it a receipt?
    Parse = 1,
    /// 2: who signed it?
    Signature = 2,
    /// 3: can the claims be?
    Claims = 3,
    /// 4: do they say what is expected?
    Policy = 4,
}

macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident $text:literal $layer:ident $remedy:literal; )*) => {
        /// Stable codes of refusal. Variants may be added; a code never changes meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ReceiptCode { $( $(#[$doc])* $name, )* }

        impl ReceiptCode {
            /// Every code.
            pub const ALL: &[Self] = &[$( Self::$name, )*];

            /// The code as it is written everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $text, )* }
            }

            /// The layer that refuses with it.
            pub const fn layer(self) -> Layer {
                match self { $( Self::$name => Layer::$layer, )* }
            }

            /// What to do next, in one sentence.
            pub const fn remedy(self) -> &'static str {
                match self { $( Self::$name => $remedy, )* }
            }
        }
    };
}

codes! {
    /// Over [`super::MAX_RECEIPT`].
    TooLarge "RECEIPT_TOO_LARGE" Parse "Pass the receipt alone; it is far smaller than this.";
    /// Not CBOR, or not of the shape that a receipt has.
    BadCbor "BAD_CBOR" Parse "Check that the whole receipt was copied, and nothing else.";
    /// Longer encodings than needed, indefinite lengths, keys out of order or doubled.
    NotDeterministic "NOT_DETERMINISTIC" Parse "Have the issuer encode as RFC 8949 §4.2 says; do not trust a receipt that was re-encoded.";
    /// No tag 18.
    NotTagged "NOT_COSE_SIGN1" Parse "Pass a tagged COSE_Sign1; other structures are no receipts.";
    /// Bytes after the receipt or after its claims.
    TrailingBytes "TRAILING_BYTES" Parse "Remove what follows the receipt.";
    /// Another algorithm than EdDSA.
    BadAlg "BAD_ALG" Parse "Refuse the receipt; the profile knows EdDSA only.";
    /// Another content type than CWT.
    BadContentType "BAD_CONTENT_TYPE" Parse "Refuse the receipt; it is another kind of token.";
    /// Header parameters that the profile does not have.
    BadHeaders "BAD_HEADERS" Parse "Refuse the receipt; its headers are not the profile's.";
    /// A signature that is not 64 bytes.
    BadSignatureLength "BAD_SIGNATURE_LENGTH" Parse "Check that the whole receipt was copied.";
    /// A claim that the profile does not define.
    UnknownClaim "UNKNOWN_CLAIM" Parse "Update the verifier, if the profile has grown; otherwise refuse the receipt.";
    /// A mandatory claim is absent.
    MissingClaim "MISSING_CLAIM" Parse "Refuse the receipt and tell its issuer.";
    /// A claim of another type.
    BadClaimType "BAD_CLAIM_TYPE" Parse "Refuse the receipt and tell its issuer.";
    /// Another profile, or another version of it.
    BadProfile "BAD_PROFILE" Parse "Use a verifier for the profile that the receipt names.";
    /// The key is no Ed25519 point, or one of small order.
    BadKey "BAD_KEY" Signature "Check the key; take it from verified evidence.";
    /// The signature does not fit.
    SigFailed "SIG_FAILED" Signature "Do not rely on the receipt: it was changed, or another key signed it.";
    /// `iat` is 0 or beyond the year 9999.
    BadTimestamp "BAD_TIMESTAMP" Claims "Refuse the receipt and tell its issuer.";
    /// `cti` is not 16 bytes.
    BadIdLength "BAD_CTI_LENGTH" Claims "Refuse the receipt and tell its issuer.";
    /// A hash that is not 32 bytes.
    BadHashLength "BAD_HASH_LENGTH" Claims "Refuse the receipt and tell its issuer.";
    /// `model_hash` is all zero.
    ZeroModelHash "ZERO_MODEL_HASH" Claims "Refuse the receipt: it names no model.";
    /// A register that is not 48 bytes.
    BadMeasurementLength "BAD_MEASUREMENT_LENGTH" Claims "Refuse the receipt and tell its issuer.";
    /// Unknown `measurement_type`.
    UnknownMeasurementType "UNKNOWN_MEASUREMENT_TYPE" Claims "Update the verifier, if it is a new platform.";
    /// A register that the platform does not have.
    UnexpectedMeasurement "UNEXPECTED_MEASUREMENT" Claims "Refuse the receipt and tell its issuer.";
    /// Neither "production" nor "evaluation".
    UnknownSecurityMode "UNKNOWN_SECURITY_MODE" Claims "Refuse the receipt and tell its issuer.";
    /// A `model_hash_scheme` that the profile does not define.
    UnknownHashScheme "UNKNOWN_HASH_SCHEME" Claims "Update the verifier, if the profile has grown.";
    /// `eat_nonce` outside 8..=64 bytes.
    BadNonceLength "BAD_NONCE_LENGTH" Claims "Refuse the receipt and tell its issuer.";
    /// A counter beyond what JSON can carry exactly.
    NumberTooLarge "NUMBER_TOO_LARGE" Claims "Refuse the receipt and tell its issuer.";
    /// Measured on another platform.
    PlatformMismatch "PLATFORM_MISMATCH" Policy "Check which platform the service should run on.";
    /// Names another attestation document.
    DocumentMismatch "ATTESTATION_DOC_MISMATCH" Policy "Pass the document that was current when the receipt was issued.";
    /// Registers differ from the document's.
    MeasurementMismatch "MEASUREMENT_MISMATCH" Policy "Do not rely on the receipt: another image issued it.";
    /// Another model.
    ModelHashMismatch "MODEL_HASH_MISMATCH" Policy "Do not rely on the answer: another model gave it.";
    /// Another name or version of a model.
    ModelIdMismatch "MODEL_ID_MISMATCH" Policy "Check which model was asked for.";
    /// Issued under another policy.
    PolicyMismatch "POLICY_MISMATCH" Policy "Check which policy version the service should run under.";
    /// On trial where production is expected, or the reverse.
    SecurityModeMismatch "SECURITY_MODE_MISMATCH" Policy "Do not rely on receipts of an evaluation service in production.";
    /// Speaks of another request.
    RequestHashMismatch "REQUEST_HASH_MISMATCH" Policy "Do not rely on the receipt: it is of another request.";
    /// Speaks of another response.
    ResponseHashMismatch "RESPONSE_HASH_MISMATCH" Policy "Do not rely on the answer: the receipt is of another one.";
    /// Another nonce, or none.
    NonceMismatch "NONCE_MISMATCH" Policy "Do not rely on the receipt: it answers another request.";
    /// Older than allowed.
    TimestampStale "TIMESTAMP_STALE" Policy "Ask again, or allow a greater age when auditing.";
    /// Issued after the judged moment.
    TimestampFuture "TIMESTAMP_FUTURE" Policy "Check the clocks of both sides.";
}

/// A refusal: which row, which code, and what was seen. Holds nothing of what was inside request or response.
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
            self.code.as_str(),
            self.observed,
            self.code.remedy()
        )
    }
}

impl std::error::Error for ReceiptRefusal {}
