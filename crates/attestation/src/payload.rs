//! The payload of a document: AWS's map of nine fields (AWS NSM API, attestation document specification).

use std::collections::BTreeMap;

use crate::cbor::{CborError, Kind, Reader, Rules};
use crate::checks::CheckId;
use crate::claims::Claims;
use crate::error::{AttestationError, ErrorCode};
use crate::observed::Observed;
use crate::report::CheckLog;
use crate::time::{LAST_MOMENT, UnixMillis};

/// AWS NSM API: certificates are at most 1,024 bytes. Genuine documents show the same bound for the optional fields.
const MAX_FIELD: usize = 1_024;

/// Earlier timestamps (before September 2001) are seconds mistaken for milliseconds.
const FIRST_MOMENT: u64 = 1_000_000_000_000;

/// Check 5, then 2, then 6 to 12. `envelope_end` states whether the envelope, which is read before, covers the whole document:
/// check 2 covers envelope and payload together.
pub(crate) fn read(
    payload: &[u8],
    envelope_end: Result<(), CborError>,
    log: &mut CheckLog<CheckId>,
) -> Result<Claims, AttestationError> {
    // Shortest heads: the NSM writes no others. Its maps are definite until mid 2025, indefinite since.
    let mut reader = Reader::new(payload, Rules::Shortest);
    let present = Fields::read(&mut reader)?.into_present()?;
    log.pass(CheckId::Fields, present.summary());
    for (part, end) in [("envelope", envelope_end), ("payload", reader.finish())] {
        end.map_err(|error| {
            AttestationError::new(ErrorCode::TrailingBytes, Observed::within(part, error))
        })?;
    }
    log.pass(
        CheckId::NoTrailingBytes,
        "No byte left over in envelope and payload",
    );
    present.check(log)
}

/// The fields of the payload as received. Borrowed: nothing is copied before its size is checked.
#[derive(Default)]
struct Fields<'a> {
    module_id: Option<&'a str>,
    digest: Option<&'a str>,
    timestamp: Option<u64>,
    pcrs: Option<BTreeMap<u64, &'a [u8]>>,
    certificate: Option<&'a [u8]>,
    cabundle: Option<Vec<&'a [u8]>>,
    public_key: Option<Option<&'a [u8]>>,
    user_data: Option<Option<&'a [u8]>>,
    nonce: Option<Option<&'a [u8]>>,
}

impl<'a> Fields<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, AttestationError> {
        let mut fields = Self::default();
        let mut map = reader.map().map_err(malformed)?;
        while reader.more(&mut map).map_err(malformed)? {
            let name = reader.text().map_err(malformed)?;
            let wrong = |error| wrong_type(name, error);
            match name {
                "module_id" => set(&mut fields.module_id, name, reader.text().map_err(wrong)?)?,
                "digest" => set(&mut fields.digest, name, reader.text().map_err(wrong)?)?,
                "timestamp" => set(&mut fields.timestamp, name, reader.uint().map_err(wrong)?)?,
                "pcrs" => set(&mut fields.pcrs, name, read_pcrs(reader)?)?,
                "certificate" => set(
                    &mut fields.certificate,
                    name,
                    reader.bytes().map_err(wrong)?,
                )?,
                "cabundle" => set(
                    &mut fields.cabundle,
                    name,
                    read_cabundle(reader).map_err(wrong)?,
                )?,
                "public_key" => set(
                    &mut fields.public_key,
                    name,
                    optional(reader).map_err(wrong)?,
                )?,
                "user_data" => set(
                    &mut fields.user_data,
                    name,
                    optional(reader).map_err(wrong)?,
                )?,
                "nonce" => set(&mut fields.nonce, name, optional(reader).map_err(wrong)?)?,
                "nitrotpm_pcrs" => {
                    return Err(AttestationError::new(
                        ErrorCode::NitroTpmDocument,
                        "it holds nitrotpm_pcrs",
                    ));
                }
                // AWS's specification lists all keys of the map, and all known documents keep to that list. A further field would be
                // signed, but no verifier would check it.
                _ => {
                    return Err(AttestationError::new(
                        ErrorCode::FieldUnknown,
                        Observed::text("field", name.chars().take(32)),
                    ));
                }
            }
        }
        Ok(fields)
    }

    fn into_present(self) -> Result<Present<'a>, AttestationError> {
        // Tested before missing fields: a NitroTPM document has the same root, but does not come from an enclave.
        if self.module_id.is_some_and(is_nitro_tpm) {
            return Err(AttestationError::new(
                ErrorCode::NitroTpmDocument,
                "its module id ends in -tpm…",
            ));
        }
        Ok(Present {
            module_id: mandatory(self.module_id, "module_id")?,
            digest: mandatory(self.digest, "digest")?,
            timestamp: mandatory(self.timestamp, "timestamp")?,
            pcrs: mandatory(self.pcrs, "pcrs")?,
            certificate: mandatory(self.certificate, "certificate")?,
            cabundle: mandatory(self.cabundle, "cabundle")?,
            // AWS always writes null; an absent optional field means the same.
            public_key: self.public_key.flatten(),
            user_data: self.user_data.flatten(),
            nonce: self.nonce.flatten(),
        })
    }
}

