//! The transparency log of receipts: is a receipt in the tree that its enclave signed, and is there only one history?
//!
//! The enclave begins a tree (RFC 9162 §2.1) with its key configuration, appends every receipt that it signs, and signs the tree's head
//! with the same key. The host stores the leaves and serves proofs. The holder of a receipt and a head can check, offline, whether
//! the receipt is in that head's history; the holder of two heads, whether one history continues the other.
//! A client that received keys can check whether they are the keys that all other readers of the log see.
//!
//! [`verify`] makes all these checks and reports each as a row. The tree itself is the crate `merkle`.

use attestation::{
    Appraisal, CheckLog, Freshness, Policy, Stopwatch, UnixMillis, Verdict, VerifiedAttestation,
};
use merkle::Hash;
use merkle::head::{HeadError, TreeHead};
use merkle::json::{Consistency, Inclusion, SignedHead, hex};
use merkle::tree::{keys_hash, receipt_hash};

use crate::receipt::{Expectations, KeyOrigin, ReceiptClaims};

mod error;
mod report;

pub use error::{LogCode, LogRefusal};
pub use report::{HeadView, LogCheck, LogReport, SPECS};

/// Upper bound on how far clocks within an enclave go back, in seconds.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// Largest integer that JSON carries exactly (RFC 8259 §6).
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// The inputs of a log's verification.
pub struct LogInput<'a> {
    /// The receipt key, and its origin.
    pub expectations: &'a Expectations,
    /// The leaf that should be in the tree; `None` checks heads alone.
    pub leaf: Option<Leaf<'a>>,
    /// The signed head.
    pub head: &'a [u8],
    /// An earlier head that the verifier kept.
    pub earlier: Option<EarlierHead<'a>>,
}

/// A leaf that should be in a tree, and the proof that it is.
pub enum Leaf<'a> {
    /// A receipt.
    Receipt(LoggedReceipt<'a>),
    /// The key configuration with which the log begins.
    Keys(LoggedKeys<'a>),
}

/// A key configuration, and the proof that the log begins with it.
#[derive(Clone, Copy)]
pub struct LoggedKeys<'a> {
    /// The service manifest that a client received, unchanged.
    pub manifest: &'a [u8],
    /// The proof.
    pub inclusion: &'a Inclusion,
}

/// A verified receipt, and the proof that it is in the tree.
pub struct LoggedReceipt<'a> {
    /// The receipt as signed.
    pub bytes: &'a [u8],
    /// Its claims, which only a verified receipt has.
    pub claims: &'a ReceiptClaims,
    /// The proof.
    pub inclusion: &'a Inclusion,
}

/// An earlier head, and the proof that its tree is the start of the later one.
#[derive(Clone, Copy)]
pub struct EarlierHead<'a> {
    /// The earlier head.
    pub head: &'a [u8],
    /// The proof; not needed if both heads have the same size.
    pub consistency: Option<&'a Consistency>,
}

/// Verifies the log. Needs no network.
pub fn verify(input: &LogInput<'_>, stopwatch: Option<Stopwatch>) -> LogReport {
    let mut check_log = CheckLog::new();
    if let Some(stopwatch) = stopwatch {
        check_log = check_log.with_stopwatch(stopwatch);
    }
    let mut verified_head = None;
    let outcome = run_checks(input, &mut check_log, &mut verified_head);
    if let Err(refusal) = &outcome {
        check_log.fail(refusal.row, refusal.code.code(), refusal.observed.clone());
    }
    let best = match input.expectations.origin() {
        KeyOrigin::Attested(verdict) => verdict,
        KeyOrigin::Named => Verdict::Signed,
    };
    report::report(
        outcome.err().as_ref(),
        verified_head.as_ref(),
        best,
        check_log.into_rows(),
    )
}

