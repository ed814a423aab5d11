//! Layers 2 to 4, and the walk over all of them.

use attestation::{HashScheme, Ladder, RowSpec, SecurityMode, Stopwatch};
use data_encoding::HEXLOWER;
use ed25519_dalek::{Signature, VerifyingKey};

use super::claims::{Measurements, Platform, ReceiptClaims};
use super::error::{ReceiptCode, ReceiptRefusal};
use super::expectations::{Expectations, KeyOrigin};
use super::parse::{ParsedReceipt, REGISTERS, RawClaims};
use super::to_be_signed;
use super::view::{self, ReceiptReport};

macro_rules! rows {
    ($( $id:literal $constant:ident $name:literal $stage:literal, $title:literal, $expected:literal, $clause:literal; )*) => {
        /// The rows of every receipt report.
        pub const SPECS: &[RowSpec] = &[$( RowSpec {
            id: $id, name: $name, stage: $stage, title: $title, required: true, expected: $expected, clause: $clause,
        }, )*];

        /// Row numbers by name.
        pub(super) mod row { $( pub(in crate::receipt) const $constant: u8 = $id; )* }
    };
}

rows! {
    1 SIZE "size" "parse", "Is it of bounded size?", "At most 65,536 bytes", "AIR v1";
    2 ENVELOPE "envelope" "parse", "Is it one signed envelope?",
        "A tagged COSE_Sign1 with nothing after it", "RFC 9052 §4.2";
    3 HEADERS "headers" "parse", "Is the algorithm EdDSA, and are there no other headers?",
        "Protected {alg: EdDSA, content type: 61}, unprotected empty", "AIR v1; RFC 9053 §2.2";
    4 ENCODING "claims-encoding" "parse", "Are the claims complete, typed, and there once?",
        "A deterministic map of the profile's claims", "RFC 8949 §4.2.1; RFC 8392 §3";
    5 PROFILE "profile" "parse", "Does it name the profile that is being judged?",
        "https://spec.cyntrisec.com/air/v1", "RFC 9711 §4.3.2";
    6 SIGNATURE "signature" "signature", "Did the receipt key sign exactly these bytes?",
        "A strict Ed25519 signature", "RFC 8032 §5.1.7; RFC 9052 §4.4";
    7 ISSUED_AT "issued-at" "claims", "Does it say when it was issued?", "A moment that is not 0", "RFC 8392 §3.1.6";
    8 IDENTIFIER "identifier" "claims", "Does it carry an identifier?", "16 bytes", "RFC 8392 §3.1.7";
    9 HASHES "hashes" "claims", "Are all hashes complete?", "32 bytes each", "AIR v1";
    10 MODEL_PRESENT "model-present" "claims", "Does it name a model?", "A hash that is not all zero", "AIR v1";
    11 REGISTERS "measurements" "claims", "Are the measurements complete registers?",
        "48 bytes each, of a known platform", "AIR v1";
    12 WORDS "vocabulary" "claims", "Are mode and hash scheme known words, and numbers exact?",
        "\"production\" or \"evaluation\"; a scheme of the profile", "AIR v1; RFC 8259 §6";
    13 NONCE_LENGTH "nonce-length" "claims", "Has the nonce a possible length?", "8 to 64 bytes, or none", "RFC 9711 §4.1";
    14 KEY "key-attested" "policy", "Was the key attested?", "A key out of verified evidence", "docs/PROTOCOL.md §4";
    15 PLATFORM "platform" "policy", "Was it measured on the expected platform?", "nitro-pcr", "AIR v1";
    16 DOCUMENT "document" "policy", "Does it name this attestation document?",
        "SHA-256 of the document", "docs/PROTOCOL.md §4";
    17 MEASURED "measured" "policy", "Are its measurements the document's?", "Every register equal", "docs/PROTOCOL.md §4";
    18 MODEL "model" "policy", "Is it of the expected model?", "Name, version and hash equal", "docs/PROTOCOL.md §4";
    19 RULES "rules" "policy", "Was it issued under the expected policy and mode?",
        "Policy version and security mode equal", "docs/PROTOCOL.md §4";
    20 REQUEST "request" "policy", "Is it of this request?", "The request's commitment", "docs/PROTOCOL.md §4";
    21 RESPONSE "response" "policy", "Is it of this response?", "The response's salted commitment", "docs/PROTOCOL.md §4";
    22 NONCE "nonce" "policy", "Does it answer our nonce?", "The nonce that was sent", "RFC 9711 §4.1";
    23 TIME "time" "policy", "Was it issued at the expected time?", "Inside the allowed window", "RFC 8392 §3.1.6";
}

