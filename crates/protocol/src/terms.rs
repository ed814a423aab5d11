//! The fields inside the seal that this protocol adds, written and read in one place.

use attestation::UnixMillis;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};

use crate::inner::{InnerRequest, field};

/// When the request was made, IMF-fixdate (RFC 9110 §5.6.7).
pub const DATE: &str = "date";
/// The client's nonce, base64url; becomes the receipt's `eat_nonce`.
pub const NONCE: &str = "clearseal-nonce";
/// The client's secret salt, base64url.
pub const SALT: &str = "clearseal-salt";
/// Hex SHA-256 of the attestation document that the client verified.
pub const DOCUMENT: &str = "clearseal-document";
/// The receipt, base64url, in an answer.
pub const RECEIPT: &str = "clearseal-receipt";
/// Largest difference between a request's date and the gateway's clock, in seconds.
pub const DATE_WINDOW_SECONDS: u64 = 300;

/// Length of a salt in bytes.
pub const SALT_LEN: usize = 32;

/// The fields that a request carries in addition to its content.
#[derive(Clone, PartialEq, Eq)]
pub struct Terms {
    /// When the client made it, by its clock; whole seconds.
    pub date: UnixMillis,
    /// 16..=32 bytes.
    pub nonce: Vec<u8>,
    /// Secret: only its holder can open the commitments.
    pub salt: [u8; SALT_LEN],
    /// SHA-256 of the attestation document that the client verified.
    pub document: [u8; 32],
}

/// Why the terms of a request were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum TermsError {
    /// Absent or malformed.
    #[error("the field {0} is absent or malformed")]
    #[coded(
        "TERMS_MALFORMED",
        remedy = "Send date, clearseal-nonce, clearseal-salt and clearseal-document as the protocol page says."
    )]
    Field(&'static str),
    /// Too far from the gateway's clock.
    #[error("the request's date is more than five minutes from the service's clock")]
    #[coded("DATE_OUT_OF_WINDOW", remedy = "Set the clock and ask again.")]
    Date,
}

impl Terms {
    /// Adds the fields to a request.
    ///
    /// # Errors
    /// [`TermsError::Field`] if the request has one of them already, or the date cannot be written.
    pub fn write(&self, request: &mut InnerRequest) -> Result<(), TermsError> {
        for name in [DATE, NONCE, SALT, DOCUMENT, RECEIPT] {
            if request.header(name).is_some() {
                return Err(TermsError::Field(name));
            }
        }
        let date = self.date.to_http_date().ok_or(TermsError::Field(DATE))?;
        let fields = [
            (DATE, date),
            (NONCE, Base64UrlUnpadded::encode_string(&self.nonce)),
            (SALT, Base64UrlUnpadded::encode_string(&self.salt)),
            (DOCUMENT, hex(&self.document)),
        ];
        request
            .headers
            .extend(fields.map(|(name, value)| (name.to_owned(), value)));
        Ok(())
    }

    /// Reads the fields of a request.
    ///
    /// # Errors
    /// [`TermsError::Field`] if one is absent or malformed. Does not check the date: see [`Self::check_date`].
    pub fn read(request: &InnerRequest) -> Result<Self, TermsError> {
        let nonce = bytes(request, NONCE)?;
        if !(16..=32).contains(&nonce.len()) {
            return Err(TermsError::Field(NONCE));
        }
        let salt = bytes(request, SALT)?
            .try_into()
            .map_err(|_| TermsError::Field(SALT))?;
        let document = value(request, DOCUMENT)?;
        let document =
            base16ct::lower::decode_vec(document).map_err(|_| TermsError::Field(DOCUMENT))?;
        let document = document
            .try_into()
            .map_err(|_| TermsError::Field(DOCUMENT))?;
        Ok(Self {
            date: UnixMillis::from_http_date(value(request, DATE)?)
                .ok_or(TermsError::Field(DATE))?,
            nonce,
            salt,
            document,
        })
    }

    /// Whether the date is close enough to `now`.
    ///
    /// # Errors
    /// [`TermsError::Date`].
    pub fn check_date(&self, now: UnixMillis) -> Result<(), TermsError> {
        let apart = self.date.seconds().abs_diff(now.seconds());
        if apart > DATE_WINDOW_SECONDS {
            Err(TermsError::Date)
        } else {
            Ok(())
        }
    }
}

fn bytes(request: &InnerRequest, name: &'static str) -> Result<Vec<u8>, TermsError> {
    let text = value(request, name)?;
    // Strict: no padding, no stray bits, so each value has one encoding.
    Base64UrlUnpadded::decode_vec(text).map_err(|_| TermsError::Field(name))
}

fn value<'a>(request: &'a InnerRequest, name: &'static str) -> Result<&'a str, TermsError> {
    field(&request.headers, name).ok_or(TermsError::Field(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> InnerRequest {
        InnerRequest {
            method: "GET".into(),
            path: "/".into(),
            headers: vec![],
            content: vec![],
        }
    }

    fn terms() -> Terms {
        let date = UnixMillis::from_seconds(1_795_183_380);
        Terms {
            date,
            nonce: vec![1; 32],
            salt: [2; 32],
            document: [3; 32],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut request = request();
        terms().write(&mut request).unwrap();
        assert_eq!(
            request.header("date"),
            Some("Fri, 20 Nov 2026 14:03:00 GMT")
        );
        assert!(Terms::read(&request).unwrap() == terms());
        assert_eq!(
            terms().write(&mut request),
            Err(TermsError::Field(DATE)),
            "no field is written twice"
        );
    }

    #[test]
    fn each_field_is_required_in_its_one_form() {
        let refused = [
            (DATE, "Friday, 20-Nov-26 14:03:00 GMT"),
            (DATE, "Fri Nov 20 14:03:00 2026"),
            (DATE, "1795183380"),
            (NONCE, "AAAA"),
            (NONCE, "AAAAAAAAAAAAAAAAAAAAAA=="),
            (NONCE, "AAAAAAAAAAAAAAAAAAAAAB"),
            (SALT, "AAAAAAAAAAAAAAAAAAAAAA"),
            (DOCUMENT, "0303"),
            (
                DOCUMENT,
                "AA03030303030303030303030303030303030303030303030303030303030303",
            ),
        ];
        for (name, value) in refused {
            let mut request = request();
            terms().write(&mut request).unwrap();
            request
                .headers
                .iter_mut()
                .find(|(header, _)| header == name)
                .unwrap()
                .1 = value.to_owned();
            assert_eq!(
                Terms::read(&request).err(),
                Some(TermsError::Field(name)),
                "{value}"
            );
            request.headers.retain(|(header, _)| header != name);
            assert_eq!(
                Terms::read(&request).err(),
                Some(TermsError::Field(name)),
                "absent"
            );
        }
    }

    #[test]
    fn dates_far_off_are_refused() {
        let now = |seconds: u64| UnixMillis::from_seconds(1_795_183_380 + seconds);
        assert!(terms().check_date(now(300)).is_ok());
        assert_eq!(terms().check_date(now(301)), Err(TermsError::Date));
        assert_eq!(
            terms().check_date(UnixMillis::from_seconds(1_795_183_079)),
            Err(TermsError::Date)
        );
        let far = Terms {
            date: UnixMillis(u64::MAX),
            ..terms()
        };
        assert_eq!(far.write(&mut request()), Err(TermsError::Field(DATE)));
    }
}
