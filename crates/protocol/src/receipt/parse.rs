//! Layer 1: is it a receipt at all?

use attestation::CheckLog;
use attestation::cbor::{CborError, Kind, Reader, Rules};
use coset::iana::{Algorithm, CoapContentFormat};
use coset::{
    CborSerializable, ContentType, CoseSign1, Header, ProtectedHeader, RegisteredLabelWithPrivate,
};

use super::claims::{PROFILE, key};
use super::error::{ReceiptCode, ReceiptRefusal};
use super::rows::ReceiptCheck;
use super::view::ClaimsView;
use super::{COSE_SIGN1, MAX_RECEIPT};

/// Well-formed, of the right types, with every mandatory claim once. The signature has not been checked.
pub struct ParsedReceipt<'a> {
    pub(super) envelope: CoseSign1,
    pub(super) claims: RawClaims<'a>,
}

/// Typed as in the claims map; lengths and words have not been checked.
#[derive(Default)]
pub(super) struct RawClaims<'a> {
    pub(super) issuer: &'a str,
    pub(super) issued_at: u64,
    pub(super) id: &'a [u8],
    pub(super) nonce: Option<&'a [u8]>,
    profile: &'a str,
    pub(super) model_id: &'a str,
    pub(super) model_version: &'a str,
    pub(super) model_hash: &'a [u8],
    pub(super) request_hash: &'a [u8],
    pub(super) response_hash: &'a [u8],
    pub(super) document_hash: &'a [u8],
    pub(super) measurements: RawMeasurements<'a>,
    pub(super) policy_version: &'a str,
    pub(super) sequence_number: u64,
    pub(super) execution_time_ms: u64,
    pub(super) memory_peak_mb: u64,
    pub(super) security_mode: &'a str,
    pub(super) hash_scheme: Option<&'a str>,
}

#[derive(Default)]
pub(super) struct RawMeasurements<'a> {
    pub(super) platform: &'a str,
    /// PCR 0, 1, 2, 3, 4 and 8.
    pub(super) registers: [Option<&'a [u8]>; 6],
}

pub(super) const REGISTERS: [u8; 6] = [0, 1, 2, 3, 4, 8];

impl<'a> ParsedReceipt<'a> {
    /// Reads a receipt (rows 1 to 5).
    ///
    /// # Errors
    /// A refusal of layer 1.
    pub fn parse(
        bytes: &'a [u8],
        log: &mut CheckLog<ReceiptCheck>,
    ) -> Result<Self, ReceiptRefusal> {
        if bytes.len() > MAX_RECEIPT {
            let observed = format!("{} bytes, at most {MAX_RECEIPT}", bytes.len());
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Size,
                ReceiptCode::TooLarge,
                observed,
            ));
        }
        log.pass(ReceiptCheck::Size, format!("{} bytes", bytes.len()));
        let envelope = Envelope::read(bytes)?;
        log.pass(
            ReceiptCheck::Envelope,
            "Tag 18, four items, nothing after them",
        );
        let header = envelope.header()?;
        log.pass(ReceiptCheck::Headers, "EdDSA, content type 61 (CWT)");
        let claims = claims(envelope.payload)?;
        log.pass(
            ReceiptCheck::Encoding,
            format!(
                "{} bytes of claims, deterministic, each once",
                envelope.payload.len()
            ),
        );
        if claims.profile != PROFILE {
            let observed = format!(
                "{} bytes that are not the profile's name",
                claims.profile.len()
            );
            return Err(ReceiptRefusal::new(
                ReceiptCheck::Profile,
                ReceiptCode::BadProfile,
                observed,
            ));
        }
        log.pass(ReceiptCheck::Profile, PROFILE);
        Ok(Self {
            envelope: envelope.with(header),
            claims,
        })
    }

    /// The stated time of issue, Unix seconds. The signature has not been checked: use it to choose the moment
    /// of the appraisal, and do not rely on it.
    pub fn unverified_issued_at(&self) -> u64 {
        self.claims.issued_at
    }

    /// Every claim, if all have allowed values. The signature has not been checked: display it only
    /// with that warning, and do not rely on it.
    pub fn unverified_claims(&self) -> Option<ClaimsView> {
        let claims = self.claims.validate(&mut CheckLog::unrecorded()).ok()?;
        Some(ClaimsView::new(&claims))
    }

    /// Hash of the attestation document that the receipt names. Use it to find the document; do not rely on the receipt.
    pub fn unverified_document_hash(&self) -> &'a [u8] {
        self.claims.document_hash
    }
}