/// Largest integer that JSON carries exactly (RFC 8259 §6): a report must never show another number than was signed.
const LARGEST_EXACT: u64 = (1 << 53) - 1;
/// 9999-12-31T23:59:59Z
const LAST_SECOND: u64 = 253_402_300_799;

/// Signed by the given key.
pub struct AuthenticReceipt<'a> {
    claims: RawClaims<'a>,
}

/// Signed, and every claim has a possible value.
pub struct ValidReceipt {
    claims: ReceiptClaims,
}

/// Judges a receipt. The second part is there only where every layer passed.
pub fn verify(
    receipt: &[u8],
    expectations: &Expectations,
    stopwatch: Option<Stopwatch>,
) -> (ReceiptReport, Option<ReceiptClaims>) {
    let mut ladder = Ladder::new(SPECS);
    if let Some(stopwatch) = stopwatch {
        ladder = ladder.with_stopwatch(stopwatch);
    }
    let mut seen = None;
    let outcome = walk(receipt, expectations, &mut ladder, &mut seen);
    if let Err(refusal) = &outcome {
        ladder.fail(refusal.row, refusal.code.as_str(), refusal.observed.clone());
    }
    let report = view::report(
        outcome.as_ref().err(),
        seen.as_ref(),
        expectations,
        ladder.into_rows(),
    );
    // The word on the page and the claims handed out never differ.
    let passed = report.verdict != attestation::Verdict::Refused;
    (report, outcome.ok().filter(|_| passed))
}

fn walk(
    receipt: &[u8],
    expectations: &Expectations,
    ladder: &mut Ladder,
    seen: &mut Option<ReceiptClaims>,
) -> Result<ReceiptClaims, ReceiptRefusal> {
    let valid = ParsedReceipt::parse(receipt, ladder)?
        .authenticate(expectations, ladder)?
        .validate(ladder)?;
    *seen = Some(valid.claims.clone());
    valid.appraise(expectations, ladder)
}

impl<'a> ParsedReceipt<'a> {
    /// Layer 2, row 6.
    ///
    /// # Errors
    /// [`ReceiptCode::BadKey`] or [`ReceiptCode::SigFailed`].
    pub fn authenticate(
        self,
        expectations: &Expectations,
        ladder: &mut Ladder,
    ) -> Result<AuthenticReceipt<'a>, ReceiptRefusal> {
        let refuse =
            |code: ReceiptCode, observed: &str| ReceiptRefusal::new(row::SIGNATURE, code, observed);
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
        key.verify_strict(
            &to_be_signed(self.protected, self.payload),
            &Signature::from_bytes(&self.signature),
        )
        .map_err(|_| {
            refuse(
                ReceiptCode::SigFailed,
                "the signature does not fit this key and these bytes",
            )
        })?;
        ladder.pass(
            row::SIGNATURE,
            format!("Key {}…", HEXLOWER.encode(&expectations.key().bytes()[..8])),
        );
        Ok(AuthenticReceipt {
            claims: self.claims,
        })
    }
}

