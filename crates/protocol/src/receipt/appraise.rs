//! Layer 4: is the receipt about this request, this enclave, this model?

use attestation::CheckLog;
use base16ct::lower::encode_string as hex;

use super::claims::{Platform, ReceiptClaims};
use super::compare::Comparison;
use super::error::{ReceiptCode, ReceiptRefusal};
use super::expectations::{Expectations, KeyOrigin};
use super::rows::ReceiptCheck;
use super::validate::ValidReceipt;

impl ValidReceipt {
    /// The receipt's claims.
    pub fn claims(&self) -> &ReceiptClaims {
        &self.claims
    }

    /// Layer 4, rows 14 to 23. Rows without an expectation are skipped, and state so.
    ///
    /// # Errors
    /// A refusal of layer 4.
    pub fn appraise(
        self,
        expected: &Expectations,
        log: &mut CheckLog<ReceiptCheck>,
    ) -> Result<ReceiptClaims, ReceiptRefusal> {
        let claims = &self.claims;
        let measured = &claims.measurements;
        match expected.origin() {
            KeyOrigin::Attested(_) => log.pass(ReceiptCheck::Key, "From verified evidence"),
            KeyOrigin::Named => log.skip(
                ReceiptCheck::Key,
                "The key was named by hand: shows who signed, not that an enclave did",
            ),
        }
        let mut compare = Comparison { log };
        compare.equal(
            ReceiptCheck::Platform,
            ReceiptCode::PlatformMismatch,
            expected.platform.map(Platform::as_str),
            measured.platform.as_str(),
        )?;
        compare.hash(
            ReceiptCheck::Document,
            ReceiptCode::DocumentMismatch,
            expected.document_hash.as_ref(),
            &claims.document_hash,
        )?;
        compare.registers(expected, measured)?;
        compare.model(expected, claims)?;
        compare.rules(expected, claims)?;
        compare.hash(
            ReceiptCheck::Request,
            ReceiptCode::RequestHashMismatch,
            expected.request_hash.as_ref(),
            &claims.request_hash,
        )?;
        compare.hash(
            ReceiptCheck::Response,
            ReceiptCode::ResponseHashMismatch,
            expected.response_hash.as_ref(),
            &claims.response_hash,
        )?;
        let nonce = expected.nonce.as_deref().map(hex);
        let answered = claims
            .nonce
            .as_deref()
            .map_or_else(|| "none".to_owned(), hex);
        compare.equal(
            ReceiptCheck::Nonce,
            ReceiptCode::NonceMismatch,
            nonce.as_deref(),
            &answered,
        )?;
        compare.time(expected, claims.issued_at)?;
        Ok(self.claims)
    }
}