const MAX_HEADERS: usize = 64;

/// A `COSE_Sign1` (RFC 9052 §4.2) in its one encoding. The headers' contents are not checked here.
struct Envelope<'a> {
    protected: &'a [u8],
    unprotected_entries: bool,
    payload: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ReceiptRefusal> {
        let malformed = |error: CborError| cbor(ReceiptCheck::Envelope, error);
        let refuse = |code: ReceiptCode, observed: &str| {
            ReceiptRefusal::new(ReceiptCheck::Envelope, code, observed)
        };
        let mut reader = Reader::new(bytes, Rules::Deterministic);
        if reader.peek().map_err(malformed)? != Kind::Tag
            || reader.tag().map_err(malformed)? != COSE_SIGN1
        {
            return Err(refuse(ReceiptCode::NotTagged, "no tag 18 (COSE_Sign1)"));
        }
        if reader.array().map_err(malformed)?.left() != Some(4) {
            return Err(refuse(
                ReceiptCode::BadCbor,
                "an array of another length than 4",
            ));
        }
        let protected = reader.bytes().map_err(malformed)?;
        let unprotected = reader.clone().map().map_err(malformed)?;
        reader.skip().map_err(malformed)?;
        let payload = reader.bytes().map_err(malformed)?;
        let signature = reader.bytes().map_err(malformed)?;
        reader.finish().map_err(malformed)?;
        if signature.len() != 64 {
            let observed = format!("{} bytes, not 64", signature.len());
            return Err(refuse(ReceiptCode::BadSignatureLength, &observed));
        }
        Ok(Self {
            protected,
            unprotected_entries: unprotected.left() != Some(0),
            payload,
            signature,
        })
    }

    /// Exactly the two protected parameters of the profile.
    fn header(&self) -> Result<Header, ReceiptRefusal> {
        let refuse = |code: ReceiptCode, observed: &str| {
            ReceiptRefusal::new(ReceiptCheck::Headers, code, observed)
        };
        if self.unprotected_entries {
            return Err(refuse(
                ReceiptCode::BadHeaders,
                "unprotected header parameters",
            ));
        }
        // The two parameters take six bytes. A much longer header holds more than they, and is not read.
        if self.protected.len() > MAX_HEADERS {
            return Err(refuse(
                ReceiptCode::BadHeaders,
                "protected parameters besides alg and content type",
            ));
        }
        let malformed = |error: CborError| cbor(ReceiptCheck::Headers, error);
        let mut deterministic = Reader::new(self.protected, Rules::Deterministic);
        deterministic.skip().map_err(malformed)?;
        deterministic.finish().map_err(malformed)?;
        let header = Header::from_slice(self.protected)
            .map_err(|error| refuse(ReceiptCode::BadHeaders, &error.to_string()))?;
        match &header.alg {
            Some(RegisteredLabelWithPrivate::Assigned(Algorithm::EdDSA)) => {}
            None => return Err(refuse(ReceiptCode::BadAlg, "no algorithm")),
            Some(_) => {
                let observed = "another algorithm than EdDSA (-8)";
                return Err(refuse(ReceiptCode::BadAlg, observed));
            }
        }
        match &header.content_type {
            Some(ContentType::Assigned(CoapContentFormat::Cwt)) => {}
            None => return Err(refuse(ReceiptCode::BadContentType, "no content type")),
            Some(_) => {
                let observed = "another content type than 61 (CWT)";
                return Err(refuse(ReceiptCode::BadContentType, observed));
            }
        }
        let rest = Header {
            alg: None,
            content_type: None,
            ..header.clone()
        };
        if !rest.is_empty() {
            let observed = "a protected parameter besides alg and content type";
            return Err(refuse(ReceiptCode::BadHeaders, observed));
        }
        Ok(header)
    }

    /// Conversion to `coset`. Comes last, because it copies the payload: a refused receipt is only read in place.
    fn with(self, header: Header) -> CoseSign1 {
        CoseSign1 {
            protected: ProtectedHeader {
                original_data: Some(self.protected.to_vec()),
                header,
            },
            unprotected: Header::default(),
            payload: Some(self.payload.to_vec()),
            signature: self.signature.to_vec(),
        }
    }
}