struct Present<'a> {
    module_id: &'a str,
    digest: &'a str,
    timestamp: u64,
    pcrs: BTreeMap<u64, &'a [u8]>,
    certificate: &'a [u8],
    cabundle: Vec<&'a [u8]>,
    public_key: Option<&'a [u8]>,
    user_data: Option<&'a [u8]>,
    nonce: Option<&'a [u8]>,
}

impl Present<'_> {
    fn summary(&self) -> String {
        let optional = [
            ("public_key", self.public_key),
            ("user_data", self.user_data),
            ("nonce", self.nonce),
        ];
        let given: Vec<_> = optional
            .iter()
            .filter(|(_, value)| value.is_some())
            .map(|(name, _)| *name)
            .collect();
        let given = if given.is_empty() {
            "no optional field".to_owned()
        } else {
            given.join(", ")
        };
        format!("Six mandatory fields; {given}")
    }

    /// Checks 6 to 12.
    fn check(self, log: &mut CheckLog<CheckId>) -> Result<Claims, AttestationError> {
        if self.module_id.is_empty() {
            return Err(AttestationError::new(
                ErrorCode::ModuleIdEmpty,
                "module_id of no characters",
            ));
        }
        // Control or bidirectional characters in a name could change how a terminal shows the verdict.
        if !self.module_id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AttestationError::new(
                ErrorCode::ModuleIdUnprintable,
                Observed::text("module_id", self.module_id.escape_unicode().take(96)),
            ));
        }
        log.pass(CheckId::ModuleId, self.module_id);

        if self.digest != "SHA384" {
            let observed = Observed::text("digest", self.digest.chars().take(16));
            return Err(AttestationError::new(ErrorCode::DigestRefused, observed));
        }
        log.pass(CheckId::Digest, self.digest);

        if !(FIRST_MOMENT..=LAST_MOMENT).contains(&self.timestamp) {
            let observed = Observed::Timestamp(self.timestamp);
            return Err(AttestationError::new(ErrorCode::TimestampInvalid, observed));
        }
        let timestamp = UnixMillis(self.timestamp);
        log.pass(CheckId::Timestamp, timestamp.to_string());

        let pcrs = check_pcrs(&self.pcrs)?;
        log.pass(
            CheckId::Pcrs,
            format!("{} registers of 48 bytes", pcrs.len()),
        );

        // An empty list would satisfy every "all of them" check below.
        if self.cabundle.is_empty() {
            return Err(AttestationError::new(
                ErrorCode::CabundleInvalid,
                "no entry",
            ));
        }
        if let Some(index) = self
            .cabundle
            .iter()
            .position(|der| der.is_empty() || der.len() > MAX_FIELD)
        {
            let bytes = self.cabundle[index].len();
            let observed = Observed::EntrySize { index, bytes };
            return Err(AttestationError::new(ErrorCode::CabundleInvalid, observed));
        }
        log.pass(
            CheckId::Cabundle,
            format!("{} certificates", self.cabundle.len()),
        );

        let size = self.certificate.len();
        if size == 0 || size > MAX_FIELD {
            return Err(AttestationError::new(
                ErrorCode::CertificateSize,
                Observed::size("certificate", size),
            ));
        }
        log.pass(CheckId::Certificate, format!("{size} bytes"));

        // AWS's text says 1 to 512 for user_data and nonce; genuine documents hold between 0 and 746 bytes.
        for (name, value) in [
            ("public_key", self.public_key),
            ("user_data", self.user_data),
            ("nonce", self.nonce),
        ] {
            if let Some(value) = value.filter(|value| value.len() > MAX_FIELD) {
                let observed = Observed::size(name, value.len());
                return Err(AttestationError::new(
                    ErrorCode::OptionalFieldSize,
                    observed,
                ));
            }
        }
        let size = |value: Option<&[u8]>| {
            value.map_or("null".to_owned(), |value| format!("{} bytes", value.len()))
        };
        log.pass(
            CheckId::OptionalFields,
            format!(
                "public_key {}, user_data {}, nonce {}",
                size(self.public_key),
                size(self.user_data),
                size(self.nonce)
            ),
        );

        Ok(Claims {
            module_id: self.module_id.to_owned(),
            timestamp,
            pcrs,
            certificate: self.certificate.to_vec(),
            cabundle: self.cabundle.iter().map(|der| der.to_vec()).collect(),
            public_key: self.public_key.map(<[u8]>::to_vec),
            user_data: self.user_data.map(<[u8]>::to_vec),
            nonce: self.nonce.map(<[u8]>::to_vec),
        })
    }
}

