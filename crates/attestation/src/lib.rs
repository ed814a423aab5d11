//! Verification of AWS Nitro Enclaves attestation documents, native and in the browser.
//!
//! Four stages, each a type, so that none can be skipped:
//!
//! 1. [`AttestationDocument::parse`]: well-formed (checks 1 to 12);
//! 2. [`AttestationDocument::authenticate`] → [`AuthenticAttestation`]: signed under a pinned root (13 to 21), by certificates that no CRL revokes (27);
//! 3. [`AuthenticAttestation::appraise`] → [`AppraisedAttestation`]: a released image, now (22 to 24);
//! 4. [`AppraisedAttestation::bind`] → [`VerifiedAttestation`]: with these keys (25). The only source of keys.
//!
//! An [`Appraisal`] runs all stages and reports every check as a row. Time and nonces are inputs: this
//! crate has no clock, does no I/O, and logs nothing. No input makes it panic.
//!
//! Memory and work are bounded by the length of the input, whatever lengths it declares. Appraising a document of n bytes (at
//! most [`MAX_DOCUMENT`]; longer input is not read) holds at most 64 KiB + 48 n bytes at once and allocates at most
//! 256 KiB + 192 n in all, and twice the input takes at most twice the work (`tests/bounds.rs`). Revocation lists are read in
//! place and take no further memory.
//!
//! A document that was only parsed has no keys to seal to:
//!
//! ```compile_fail,E0599
//! # use attestation::{AttestationDocument, CheckLog, SPECS};
//! let mut log = CheckLog::new();
//! let document = AttestationDocument::parse(&[], &mut log).unwrap();
//! document.sealing_keys();
//! ```
//!
//! It cannot be appraised before its signature was checked:
//!
//! ```compile_fail,E0599
//! # use attestation::{AttestationDocument, Freshness, CheckLog, Policy, SPECS};
//! # fn example(policy: &Policy, freshness: Freshness<'_>) {
//! let mut log = CheckLog::new();
//! let document = AttestationDocument::parse(&[], &mut log).unwrap();
//! document.appraise(policy, freshness, &mut log);
//! # }
//! ```
//!
//! An authentic document cannot be bound to a manifest before its image was appraised:
//!
//! ```compile_fail,E0599
//! # use attestation::{AuthenticAttestation, CheckId, CheckLog};
//! fn example(authentic: AuthenticAttestation, log: &mut CheckLog<CheckId>) {
//!     authentic.bind(&[], log);
//! }
//! ```
//!
//! An appraised one yields no keys before the manifest was bound:
//!
//! ```compile_fail,E0599
//! # use attestation::AppraisedAttestation;
//! fn example(appraised: AppraisedAttestation) {
//!     appraised.receipt_key();
//! }
//! ```
//!
//! The last stage cannot be built by hand:
//!
//! ```compile_fail,E0451
//! # use attestation::{AppraisedAttestation, ServiceManifest, Verdict, VerifiedAttestation};
//! fn example(appraised: AppraisedAttestation, manifest: ServiceManifest) -> VerifiedAttestation {
//!     VerifiedAttestation { appraised, verdict: Verdict::Refused, manifest, manifest_sha256: [0; 32] }
//! }
//! ```
//!
//! Neither can the verdict *verified*:
//!
//! ```compile_fail,E0423
//! # use attestation::{Proof, Verdict};
//! let verdict = Verdict::Verified(Proof(()));
//! ```
//!
//! A policy that arrives at run time is never the built-in one:
//!
//! ```compile_fail,E0597
//! # use attestation::Policy;
//! let evidence = String::from("{}");
//! Policy::built_in(&evidence).unwrap();
//! ```
//!
//! This compiles:
//!
//! ```
//! use attestation::{Appraisal, TrustAnchor, UnixMillis, Verdict};
//!
//! let report = Appraisal::of(b"no document").inspect(&TrustAnchor::aws_nitro_g1(), UnixMillis(1_800_000_000_000));
//! assert_eq!(report.verdict, Verdict::Refused);
//! assert_eq!(report.code.as_deref(), Some("ENVELOPE_MALFORMED"));
//! ```

#![forbid(unsafe_code)]

pub mod cbor;
pub mod report;

mod anchor;
mod appraisal;
mod appraise;
mod binding;
mod certificate;
mod chain;
mod checks;
mod claims;
mod cose;
mod crl;
mod document;
mod endorsement;
mod error;
mod evidence;
mod json_integer;
mod keyconfig;
mod manifest;
mod name;
mod observed;
mod payload;
mod policy;
mod revocation;
mod signatures;
#[cfg(test)]
mod standard_vectors;
mod statements;
mod time;

pub use anchor::TrustAnchor;
pub use appraisal::{Appraisal, Conclusion, Stopwatch};
pub use appraise::{AppraisedAttestation, Freshness};
pub use binding::{ReceiptKey, SealingKey, VerifiedAttestation};
pub use checks::{Check, CheckId, SPECS, checks};
pub use claims::Claims;
pub use crl::MAX_CRLS;
pub use document::{AttestationDocument, AuthenticAttestation, MAX_DOCUMENT, pending_signatures};
pub use endorsement::{EndorsementError, MAX_ENDORSED, endorsement_message};
pub use error::{AttestationError, ErrorCode};
pub use evidence::{AttestationResponse, Evidence, EvidenceError, MAX_EVIDENCE};
pub use json_integer::{JsonInteger, integer_from_f64};
pub use keyconfig::{Aead, Kdf, Kem, KeyConfig, KeyConfigError, MAX_KEY_LIST};
pub use manifest::{
    HashScheme, MAX_MANIFEST, MAX_TEXT, ManifestError, ModelIdentity, ModelPin, PROTOCOL_VERSION,
    SecurityMode, ServiceManifest, is_same_model, manifest_binding,
};
pub use observed::Observed;
pub use policy::{
    Acceptance, Finding, MAX_POLICY, Policy, PolicyError, PolicyOrigin, PolicyReview, Release,
    ReleaseReview,
};
pub use report::{AttestationReport, CheckLog, Proof, Row, RowId, RowSpec, RowState, Verdict};
pub use signatures::{MAX_PENDING, PendingSignature, SignatureMemory};
pub use time::{ClockOffset, UnixMillis};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