/// Appraises the evidence that came with a head, as of the head's own time: the key that signs a log, without any receipt.
///
/// Returns expectations only if the evidence passed and the head names its document. `crls` holds
/// revocation lists of that time in DER, one after another; it may be empty, unless the policy requires them.
pub fn attest(
    head: &SignedHead,
    crls: &[u8],
    policy: &Policy,
    stopwatch: Option<Stopwatch>,
) -> (attestation::AttestationReport, Option<Expectations>) {
    // Unverified: a false time changes the appraised moment, and the signature check under the attested key exposes it.
    let parsed = TreeHead::parse(&head.head).ok().map(|(head, _)| head);
    let time = UnixMillis::from_seconds(parsed.map_or(0, |head| head.time));
    let (mut report, verified) = Appraisal::of(&head.document)
        .with_manifest(&head.manifest)
        .with_crls(crls)
        .with_stopwatch(stopwatch)
        .verify(policy, Freshness::Audit { time });
    let attested = verified.including_simulated();
    // An unreadable head is refused by its own row.
    let named = |attested: &VerifiedAttestation| {
        parsed.is_none_or(|head| head.document == attested.document_sha256())
    };
    if attested.as_ref().is_some_and(|attested| !named(attested)) {
        let code = LogCode::HeadEvidenceMismatch;
        report.verdict = Verdict::Refused;
        report.code = Some(code.code().to_owned());
        report.message = Some(
            "The head names another attestation document than the one that came with it."
                .to_owned(),
        );
        report.remedy = Some(code.remedy().to_owned());
        return (report, None);
    }
    (report, attested.map(|attested| Expectations::of(&attested)))
}

fn run_checks(
    input: &LogInput<'_>,
    check_log: &mut CheckLog<LogCheck>,
    verified_head: &mut Option<TreeHead>,
) -> Result<(), LogRefusal> {
    let head = check_head(input.head, input.expectations, check_log)?;
    *verified_head = Some(head);
    let no_receipt = "No receipt was asked about";
    match &input.leaf {
        Some(Leaf::Receipt(logged)) => {
            let data = receipt_hash(logged.bytes);
            let number = logged.claims.sequence_number;
            if number == 0 {
                return Err(LogRefusal::new(
                    LogCheck::Number,
                    LogCode::NumberMismatch,
                    "the receipt has number 0, and leaf 0 holds the keys",
                ));
            }
            check_inclusion(&data, number, logged.inclusion, &head, check_log)?;
            check_time(logged.claims, &head, check_log)?;
        }
        Some(Leaf::Keys(keys)) => {
            check_inclusion(
                &keys_hash(keys.manifest),
                0,
                keys.inclusion,
                &head,
                check_log,
            )?;
            check_log.skip(LogCheck::Time, no_receipt);
        }
        None => {
            for row in [LogCheck::Number, LogCheck::Included, LogCheck::Time] {
                check_log.skip(row, no_receipt);
            }
        }
    }
    match &input.earlier {
        Some(earlier) => check_consistency(earlier, &head, input.expectations, check_log),
        None => {
            check_log.skip(LogCheck::Earlier, "No earlier head was given");
            check_log.skip(LogCheck::Consistent, "No earlier head was given");
            Ok(())
        }
    }
}

/// Rows 1 to 3.
fn check_head(
    bytes: &[u8],
    expectations: &Expectations,
    check_log: &mut CheckLog<LogCheck>,
) -> Result<TreeHead, LogRefusal> {
    let head = TreeHead::verify(bytes).map_err(|error| {
        let (row, code) = match error {
            HeadError::Signature => (LogCheck::Signature, LogCode::HeadSigFailed),
            _ => (LogCheck::Head, LogCode::HeadMalformed),
        };
        if row == LogCheck::Signature {
            check_log.pass(LogCheck::Head, format!("{} bytes", bytes.len()));
        }
        LogRefusal::new(row, code, error.to_string())
    })?;
    // RFC 8259 §6: a report must never show a number other than the signed one.
    if head.size.max(head.time) > LARGEST_EXACT {
        let observed = "a number above 2^53 - 1";
        return Err(LogRefusal::new(
            LogCheck::Head,
            LogCode::HeadMalformed,
            observed,
        ));
    }
    check_log.pass(LogCheck::Head, format!("{} bytes", bytes.len()));
    check_log.pass(
        LogCheck::Signature,
        format!("Key {}…", &hex(&head.log)[..16]),
    );
    let key = expectations.key().bytes();
    check_log.expect(LogCheck::Log, hex(key));
    if head.log != *key {
        return Err(LogRefusal::new(
            LogCheck::Log,
            LogCode::HeadOtherLog,
            hex(&head.log),
        ));
    }
    check_log.pass(LogCheck::Log, hex(&head.log));
    Ok(head)
}