impl AuthenticReceipt<'_> {
    /// Layer 3, rows 7 to 13.
    ///
    /// # Errors
    /// A refusal of layer 3.
    pub fn validate(self, ladder: &mut Ladder) -> Result<ValidReceipt, ReceiptRefusal> {
        let raw = self.claims;
        if raw.issued_at == 0 || raw.issued_at > LAST_SECOND {
            let observed = format!("{} s since 1970", raw.issued_at);
            return Err(ReceiptRefusal::new(
                row::ISSUED_AT,
                ReceiptCode::BadTimestamp,
                observed,
            ));
        }
        ladder.pass(
            row::ISSUED_AT,
            attestation::UnixMillis::from_seconds(raw.issued_at).to_string(),
        );
        let id = raw.id.try_into().map_err(|_| {
            let observed = format!("{} bytes", raw.id.len());
            ReceiptRefusal::new(row::IDENTIFIER, ReceiptCode::BadIdLength, observed)
        })?;
        ladder.pass(row::IDENTIFIER, HEXLOWER.encode(raw.id));
        let model_hash = hash(raw.model_hash, "model")?;
        let request_hash = hash(raw.request_hash, "request")?;
        let response_hash = hash(raw.response_hash, "response")?;
        let document_hash = hash(raw.document_hash, "document")?;
        ladder.pass(row::HASHES, "Four of 32 bytes");
        if model_hash == [0; 32] {
            return Err(ReceiptRefusal::new(
                row::MODEL_PRESENT,
                ReceiptCode::ZeroModelHash,
                "all zero",
            ));
        }
        ladder.pass(row::MODEL_PRESENT, HEXLOWER.encode(&model_hash));
        let measurements = measurements(&raw)?;
        ladder.pass(
            row::REGISTERS,
            format!(
                "{} registers, {}",
                measurements.registers().count(),
                measurements.platform.as_str()
            ),
        );
        let (security_mode, model_hash_scheme) = words(&raw)?;
        ladder.pass(row::WORDS, security_mode.as_str());
        match raw.nonce {
            Some(nonce) if !(8..=64).contains(&nonce.len()) => {
                let observed = format!("{} bytes", nonce.len());
                return Err(ReceiptRefusal::new(
                    row::NONCE_LENGTH,
                    ReceiptCode::BadNonceLength,
                    observed,
                ));
            }
            Some(nonce) => ladder.pass(row::NONCE_LENGTH, format!("{} bytes", nonce.len())),
            None => ladder.pass(row::NONCE_LENGTH, "None"),
        }
        let claims = ReceiptClaims {
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
        };
        Ok(ValidReceipt { claims })
    }
}

fn hash(bytes: &[u8], of: &str) -> Result<[u8; 32], ReceiptRefusal> {
    bytes.try_into().map_err(|_| {
        let observed = format!("{} bytes for the {of}", bytes.len());
        ReceiptRefusal::new(row::HASHES, ReceiptCode::BadHashLength, observed)
    })
}

fn measurements(raw: &RawClaims<'_>) -> Result<Measurements, ReceiptRefusal> {
    let refuse =
        |code: ReceiptCode, observed: String| ReceiptRefusal::new(row::REGISTERS, code, observed);
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
    let refuse =
        |code: ReceiptCode, observed: &str| ReceiptRefusal::new(row::WORDS, code, observed);
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

impl ValidReceipt {
    /// What the receipt says.
    pub fn claims(&self) -> &ReceiptClaims {
        &self.claims
    }

    /// Layer 4, rows 14 to 23. What the expectations leave open is skipped, and the row says so.
    ///
    /// # Errors
    /// A refusal of layer 4.
    pub fn appraise(
        self,
        expected: &Expectations,
        ladder: &mut Ladder,
    ) -> Result<ReceiptClaims, ReceiptRefusal> {
        let claims = &self.claims;
        let measured = &claims.measurements;
        match expected.origin() {
            KeyOrigin::Attested(_) => ladder.pass(row::KEY, "Out of verified evidence"),
            KeyOrigin::Named => ladder.skip(
                row::KEY,
                "The key was named by hand: shows who signed, not that an enclave did",
            ),
        }
        let mut compare = Comparison { ladder };
        compare.equal(
            row::PLATFORM,
            ReceiptCode::PlatformMismatch,
            expected.platform.map(Platform::as_str),
            measured.platform.as_str(),
        )?;
        compare.hash(
            row::DOCUMENT,
            ReceiptCode::DocumentMismatch,
            expected.document_hash.as_ref(),
            &claims.document_hash,
        )?;
        compare.registers(expected, measured)?;
        compare.model(expected, claims)?;
        compare.rules(expected, claims)?;
        compare.hash(
            row::REQUEST,
            ReceiptCode::RequestHashMismatch,
            expected.request_hash.as_ref(),
            &claims.request_hash,
        )?;
        compare.hash(
            row::RESPONSE,
            ReceiptCode::ResponseHashMismatch,
            expected.response_hash.as_ref(),
            &claims.response_hash,
        )?;
        let nonce = expected
            .nonce
            .as_deref()
            .map(|nonce| HEXLOWER.encode(nonce));
        let answered = claims
            .nonce
            .as_deref()
            .map_or_else(|| "none".to_owned(), |nonce| HEXLOWER.encode(nonce));
        compare.equal(
            row::NONCE,
            ReceiptCode::NonceMismatch,
            nonce.as_deref(),
            &answered,
        )?;
        compare.time(expected, claims.issued_at)?;
        Ok(self.claims)
    }
}

struct Comparison<'l> {
    ladder: &'l mut Ladder,
}

