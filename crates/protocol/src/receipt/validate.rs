//! Layer 3: can the claims be true?

use attestation::{CheckLog, HashScheme, SecurityMode};
use base16ct::lower::encode_string as hex;

use super::authenticate::AuthenticReceipt;
use super::claims::{Measurements, Platform, ReceiptClaims};
use super::error::{ReceiptCode, ReceiptRefusal};
use super::parse::{REGISTERS, RawClaims};
use super::rows::ReceiptCheck;

/// Largest integer that JSON carries exactly (RFC 8259 §6): a report must never show a number other than the signed one.
const LARGEST_EXACT: u64 = (1 << 53) - 1;
/// 9999-12-31T23:59:59Z
const LAST_SECOND: u64 = 253_402_300_799;

/// Signed, and every claim has an allowed value.
pub struct ValidReceipt {
    pub(super) claims: ReceiptClaims,
}

impl AuthenticReceipt<'_> {
    /// Layer 3, rows 7 to 13.
    ///
    /// # Errors
    /// A refusal of layer 3.
    pub fn validate(
        self,
        log: &mut CheckLog<ReceiptCheck>,
    ) -> Result<ValidReceipt, ReceiptRefusal> {
        let claims = self.claims.validate(log)?;
        Ok(ValidReceipt { claims })
    }
}

impl RawClaims<'_> {
    /// Claims with allowed values, of an unknown issuer.
    pub(super) fn validate(
        &self,
        log: &mut CheckLog<ReceiptCheck>,
    ) -> Result<ReceiptClaims, ReceiptRefusal> {
        let raw = self;
        if raw.issued_at == 0 || raw.issued_at > LAST_SECOND {
            let observed = format!("{} s since 1970", raw.issued_at);
            return Err(ReceiptRefusal::new(
                ReceiptCheck::IssuedAt,
                ReceiptCode::BadTimestamp,
                observed,
            ));
        }
        log.pass(
            ReceiptCheck::IssuedAt,
            attestation::UnixMillis::from_seconds(raw.issued_at).to_string(),
        );
        let id = raw.id.try_into().map_err(|_| {
            let observed = format!("{} bytes", raw.id.len());
            ReceiptRefusal::new(ReceiptCheck::Identifier, ReceiptCode::BadIdLength, observed)
        })?;
        log.pass(ReceiptCheck::Identifier, hex(raw.id));
        let model_hash = hash(raw.model_hash, "model")?;
        let request_hash = hash(raw.request_hash, "request")?;
        let response_hash = hash(raw.response_hash, "response")?;
        let document_hash = hash(raw.document_hash, "document")?;
        log.pass(ReceiptCheck::Hashes, "Four of 32 bytes");
        if model_hash == [0; 32] {
            return Err(ReceiptRefusal::new(
                ReceiptCheck::ModelPresent,
                ReceiptCode::ZeroModelHash,
                "all zero",
            ));
        }
        log.pass(ReceiptCheck::ModelPresent, hex(&model_hash));
        let measurements = measurements(raw)?;
        log.pass(
            ReceiptCheck::Registers,
            format!(
                "{} registers, {}",
                measurements.registers().count(),
                measurements.platform.as_str()
            ),
        );
        let (security_mode, model_hash_scheme) = words(raw)?;
        log.pass(ReceiptCheck::Words, security_mode.as_str());
        match raw.nonce {
            Some(nonce) if !(8..=64).contains(&nonce.len()) => {
                let observed = format!("{} bytes", nonce.len());
                return Err(ReceiptRefusal::new(
                    ReceiptCheck::NonceLength,
                    ReceiptCode::BadNonceLength,
                    observed,
                ));
            }
            Some(nonce) => log.pass(ReceiptCheck::NonceLength, format!("{} bytes", nonce.len())),
            None => log.pass(ReceiptCheck::NonceLength, "None"),
        }
        Ok(ReceiptClaims {
            issuer: raw.issuer.to_owned(),
            issued_at: raw.issued_at,
            id,
            nonce: raw.nonce.map(<[u8]>::to_vec),
            model_id: raw.model_id.to_owned(),
            model_version: raw.model_version.to_owned(),
            model_hash,
            model_hash_scheme,
            request_hash,
            response_hash,
            document_hash,
            measurements,
            policy_version: raw.policy_version.to_owned(),
            sequence_number: raw.sequence_number,
            execution_time_ms: raw.execution_time_ms,
            memory_peak_mb: raw.memory_peak_mb,
            security_mode,
        })
    }
}

fn hash(bytes: &[u8], of: &str) -> Result<[u8; 32], ReceiptRefusal> {
    bytes.try_into().map_err(|_| {
        let observed = format!("{} bytes for the {of}", bytes.len());
        ReceiptRefusal::new(ReceiptCheck::Hashes, ReceiptCode::BadHashLength, observed)
    })
}

fn measurements(raw: &RawClaims<'_>) -> Result<Measurements, ReceiptRefusal> {
    let refuse = |code: ReceiptCode, observed: String| {
        ReceiptRefusal::new(ReceiptCheck::Registers, code, observed)
    };
    let mut registers = [None; 6];
    for ((slot, found), index) in registers
        .iter_mut()
        .zip(raw.measurements.registers)
        .zip(REGISTERS)
    {
        if let Some(bytes) = found {
            let value = <[u8; 48]>::try_from(bytes).map_err(|_| {
                refuse(
                    ReceiptCode::BadMeasurementLength,
                    format!("pcr{index} has {} bytes", bytes.len()),
                )
            })?;
            *slot = Some(value);
        }
    }
    let platform = Platform::from_name(raw.measurements.platform).ok_or_else(|| {
        refuse(
            ReceiptCode::UnknownMeasurementType,
            "neither nitro-pcr nor tdx-mrtd-rtmr".to_owned(),
        )
    })?;
    let [Some(pcr0), Some(pcr1), Some(pcr2), pcr3, pcr4, pcr8] = registers else {
        return Err(refuse(
            ReceiptCode::MissingClaim,
            "pcr0, pcr1 or pcr2 is absent".to_owned(),
        ));
    };
    if platform == Platform::TdxMrtdRtmr && pcr8.is_some() {
        return Err(refuse(
            ReceiptCode::UnexpectedMeasurement,
            "pcr8 on TDX".to_owned(),
        ));
    }
    Ok(Measurements {
        platform,
        pcr0,
        pcr1,
        pcr2,
        pcr3,
        pcr4,
        pcr8,
    })
}

fn words(raw: &RawClaims<'_>) -> Result<(SecurityMode, Option<HashScheme>), ReceiptRefusal> {
    let refuse = |code: ReceiptCode, observed: &str| {
        ReceiptRefusal::new(ReceiptCheck::Words, code, observed)
    };
    let mode = SecurityMode::from_name(raw.security_mode).ok_or_else(|| {
        refuse(
            ReceiptCode::UnknownSecurityMode,
            "neither production nor evaluation",
        )
    })?;
    let scheme = match raw.hash_scheme {
        None => None,
        Some(name) => Some(HashScheme::from_name(name).ok_or_else(|| {
            refuse(
                ReceiptCode::UnknownHashScheme,
                "a hash scheme outside the profile",
            )
        })?),
    };
    if [
        raw.sequence_number,
        raw.execution_time_ms,
        raw.memory_peak_mb,
    ]
    .iter()
    .any(|number| *number > LARGEST_EXACT)
    {
        return Err(refuse(
            ReceiptCode::NumberTooLarge,
            "a number above 2^53 - 1",
        ));
    }
    Ok((mode, scheme))
}
