//! Attested Inference Receipts, version 1: an enclave's signed statement about one request, which anyone can verify later.
//!
//! Each of the profile's four layers has its own type, so that none can be skipped:
//!
//! 1. [`ParsedReceipt::parse`]: a tagged COSE_Sign1 (RFC 9052) with a deterministic claims map (RFC 8949 §4.2, RFC 8392);
//! 2. [`ParsedReceipt::authenticate`] → [`AuthenticReceipt`]: strict Ed25519 (RFC 8032 §5.1.7, cofactorless);
//! 3. [`AuthenticReceipt::validate`] → [`ValidReceipt`]: every claim has an allowed value;
//! 4. [`ValidReceipt::appraise`]: it is about *this* request, enclave and model.
//!
//! [`verify()`] runs all four and reports every check as a row.

mod appraise;
mod authenticate;
mod claims;
mod compare;
mod error;
mod expectations;
mod parse;
mod rows;
mod sign;
mod validate;
mod verify;
mod view;

pub use authenticate::AuthenticReceipt;
pub use claims::{Measurements, PROFILE, Platform, ReceiptClaims};
pub use error::{Layer, ReceiptCode, ReceiptRefusal};
pub use expectations::{Expectations, KeyOrigin, Window};
pub use parse::ParsedReceipt;
pub use rows::{ReceiptCheck, SPECS};
pub use sign::ReceiptSigner;
pub use validate::ValidReceipt;
pub use verify::verify;
pub use view::{ClaimsView, MeasurementsView, ReceiptReport};

/// Longest receipt in bytes.
pub const MAX_RECEIPT: usize = 64 * 1024;

const COSE_SIGN1: u64 = 18;
/// The protected header {1: -8, 3: 61}: EdDSA (RFC 9053 §2.2), `application/cwt` (RFC 8392 §9.3).
const PROTECTED: &[u8] = &[0xa2, 0x01, 0x27, 0x03, 0x18, 0x3d];