/// Check 9. AWS's syntax also allows 32 and 64 bytes, but the digest is SHA-384.
fn check_pcrs(pcrs: &BTreeMap<u64, &[u8]>) -> Result<BTreeMap<u8, [u8; 48]>, AttestationError> {
    let refuse = |observed| AttestationError::new(ErrorCode::PcrSetInvalid, observed);
    if pcrs.is_empty() {
        return Err(refuse(Observed::Fault("no register")));
    }
    let mut registers = BTreeMap::new();
    for (index, value) in pcrs {
        let small = u8::try_from(*index).ok().filter(|index| *index < 32);
        let small = small.ok_or_else(|| refuse(Observed::Register(*index)))?;
        let value =
            <[u8; 48]>::try_from(*value).map_err(|_| refuse(Observed::RegisterSize(*index)))?;
        registers.insert(small, value);
    }
    Ok(registers)
}

fn read_pcrs<'a>(reader: &mut Reader<'a>) -> Result<BTreeMap<u64, &'a [u8]>, AttestationError> {
    let wrong = |error| wrong_type("pcrs", error);
    let mut pcrs = BTreeMap::new();
    let mut map = reader.map().map_err(wrong)?;
    while reader.more(&mut map).map_err(wrong)? {
        let index = reader.uint().map_err(wrong)?;
        // RFC 8949 §5.3.1: duplicate keys are invalid. A reader that keeps the last one would read another measurement.
        if pcrs.insert(index, reader.bytes().map_err(wrong)?).is_some() {
            return Err(AttestationError::new(
                ErrorCode::FieldDuplicate,
                Observed::Duplicate(format!("PCR{index}")),
            ));
        }
    }
    Ok(pcrs)
}

fn read_cabundle<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, CborError> {
    let mut bundle = Vec::new();
    let mut array = reader.array()?;
    while reader.more(&mut array)? {
        bundle.push(reader.bytes()?);
    }
    Ok(bundle)
}

fn optional<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, CborError> {
    if reader.peek()? == Kind::Null {
        reader.null().map(|_| None)
    } else {
        reader.bytes().map(Some)
    }
}

fn set<T>(field: &mut Option<T>, name: &str, value: T) -> Result<(), AttestationError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(AttestationError::new(
            ErrorCode::FieldDuplicate,
            Observed::Duplicate(name.to_owned()),
        )),
    }
}

fn mandatory<T>(field: Option<T>, name: &'static str) -> Result<T, AttestationError> {
    field.ok_or_else(|| AttestationError::new(ErrorCode::FieldMissing, Observed::Missing(name)))
}

/// `i-…-tpm…`, where an enclave's module id is `i-…-enc…`.
fn is_nitro_tpm(module_id: &str) -> bool {
    module_id
        .rsplit_once('-')
        .is_some_and(|(_, last)| last.starts_with("tpm"))
}

fn malformed(error: CborError) -> AttestationError {
    AttestationError::new(ErrorCode::PayloadMalformed, Observed::Cbor(error))
}

/// A wrong type is reported for the field; any other error is malformed CBOR.
fn wrong_type(name: &str, error: CborError) -> AttestationError {
    match error {
        CborError::WrongType { .. } => {
            AttestationError::new(ErrorCode::FieldType, Observed::within(name, error))
        }
        _ => malformed(error),
    }
}