const NOT_ASKED: &str = "Nothing to compare with";

impl Comparison<'_> {
    fn equal(
        &mut self,
        row: u8,
        code: ReceiptCode,
        expected: Option<&str>,
        found: &str,
    ) -> Result<(), ReceiptRefusal> {
        let Some(expected) = expected else {
            self.ladder.skip(row, NOT_ASKED);
            return Ok(());
        };
        self.ladder.expect(row, expected);
        if expected != found {
            return Err(ReceiptRefusal::new(row, code, found));
        }
        self.ladder.pass(row, found);
        Ok(())
    }

    fn hash(
        &mut self,
        row: u8,
        code: ReceiptCode,
        expected: Option<&[u8; 32]>,
        found: &[u8; 32],
    ) -> Result<(), ReceiptRefusal> {
        let expected = expected.map(|expected| HEXLOWER.encode(expected));
        self.equal(row, code, expected.as_deref(), &HEXLOWER.encode(found))
    }

    fn registers(
        &mut self,
        expected: &Expectations,
        measured: &Measurements,
    ) -> Result<(), ReceiptRefusal> {
        let Some(document) = &expected.registers else {
            self.ladder.skip(row::MEASURED, NOT_ASKED);
            return Ok(());
        };
        if let Some((index, _)) = measured
            .registers()
            .find(|(index, value)| document.get(index) != Some(value))
        {
            let observed = format!("pcr{index} differs from the document's");
            return Err(ReceiptRefusal::new(
                row::MEASURED,
                ReceiptCode::MeasurementMismatch,
                observed,
            ));
        }
        self.ladder.pass(
            row::MEASURED,
            format!("{} registers equal", measured.registers().count()),
        );
        Ok(())
    }

    fn model(
        &mut self,
        expected: &Expectations,
        claims: &ReceiptClaims,
    ) -> Result<(), ReceiptRefusal> {
        let found = HEXLOWER.encode(&claims.model_hash);
        if expected.model_hash.is_none()
            && expected.model_id.is_none()
            && expected.model_version.is_none()
        {
            self.ladder.skip(row::MODEL, NOT_ASKED);
            return Ok(());
        }
        if expected
            .model_hash
            .is_some_and(|hash| hash != claims.model_hash)
        {
            return Err(ReceiptRefusal::new(
                row::MODEL,
                ReceiptCode::ModelHashMismatch,
                found,
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
                row::MODEL,
                ReceiptCode::ModelIdMismatch,
                observed,
            ));
        }
        self.ladder.pass(row::MODEL, found);
        Ok(())
    }

    fn rules(
        &mut self,
        expected: &Expectations,
        claims: &ReceiptClaims,
    ) -> Result<(), ReceiptRefusal> {
        if expected.policy_version.is_none() && expected.security_mode.is_none() {
            self.ladder.skip(row::RULES, NOT_ASKED);
            return Ok(());
        }
        if expected
            .policy_version
            .as_ref()
            .is_some_and(|version| *version != claims.policy_version)
        {
            let observed = excerpt(&claims.policy_version);
            return Err(ReceiptRefusal::new(
                row::RULES,
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
                row::RULES,
                ReceiptCode::SecurityModeMismatch,
                observed,
            ));
        }
        let observed = format!(
            "{}, {}",
            excerpt(&claims.policy_version),
            claims.security_mode.as_str()
        );
        self.ladder.pass(row::RULES, observed);
        Ok(())
    }

    fn time(&mut self, expected: &Expectations, issued_at: u64) -> Result<(), ReceiptRefusal> {
        let Some(window) = expected.window else {
            self.ladder.skip(row::TIME, "Judged as of its own time");
            return Ok(());
        };
        let at = window.at.seconds();
        if issued_at > at.saturating_add(window.clock_skew_seconds) {
            let observed = format!("issued {} s after the judged moment", issued_at - at);
            return Err(ReceiptRefusal::new(
                row::TIME,
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
                row::TIME,
                ReceiptCode::TimestampStale,
                observed,
            ));
        }
        self.ladder.pass(
            row::TIME,
            format!("Issued {age} s before the judged moment"),
        );
        Ok(())
    }
}

/// Text of a receipt as a row shows it: bounded.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
