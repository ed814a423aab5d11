//! Audit bundles: everything needed to appraise one receipt later, offline, as JSON.
//!
//! The chain: the receipt names the document by hash, the document binds the manifest, the manifest holds the receipt
//! key. All of it is appraised as of the receipt's own time.

use attestation::{
    Appraisal, AttestationDocument, AttestationReport, CheckLog, Freshness, MAX_CRLS, MAX_DOCUMENT,
    MAX_MANIFEST, Policy, SignatureMemory, Stopwatch, UnixMillis,
};
use base64ct::{Base64UrlUnpadded, Encoding};
use merkle::json::Inclusion;
use serde::{Deserialize, Deserializer, Serialize};

use crate::commitment;
use crate::exchange::Answer;
use crate::inner::{InnerRequest, MAX_REQUEST, MAX_RESPONSE};
use crate::log::{self, EarlierHead, Leaf, LogReport, LoggedReceipt};
use crate::receipt::{
    self, Expectations, MAX_RECEIPT, ParsedReceipt, ReceiptClaims, ReceiptReport,
};
use crate::terms::{SALT_LEN, Terms};

/// Value of the member `format`.
pub const FORMAT: &str = "clearseal-audit-bundle/1";

/// Longest bundle in bytes: one with the longest request, response and revocation lists.
pub const MAX_BUNDLE: usize = 48 * 1024 * 1024;

/// One receipt with its evidence. No `Debug`: it may hold the user's content.
pub struct AuditBundle {
    /// The receipt as signed.
    pub receipt: Vec<u8>,
    /// The attestation document that the receipt names.
    pub document: Vec<u8>,
    /// The service manifest that the document binds.
    pub manifest: Vec<u8>,
    /// Request and response, if the user chose to disclose them.
    pub content: Option<BundleContent>,
    /// The client's salt alone: with it, a holder of a text can check whether the receipt is about that text.
    /// Absent if `content`, which contains it, is present.
    pub salt: Option<[u8; SALT_LEN]>,
    /// Revocation lists of the receipt's time, in DER, one after another; may be empty. With them the
    /// bundle can still be appraised after its certificates have ended and their lists are no longer published.
    pub crls: Vec<u8>,
}

/// The inputs that open the commitments of a receipt.
pub struct BundleContent {
    /// Inner Binary HTTP request without padding; holds the salt.
    pub request: Vec<u8>,
    /// Content of the response.
    pub response: Vec<u8>,
}

/// Appraisal of a bundle: both reports, as of the receipt's time.
pub struct BundleReport {
    /// The attestation.
    pub attestation: AttestationReport,
    /// The receipt; refused with the attestation's code if that was refused.
    pub receipt: ReceiptReport,
}

/// The commitments that a receipt must hold, if they are known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Commitments {
    pub(crate) request: Option<[u8; 32]>,
    pub(crate) response: Option<[u8; 32]>,
}

/// Why a bundle could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum BundleError {
    /// Over a limit.
    #[error("the bundle's {0} is over its limit")]
    #[coded("BUNDLE_TOO_LARGE", remedy = "Pass one bundle at a time.")]
    TooLarge(&'static str),
    /// Not the JSON of a bundle.
    #[error("this is not an audit bundle of format clearseal-audit-bundle/1")]
    #[coded(
        "BUNDLE_MALFORMED",
        remedy = "Check that all of the bundle was copied, and nothing else."
    )]
    Malformed,
    /// A member that is not base64url without padding.
    #[error("the bundle's {0} is not base64url without padding")]
    #[coded(
        "BUNDLE_BAD_ENCODING",
        remedy = "Check that all of the bundle was copied, and nothing else."
    )]
    Encoding(&'static str),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    format: String,
    receipt: String,
    document: String,
    manifest: String,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    request: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    response: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    salt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crls: Option<String>,
}

impl AuditBundle {
    /// The bundle of an answer whose enclave was verified by `document` and `manifest`. `with_content` adds request and
    /// response, with which anyone can open the receipt's commitments. `None` for an answer without a receipt.
    pub fn of(
        answer: &Answer,
        document: Vec<u8>,
        manifest: Vec<u8>,
        with_content: bool,
    ) -> Option<Self> {
        Some(Self {
            receipt: answer.receipt.as_ref()?.bytes.clone(),
            document,
            manifest,
            content: with_content.then(|| BundleContent {
                request: answer.inner_request.clone(),
                response: answer.response.content.clone(),
            }),
            salt: None,
            crls: Vec::new(),
        })
    }