fn claims(payload: &[u8]) -> Result<RawClaims<'_>, ReceiptRefusal> {
    let mut reader = Reader::new(payload, Rules::Deterministic);
    let reader = &mut reader;
    let mut claims = RawClaims::default();
    let mut map = reader.map().map_err(encoding)?;
    let mut mandatory = 0;
    while reader.more(&mut map).map_err(encoding)? {
        if !matches!(reader.peek(), Ok(Kind::Unsigned | Kind::Negative)) {
            return Err(unknown("a claim whose name is not an integer"));
        }
        let name = reader.int().map_err(encoding)?;
        match name {
            key::ISSUER => claims.issuer = reader.text().map_err(encoding)?,
            key::ISSUED_AT => claims.issued_at = reader.uint().map_err(encoding)?,
            key::ID => claims.id = reader.bytes().map_err(encoding)?,
            key::NONCE => claims.nonce = Some(reader.bytes().map_err(encoding)?),
            key::PROFILE => claims.profile = reader.text().map_err(encoding)?,
            key::MODEL_ID => claims.model_id = reader.text().map_err(encoding)?,
            key::MODEL_VERSION => claims.model_version = reader.text().map_err(encoding)?,
            key::MODEL_HASH => claims.model_hash = reader.bytes().map_err(encoding)?,
            key::REQUEST_HASH => claims.request_hash = reader.bytes().map_err(encoding)?,
            key::RESPONSE_HASH => claims.response_hash = reader.bytes().map_err(encoding)?,
            key::DOCUMENT_HASH => claims.document_hash = reader.bytes().map_err(encoding)?,
            key::MEASUREMENTS => claims.measurements = measurements(reader)?,
            key::POLICY_VERSION => claims.policy_version = reader.text().map_err(encoding)?,
            key::SEQUENCE => claims.sequence_number = reader.uint().map_err(encoding)?,
            key::EXECUTION_MS => claims.execution_time_ms = reader.uint().map_err(encoding)?,
            key::MEMORY_MB => claims.memory_peak_mb = reader.uint().map_err(encoding)?,
            key::SECURITY_MODE => claims.security_mode = reader.text().map_err(encoding)?,
            key::HASH_SCHEME => claims.hash_scheme = Some(reader.text().map_err(encoding)?),
            other => return Err(unknown(&format!("claim {other}"))),
        }
        // Keys are strictly ascending, so each is counted once.
        mandatory += u32::from(!matches!(name, key::NONCE | key::HASH_SCHEME));
    }
    reader.clone().finish().map_err(encoding)?;
    if mandatory != 16 {
        let observed = format!("{mandatory} of 16 mandatory claims");
        return Err(ReceiptRefusal::new(
            ReceiptCheck::Encoding,
            ReceiptCode::MissingClaim,
            observed,
        ));
    }
    Ok(claims)
}

fn measurements<'a>(reader: &mut Reader<'a>) -> Result<RawMeasurements<'a>, ReceiptRefusal> {
    let mut map = reader.map().map_err(encoding)?;
    let mut found = RawMeasurements::default();
    let mut typed = false;
    while reader.more(&mut map).map_err(encoding)? {
        let name = reader.text().map_err(encoding)?;
        if name == "measurement_type" {
            found.platform = reader.text().map_err(encoding)?;
            typed = true;
            continue;
        }
        let slot = REGISTERS
            .iter()
            .position(|index| name == format!("pcr{index}"));
        let slot = slot.ok_or_else(|| unknown("a measurement that the profile does not define"))?;
        found.registers[slot] = Some(reader.bytes().map_err(encoding)?);
    }
    if !typed || found.registers[..3].contains(&None) {
        let observed = "measurement_type, pcr0, pcr1 or pcr2 is absent";
        return Err(ReceiptRefusal::new(
            ReceiptCheck::Encoding,
            ReceiptCode::MissingClaim,
            observed,
        ));
    }
    Ok(found)
}

fn unknown(observed: &str) -> ReceiptRefusal {
    ReceiptRefusal::new(ReceiptCheck::Encoding, ReceiptCode::UnknownClaim, observed)
}

fn encoding(error: CborError) -> ReceiptRefusal {
    cbor(ReceiptCheck::Encoding, error)
}

fn cbor(row: ReceiptCheck, error: CborError) -> ReceiptRefusal {
    let code = match error {
        CborError::Trailing { .. } => ReceiptCode::TrailingBytes,
        CborError::NotShortest { .. }
        | CborError::Indefinite { .. }
        | CborError::KeyOrder { .. } => ReceiptCode::NotDeterministic,
        CborError::WrongType { .. } | CborError::OutOfRange { .. }
            if row == ReceiptCheck::Encoding =>
        {
            ReceiptCode::BadClaimType
        }
        _ => ReceiptCode::BadCbor,
    };
    ReceiptRefusal::new(row, code, error.to_string())
}
