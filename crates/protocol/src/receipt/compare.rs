//! Compares a receipt's claims with the expectations.

use attestation::CheckLog;
use base16ct::lower::encode_string as hex;

use super::claims::{Measurements, ReceiptClaims};
use super::error::{ReceiptCode, ReceiptRefusal};
use super::expectations::Expectations;
use super::rows::ReceiptCheck;

/// Marks rows of the last layer: equal, different, or without an expectation.
pub(super) struct Comparison<'l> {
    pub(super) log: &'l mut CheckLog<ReceiptCheck>,
}

const NOT_ASKED: &str = "Nothing to compare with";

impl Comparison<'_> {
    pub(super) fn equal(
        &mut self,
        row: ReceiptCheck,
        code: ReceiptCode,
        expected: Option<&str>,
        found: &str,
    ) -> Result<(), ReceiptRefusal> {
        let Some(expected) = expected else {
            self.log.skip(row, NOT_ASKED);
            return Ok(());
        };
        self.log.expect(row, expected);
        if expected != found {
            return Err(ReceiptRefusal::new(row, code, found));
        }
        self.log.pass(row, found);
        Ok(())
    }

    pub(super) fn hash(
        &mut self,
        row: ReceiptCheck,
        code: ReceiptCode,
        expected: Option<&[u8; 32]>,
        found: &[u8; 32],
    ) -> Result<(), ReceiptRefusal> {
        let expected = expected.map(|expected| hex(expected));
        self.equal(row, code, expected.as_deref(), &hex(found))
    }

    pub(super) fn registers(
        &mut self,
        expected: &Expectations,
        measured: &Measurements,
    ) -> Result<(), ReceiptRefusal> {
        let Some(document) = &expected.registers else {
            self.log.skip(ReceiptCheck::Measured, NOT_ASKED);
            return Ok(());
        };
        if let Some((index, _)) = measured
            .registers()
            .find(|(index, value)| document.get(index) != Some(value))
        {
            let observed = format!("pcr{index} differs from the document's");
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Measured,
                ReceiptCode::MeasurementMismatch,
                observed,
            ));
        }
        self.log.pass(
            ReceiptCheck::Measured,
            format!("{} registers equal", measured.registers().count()),
        );
        Ok(())
    }

    pub(super) fn model(
        &mut self,
        expected: &Expectations,
        claims: &ReceiptClaims,
    ) -> Result<(), ReceiptRefusal> {
        let found = hex(&claims.model_hash);
        let scheme = expected.model_hash_scheme.zip(claims.model_hash_scheme);
        if expected.model_hash.is_none()
            && scheme.is_none()
            && expected.model_id.is_none()
            && expected.model_version.is_none()
        {
            self.log.skip(ReceiptCheck::Model, NOT_ASKED);
            return Ok(());
        }
        if expected
            .model_hash
            .is_some_and(|hash| hash != claims.model_hash)
        {
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Model,
                ReceiptCode::ModelHashMismatch,
                found,
            ));
        }
        // The same bytes under another scheme are the hash of something else.
        if let Some((expected, found)) = scheme
            && expected != found
        {
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Model,
                ReceiptCode::ModelHashMismatch,
                found.as_str(),
            ));
        }
        let differs = |expected: &Option<String>, found: &str| {
            expected.as_deref().is_some_and(|name| name != found)
        };
        if differs(&expected.model_id, &claims.model_id)
            || differs(&expected.model_version, &claims.model_version)
        {
            let observed = format!(
                "{} {}",
                excerpt(&claims.model_id),
                excerpt(&claims.model_version)
            );
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Model,
                ReceiptCode::ModelIdMismatch,
                observed,
            ));
        }
        self.log.pass(ReceiptCheck::Model, found);
        Ok(())
    }

    pub(super) fn rules(
        &mut self,
        expected: &Expectations,
        claims: &ReceiptClaims,
    ) -> Result<(), ReceiptRefusal> {
        if expected.policy_version.is_none() && expected.security_mode.is_none() {
            self.log.skip(ReceiptCheck::Rules, NOT_ASKED);
            return Ok(());
        }
        if expected
            .policy_version
            .as_ref()
            .is_some_and(|version| *version != claims.policy_version)
        {
            let observed = excerpt(&claims.policy_version);
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Rules,
                ReceiptCode::PolicyMismatch,
                observed,
            ));
        }
        if expected
            .security_mode
            .is_some_and(|mode| mode != claims.security_mode)
        {
            let observed = claims.security_mode.as_str();
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Rules,
                ReceiptCode::SecurityModeMismatch,
                observed,
            ));
        }
        let observed = format!(
            "{}, {}",
            excerpt(&claims.policy_version),
            claims.security_mode.as_str()
        );
        self.log.pass(ReceiptCheck::Rules, observed);
        Ok(())
    }

    pub(super) fn time(
        &mut self,
        expected: &Expectations,
        issued_at: u64,
    ) -> Result<(), ReceiptRefusal> {
        let Some(window) = expected.window else {
            self.log
                .skip(ReceiptCheck::Time, "Judged as of its own time");
            return Ok(());
        };
        let at = window.at.seconds();
        if issued_at > at.saturating_add(window.clock_skew_seconds) {
            let observed = format!("issued {} s after the judged moment", issued_at - at);
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Time,
                ReceiptCode::TimestampFuture,
                observed,
            ));
        }
        let age = at.saturating_sub(issued_at);
        if age > window.max_age_seconds {
            let observed = format!(
                "issued {age} s before the judged moment, {} allowed",
                window.max_age_seconds
            );
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Time,
                ReceiptCode::TimestampStale,
                observed,
            ));
        }
        self.log.pass(
            ReceiptCheck::Time,
            format!("Issued {age} s before the judged moment"),
        );
        Ok(())
    }
}

/// Text of a receipt for display, with bounded length.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
