//! Layer 2: who signed it?

use attestation::Ladder;
use base16ct::lower::encode_string as hex;
use ed25519_dalek::{Signature, VerifyingKey};

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
        ladder: &mut Ladder<ReceiptCheck>,
    ) -> Result<AuthenticReceipt<'a>, ReceiptRefusal> {
        let refuse = |code: ReceiptCode, observed: &str| {
            ReceiptRefusal::new(ReceiptCheck::Signature, code, observed)
        };
        // RFC 8032 §5.1.3: a coordinate of p or more is no encoding; RFC 7748 §7 is why small orders are none either.
        let key = VerifyingKey::from_bytes(expectations.key().bytes())
            .ok()
            .filter(|key| {
                !key.is_weak()
                    && key.to_edwards().compress().as_bytes() == expectations.key().bytes()
            })
            .ok_or_else(|| {
                refuse(
                    ReceiptCode::BadKey,
                    "no canonical Ed25519 point, or one of small order",
                )
            })?;
        // Strict: canonical S, no point of small order, no cofactor. Two verifiers can never disagree on a receipt.
        let verified = self.envelope.verify_signature(b"", |signature, message| {
            key.verify_strict(message, &Signature::from_slice(signature)?)
        });
        verified.map_err(|_| {
            refuse(
                ReceiptCode::SigFailed,
                "the signature does not fit this key and these bytes",
            )
        })?;
        ladder.pass(
            ReceiptCheck::Signature,
            format!("Key {}…", hex(&expectations.key().bytes()[..8])),
        );
        Ok(AuthenticReceipt {
            claims: self.claims,
        })
    }
}