/// Rows 4 and 5.
fn check_inclusion(
    data: &Hash,
    number: u64,
    inclusion: &Inclusion,
    head: &TreeHead,
    check_log: &mut CheckLog<LogCheck>,
) -> Result<(), LogRefusal> {
    // The proof could be for another leaf's position. A receipt's number is signed with it, and keys come first.
    check_log.expect(LogCheck::Number, format!("Leaf {number}"));
    if inclusion.index != number {
        let observed = format!("the proof is of leaf {}", inclusion.index);
        return Err(LogRefusal::new(
            LogCheck::Number,
            LogCode::NumberMismatch,
            observed,
        ));
    }
    check_log.pass(LogCheck::Number, format!("Leaf {number}"));
    merkle::verify::inclusion(data, number, head.size, &inclusion.path, &head.root).map_err(
        |error| LogRefusal::new(LogCheck::Included, LogCode::of(error), error.to_string()),
    )?;
    check_log.pass(
        LogCheck::Included,
        format!(
            "In the tree of {} leaves, by a path of {}",
            head.size,
            inclusion.path.len()
        ),
    );
    Ok(())
}

/// Row 6.
fn check_time(
    claims: &ReceiptClaims,
    head: &TreeHead,
    check_log: &mut CheckLog<LogCheck>,
) -> Result<(), LogRefusal> {
    if head.time.saturating_add(CLOCK_SKEW_SECONDS) < claims.issued_at {
        let observed = format!("{} s before the receipt", claims.issued_at - head.time);
        return Err(LogRefusal::new(
            LogCheck::Time,
            LogCode::HeadTooEarly,
            observed,
        ));
    }
    check_log.pass(
        LogCheck::Time,
        UnixMillis::from_seconds(head.time).to_string(),
    );
    Ok(())
}

/// Rows 7 and 8.
fn check_consistency(
    earlier: &EarlierHead<'_>,
    head: &TreeHead,
    expectations: &Expectations,
    check_log: &mut CheckLog<LogCheck>,
) -> Result<(), LogRefusal> {
    let refuse =
        |code: LogCode, observed: String| LogRefusal::new(LogCheck::Earlier, code, observed);
    let before = TreeHead::verify(earlier.head).map_err(|error| {
        let code = match error {
            HeadError::Signature => LogCode::HeadSigFailed,
            _ => LogCode::HeadMalformed,
        };
        refuse(code, error.to_string())
    })?;
    if before.log != *expectations.key().bytes() {
        return Err(refuse(LogCode::HeadOtherLog, hex(&before.log)));
    }
    check_log.pass(
        LogCheck::Earlier,
        format!(
            "{} leaves at {}",
            before.size,
            UnixMillis::from_seconds(before.time)
        ),
    );
    let refuse =
        |code: LogCode, observed: String| LogRefusal::new(LogCheck::Consistent, code, observed);
    let path = match earlier.consistency {
        Some(proof) if (proof.from, proof.to) != (before.size, head.size) => {
            let observed = format!(
                "a proof from {} to {} leaves, heads of {} and {}",
                proof.from, proof.to, before.size, head.size
            );
            return Err(refuse(LogCode::SizesMismatch, observed));
        }
        Some(proof) => proof.path.as_slice(),
        // RFC 9162 §2.1.4: from an empty tree, and from a tree to itself, the proof is empty.
        None if before.size == 0 || before.size == head.size => &[],
        // A smaller tree is refused without a proof.
        None if before.size > head.size => &[],
        None => {
            return Err(refuse(
                LogCode::ConsistencyMissing,
                "no proof from the earlier head to this one".to_owned(),
            ));
        }
    };
    merkle::verify::consistency(&before.tree(), &head.tree(), path)
        .map_err(|error| refuse(LogCode::of(error), error.to_string()))?;
    check_log.pass(
        LogCheck::Consistent,
        format!("{} leaves, then {}", before.size, head.size),
    );
    Ok(())
}