    /// Archives revocation lists, in DER, one after another.
    #[must_use]
    pub fn with_crls(self, crls: Vec<u8>) -> Self {
        Self { crls, ..self }
    }

    /// Adds the salt alone, taken from the inner request that the receipt is about. `None` if that is not a client's request.
    pub fn with_salt_of(self, request: &[u8]) -> Option<Self> {
        Some(Self {
            content: None,
            salt: Some(salt_of(request)?),
            ..self
        })
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn from_json(json: &str) -> Result<Self, BundleError> {
        if json.len() > MAX_BUNDLE {
            return Err(BundleError::TooLarge("size"));
        }
        // An editor may have written a byte order mark.
        let json = json.strip_prefix('\u{feff}').unwrap_or(json);
        let json: Json = serde_json::from_str(json).map_err(|_| BundleError::Malformed)?;
        if json.format != FORMAT {
            return Err(BundleError::Malformed);
        }
        let content = match (json.request, json.response) {
            (None, None) => None,
            (Some(request), Some(response)) => Some(BundleContent {
                request: decode(&request, MAX_REQUEST, "request")?,
                response: decode(&response, MAX_RESPONSE, "response")?,
            }),
            _ => return Err(BundleError::Malformed),
        };
        let salt = match (json.salt, &content) {
            (None, _) => None,
            (Some(_), Some(_)) => return Err(BundleError::Malformed),
            (Some(salt), None) => {
                let salt = decode(&salt, SALT_LEN, "salt")?;
                Some(salt.try_into().map_err(|_| BundleError::Malformed)?)
            }
        };
        Ok(Self {
            receipt: decode(&json.receipt, MAX_RECEIPT, "receipt")?,
            document: decode(&json.document, MAX_DOCUMENT, "document")?,
            manifest: decode(&json.manifest, MAX_MANIFEST, "manifest")?,
            content,
            salt,
            crls: match json.crls {
                Some(crls) => decode(&crls, MAX_CRLS, "crls")?,
                None => Vec::new(),
            },
        })
    }

    /// Writes the bundle; omits `content` and `salt` if they are absent.
    ///
    /// # Errors
    /// [`BundleError::Malformed`]; never for the strings written here.
    pub fn to_json(&self) -> Result<String, BundleError> {
        let encode = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
        let json = Json {
            format: FORMAT.to_owned(),
            receipt: encode(&self.receipt),
            document: encode(&self.document),
            manifest: encode(&self.manifest),
            request: self
                .content
                .as_ref()
                .map(|content| encode(&content.request)),
            response: self
                .content
                .as_ref()
                .map(|content| encode(&content.response)),
            salt: match &self.content {
                Some(_) => None,
                None => self.salt.as_ref().map(|salt| encode(salt)),
            },
            crls: (!self.crls.is_empty()).then(|| encode(&self.crls)),
        };
        serde_json::to_string_pretty(&json).map_err(|_| BundleError::Malformed)
    }

    /// Appraises the whole chain against `policy`, as of the receipt's time.
    ///
    /// `stopwatch` is called once for each of the two reports. Signatures that `memory` knows
    /// are not computed again, because many receipts share one document.
    pub fn verify(
        &self,
        policy: &Policy,
        stopwatch: impl Fn() -> Option<Stopwatch>,
        memory: &mut SignatureMemory,
    ) -> BundleReport {
        self.appraise(policy, self.commitments(), stopwatch, memory)
            .0
    }

    /// Like [`verify`](Self::verify); also checks whether the receipt is in the log that its enclave signed and, with an earlier head,
    /// whether that is the log's only history.
    pub fn verify_logged(
        &self,
        policy: &Policy,
        inclusion: &Inclusion,
        earlier: Option<EarlierHead<'_>>,
        stopwatch: impl Fn() -> Option<Stopwatch>,
        memory: &mut SignatureMemory,
    ) -> (BundleReport, LogReport) {
        let (report, verified) = self.appraise(policy, self.commitments(), &stopwatch, memory);
        let log = match verified {
            Some((expectations, claims)) => log::verify(
                &log::LogInput {
                    expectations: &expectations,
                    leaf: Some(Leaf::Receipt(LoggedReceipt {
                        bytes: &self.receipt,
                        claims: &claims,
                        inclusion,
                    })),
                    head: &inclusion.head,
                    earlier,
                },
                stopwatch(),
            ),
            None => LogReport::receipt_refused(
                "The receipt is refused, so that its place in a log proves nothing.",
            ),
        };
        (report, log)
    }

    /// The commitments to the content, if the bundle has it.
    fn commitments(&self) -> Commitments {
        let Some(content) = &self.content else {
            return Commitments::default();
        };
        // A request without readable terms has no salt; the computed hash then differs from the receipt's.
        let salt = salt_of(&content.request).unwrap_or([0; SALT_LEN]);
        Commitments {
            request: Some(commitment::request_hash(&content.request)),
            response: Some(commitment::response_hash(&salt, &content.response)),
        }
    }

    /// Appraises the chain, and checks whether the receipt commits to `commitments`.
    pub(crate) fn appraise(
        &self,
        policy: &Policy,
        commitments: Commitments,
        stopwatch: impl Fn() -> Option<Stopwatch>,
        memory: &mut SignatureMemory,
    ) -> (BundleReport, Option<(Expectations, ReceiptClaims)>) {
        // The receipt's time is unverified here and only selects a moment. A false time changes the moment
        // at which the document is appraised, and the signature check under that document's key exposes it.
        // An unreadable receipt is refused as one; the attestation is then appraised as of its document's time.
        let time = issued(&self.receipt).unwrap_or_else(|| made(&self.document));
        let (attestation, concluded) = Appraisal::of(&self.document)
            .with_manifest(&self.manifest)
            .with_crls(&self.crls)
            .with_stopwatch(stopwatch())
            .with_memory(memory)
            .verify(policy, Freshness::Audit { time });
        // An audit seals nothing, and the receipt's verdict is never better than the attestation's.
        let Some(verified) = concluded.including_simulated() else {
            let code = attestation.code.as_deref().unwrap_or("ATTESTATION_REFUSED");
            let message =
                "The attestation that the receipt rests on is refused, so its key proves nothing.";
            let receipt = ReceiptReport::refused_unchecked(
                code,
                message,
                "See the attestation's own report.",
                time,
            );
            let report = BundleReport {
                attestation,
                receipt,
            };
            return (report, None);
        };
        let mut expectations = Expectations::of(&verified);
        expectations.request_hash = commitments.request;
        expectations.response_hash = commitments.response;
        let (receipt, claims) = receipt::verify(&self.receipt, &expectations, stopwatch());
        let report = BundleReport {
            attestation,
            receipt,
        };
        (report, claims.map(|claims| (expectations, claims)))
    }
}

/// A member that may be absent, but must be a string if present.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// The salt of a client's inner request.
fn salt_of(request: &[u8]) -> Option<[u8; SALT_LEN]> {
    let request = InnerRequest::decode(request).ok()?;
    Some(Terms::read(&request).ok()?.salt)
}

/// The unverified time of issue of a receipt; 1970 if it cannot be read. Use it only to select the moment for
/// which evidence is appraised.
pub fn unverified_time(receipt: &[u8]) -> UnixMillis {
    issued(receipt).unwrap_or(UnixMillis(0))
}

fn issued(receipt: &[u8]) -> Option<UnixMillis> {
    let parsed = ParsedReceipt::parse(receipt, &mut CheckLog::unrecorded()).ok()?;
    Some(UnixMillis::from_seconds(parsed.unverified_issued_at()))
}

/// The unverified time of a document.
fn made(document: &[u8]) -> UnixMillis {
    let parsed = AttestationDocument::parse(document, &mut CheckLog::unrecorded());
    parsed.map_or(UnixMillis(0), |document| document.claims().timestamp)
}

fn decode(text: &str, limit: usize, member: &'static str) -> Result<Vec<u8>, BundleError> {
    if text.len() > limit.div_ceil(3) * 4 {
        return Err(BundleError::TooLarge(member));
    }
    Base64UrlUnpadded::decode_vec(text).map_err(|_| BundleError::Encoding(member))
}
