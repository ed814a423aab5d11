//! Layer 2: who signed it?

use attestation::CheckLog;
use base16ct::lower::encode_string as hex;
use provider::ed25519::VerifyingKey;

use super::error::{ReceiptCode, ReceiptRefusal};
use super::expectations::Expectations;
use super::parse::{ParsedReceipt, RawClaims};
use super::rows::ReceiptCheck;

/// Signed by the given key.
pub struct AuthenticReceipt<'a> {
    pub(super) claims: RawClaims<'a>,
}

impl<'a> ParsedReceipt<'a> {
    /// Layer 2, row 6.
    ///
    /// # Errors
    /// [`ReceiptCode::BadKey`] or [`ReceiptCode::SigFailed`].
    pub fn authenticate(
        self,
        expectations: &Expectations,
        log: &mut CheckLog<ReceiptCheck>,
    ) -> Result<AuthenticReceipt<'a>, ReceiptRefusal> {
        let refuse = |code: ReceiptCode, observed: &str| {
            ReceiptRefusal::new(ReceiptCheck::Signature, code, observed)
        };
        let key = VerifyingKey::new(expectations.key().bytes()).ok_or_else(|| {
            refuse(
                ReceiptCode::BadKey,
                "no canonical Ed25519 point, or one of small order",
            )
        })?;
        let verified = self.envelope.verify_signature(b"", |signature, message| {
            key.verify(message, signature).then_some(()).ok_or(())
        });
        verified.map_err(|()| {
            refuse(
                ReceiptCode::SigFailed,
                "the signature does not fit this key and these bytes",
            )
        })?;
        log.pass(
            ReceiptCheck::Signature,
            format!("Key {}…", hex(&expectations.key().bytes()[..8])),
        );
        Ok(AuthenticReceipt {
            claims: self.claims,
        })
    }
}
