//! Form of a report: the same rows in the browser, in the terminal and in JSON.
//!
//! A [`CheckLog`] starts with every row *not run*. Only the code that made a check can mark its row, so a step that
//! was skipped by mistake stays visible and is never counted as passed.

use std::marker::PhantomData;

use serde::Serialize;

/// State of one row. A required row in any state but [`Passed`](RowState::Passed) keeps the seal open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "kebab-case")]
pub enum RowState {
    /// Not checked yet, or skipped after an earlier refusal.
    NotRun,
    /// Checked, and as expected.
    Passed,
    /// Checked, and the reason for the refusal.
    Failed,
    /// An informational check failed; never decides a verdict.
    Warning,
    /// Left out by the caller's choice (for example, no nonce is known when old evidence is audited).
    Skipped,
}

/// One check, and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Number of the check in its crate's table; unique within its report.
    pub id: u8,
    /// Stable kebab-case name.
    pub name: String,
    /// Stage of the check: `document`, `chain`, `image`, `binding` for attestation;
    /// `parse`, `signature`, `claims`, `policy` for receipts.
    pub stage: String,
    /// The question in plain words, sentence case.
    pub title: String,
    /// Whether this verdict needs the row to pass. Revocation is needed if the policy requires it, or a list was given.
    pub required: bool,
    /// Its result.
    pub state: RowState,
    /// Stable error code, if the row failed.
    pub code: Option<String>,
    /// The expected value.
    pub expected: String,
    /// The observed value; empty until the row ran.
    pub observed: String,
    /// Clause that requires the check.
    pub clause: String,
    /// Duration of the check in microseconds, if the caller supplied a stopwatch.
    pub micros: Option<f64>,
}

/// The static part of a [`Row`]; each crate lists its rows in one table.
#[derive(Clone, Copy, Debug)]
pub struct RowSpec {
    /// See [`Row::id`].
    pub id: u8,
    /// See [`Row::name`].
    pub name: &'static str,
    /// See [`Row::stage`].
    pub stage: &'static str,
    /// See [`Row::title`].
    pub title: &'static str,
    /// See [`Row::required`].
    pub required: bool,
    /// See [`Row::expected`]; a check may state it more exactly when it runs.
    pub expected: &'static str,
    /// See [`Row::clause`].
    pub clause: &'static str,
}

/// Identifies the rows of one kind of report: an enum and its table.
pub trait RowId: Copy {
    /// Every row, in the order in which the checks run.
    const SPECS: &'static [RowSpec];

    /// See [`Row::id`].
    fn number(self) -> u8;
}

/// Records which checks ran, in the order of their table.
///
/// This crate has no clock: to measure durations, pass a stopwatch that returns microseconds since any fixed moment.
pub struct CheckLog<I> {
    rows: Vec<Row>,
    named: PhantomData<I>,
    stopwatch: Option<Box<dyn Fn() -> f64>>,
    lap: f64,
}

impl<I: RowId> Default for CheckLog<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: RowId> CheckLog<I> {
    /// Every row, not run.
    pub fn new() -> Self {
        let rows = I::SPECS
            .iter()
            .map(|spec| Row {
                id: spec.id,
                name: spec.name.to_owned(),
                stage: spec.stage.to_owned(),
                title: spec.title.to_owned(),
                required: spec.required,
                state: RowState::NotRun,
                code: None,
                expected: spec.expected.to_owned(),
                observed: String::new(),
                clause: spec.clause.to_owned(),
                micros: None,
            })
            .collect();
        Self {
            rows,
            ..Self::unrecorded()
        }
    }

    /// No rows: for callers that need the outcome of checks and no report.
    pub fn unrecorded() -> Self {
        Self {
            rows: Vec::new(),
            named: PhantomData,
            stopwatch: None,
            lap: 0.0,
        }
    }

    /// Also measures each check: `stopwatch` returns microseconds since any fixed moment.
    #[must_use]
    pub fn with_stopwatch(mut self, stopwatch: impl Fn() -> f64 + 'static) -> Self {
        self.lap = stopwatch();
        self.stopwatch = Some(Box::new(stopwatch));
        self
    }

    /// Marks a row as passed, with the observed value.
    pub fn pass(&mut self, row: I, observed: impl Into<String>) {
        self.settle(row, RowState::Passed, None, observed.into());
    }

    /// Marks a row as the reason for a refusal.
    pub fn fail(&mut self, row: I, code: &str, observed: impl Into<String>) {
        self.settle(
            row,
            RowState::Failed,
            Some(code.to_owned()),
            observed.into(),
        );
        let id = row.number();
        let mut rows = self.rows.iter_mut().skip_while(|row| row.id != id);
        if let Some(row) = rows.next() {
            row.required = true;
        }
        // A later stage may refuse a check that an earlier stage made: the rows that follow were not run.
        for row in rows {
            row.state = RowState::NotRun;
            row.observed.clear();
        }
    }

    /// Marks a row as left out by the caller's choice, with the reason.
    pub fn skip(&mut self, row: I, why: impl Into<String>) {
        self.settle(row, RowState::Skipped, None, why.into());
    }

    /// Marks a row that this verdict does not need, with the reason why it was not checked, or not completely.
    pub fn waive(&mut self, row: I, why: impl Into<String>) {
        self.skip(row, why);
        if let Some(row) = self.find(row) {
            row.required = false;
        }
    }

    /// Marks an informational row that failed.
    pub fn warn(&mut self, row: I, observed: impl Into<String>) {
        self.settle(row, RowState::Warning, None, observed.into());
    }

    /// States more exactly what a row expects, now that the inputs are known.
    pub fn expect(&mut self, row: I, expected: impl Into<String>) {
        if let Some(row) = self.find(row) {
            row.expected = expected.into();
        }
    }

    /// The rows so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Ends the record.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    fn find(&mut self, row: I) -> Option<&mut Row> {
        let id = row.number();
        self.rows.iter_mut().find(|row| row.id == id)
    }

    fn settle(&mut self, row: I, state: RowState, code: Option<String>, observed: String) {
        let micros = self.stopwatch.as_ref().map(|now| {
            let now = now();
            let lap = now - self.lap;
            self.lap = now;
            lap
        });
        if let Some(row) = self.find(row) {
            // A failed row stays failed, whatever a later stage reports.
            if row.state == RowState::Failed {
                return;
            }
            row.state = state;
            row.code = code;
            row.observed = observed;
            row.micros = match (row.micros, micros) {
                (Some(before), Some(lap)) => Some(before + lap),
                (before, lap) => before.or(lap),
            };
        }
    }
}

/// Proof that checks 1 to 25, and 27 if it was required, passed under AWS's root and a policy that did not come with the
/// evidence. An audit leaves out age and nonce (24). Only [`AppraisedAttestation::bind`](crate::AppraisedAttestation::bind) makes one; it
/// cannot be deserialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

impl Proof {
    /// The only call is in `binding.rs`, below the last of the checks.
    pub(crate) const fn of_all_checks() -> Self {
        Self(())
    }
}

/// Result of the evidence as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Checks 1 to 25, and 27 if it was required, passed, under AWS's root and a policy that is built in or was chosen by hand.
    Verified(#[serde(skip_serializing)] Proof),
    /// Every required check passed, but under a development root or a policy that came with the evidence: proves
    /// nothing.
    Simulated,
    /// Signed under the root that the caller named, which is genuine hardware if that is AWS's root. The image, its age or
    /// its keys were not appraised.
    Authentic,
    /// A receipt or a log that matches a key which the user typed: shows who signed, not that an enclave did.
    Signed,
    /// At least one required check failed or did not run.
    Refused,
}

impl Verdict {
    /// Name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verified(_) => "verified",
            Self::Simulated => "simulated",
            Self::Authentic => "authentic",
            Self::Signed => "signed",
            Self::Refused => "refused",
        }
    }
}

/// Appraisal of one attestation document, with everything that a reader needs to follow it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct AttestationReport {
    /// The outcome.
    pub verdict: Verdict,
    /// Stable code of the refusal.
    pub code: Option<String>,
    /// The outcome in one sentence.
    pub message: Option<String>,
    /// The next step for the reader, in one sentence.
    pub remedy: Option<String>,
    /// The moment for which validity was judged, Unix milliseconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub judged_at_ms: u64,
    /// Every check, in the order in which they run. Those after a refusal did not run.
    pub checks: Vec<Row>,
    /// Conclusions for a reader, each in a separate sentence.
    pub statements: Vec<Statement>,
    /// The applied policy, if any.
    pub policy: Option<PolicyView>,
    /// Contents of the document, as far as it could be parsed. Untrusted unless the chain stage passed.
    pub document: Option<DocumentView>,
    /// The certificate chain, root first, as far as it could be parsed.
    pub chain: Vec<CertificateView>,
    /// The service manifest that the document binds.
    pub manifest: Option<ManifestView>,
}

impl AttestationReport {
    /// The report for a client that does not accept simulations: turns the verdict *simulated* into a refusal.
    #[must_use]
    pub fn refuse_simulation(mut self) -> Self {
        if self.verdict == Verdict::Simulated {
            self.verdict = Verdict::Refused;
            self.code = Some("SIMULATION_REFUSED".to_owned());
            self.message = Some(
                "The enclave is simulated, or its policy came with the evidence, so anyone may read what is sent to it."
                    .to_owned(),
            );
            self.remedy = Some(
                "Send nothing, unless this is your own development service and you allow simulation by name."
                    .to_owned(),
            );
        }
        self
    }
}

/// One of four separate conclusions: hardware, code, key, and what none of them proves.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    /// `hardware`, `code`, `key` or `limits`.
    pub about: String,
    /// Whether all checks that this sentence rests on passed. Always false for `limits`.
    pub holds: bool,
    /// The sentence. It is true whatever `holds` says.
    pub text: String,
}

/// Summary of the applied policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// Its name.
    pub name: String,
    /// `aws` or `development`.
    pub root: String,
    /// `built-in` (compiled into the verifier), `chosen` (by hand) or `evidence` (came with the evidence).
    pub origin: String,
    /// Name of the release whose measurements matched.
    pub release: Option<String>,
}

/// Contents of an attestation document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct DocumentView {
    /// SHA-256 of the document's bytes, hex.
    pub sha256: String,
    /// Size in bytes.
    pub size: u32,
    /// `module_id`.
    pub module_id: String,
    /// `timestamp`, Unix milliseconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub timestamp_ms: u64,
    /// PCR0, 1 or 2 is all zero: the enclave's console can be read from outside.
    pub debug: bool,
    /// Platform configuration registers in ascending order.
    pub pcrs: Vec<PcrView>,
    /// `nonce`, hex; absent if the document says null.
    pub nonce: Option<String>,
    /// `user_data`, hex.
    pub user_data: Option<String>,
    /// `public_key`, hex.
    pub public_key: Option<String>,
}

/// One platform configuration register.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct PcrView {
    /// 0..=31.
    pub index: u8,
    /// Content that AWS measures into it; empty for registers without a fixed meaning.
    pub role: String,
    /// Observed value, 96 hex digits.
    pub value: String,
    /// Value pinned by the matching release, or by the closest one on a mismatch; absent if unpinned.
    pub expected: Option<String>,
    /// All 48 bytes are zero.
    pub zero: bool,
}

/// One certificate of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct CertificateView {
    /// `root`, `regional`, `zonal`, `instance`, `leaf`; `ca` if the chain has another length.
    pub role: String,
    /// Subject, RFC 4514.
    pub subject: String,
    /// Issuer, RFC 4514.
    pub issuer: String,
    /// Serial number, hex.
    pub serial: String,
    /// notBefore, Unix seconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub not_before: u64,
    /// notAfter, Unix seconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub not_after: u64,
    /// basicConstraints CA.
    pub ca: bool,
    /// pathLenConstraint, if present.
    pub path_length: Option<u8>,
    /// keyUsage bits by their RFC 5280 names.
    pub key_usage: Vec<String>,
    /// SHA-256 of the DER, hex.
    pub sha256: String,
    /// The certificate, base64 DER.
    pub der: String,
}

/// Summary of the service manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct ManifestView {
    /// SHA-256 of the manifest's bytes, hex.
    pub sha256: String,
    /// Names of the key encapsulation mechanisms on offer, in order of preference.
    pub kems: Vec<String>,
    /// Ed25519 receipt key, hex.
    pub receipt_key: String,
    /// Model id.
    pub model_id: String,
    /// Model version.
    pub model_version: String,
    /// SHA-256 of the model's artifact set, hex.
    pub model_sha256: String,
    /// Length of an embedding.
    pub dimension: u32,
    /// Longest text that is not truncated, in tokens.
    pub max_tokens: u32,
    /// Whether embeddings have unit length.
    pub normalised: bool,
    /// Version of the policy that the service runs under.
    pub policy_version: String,
    /// `production` or `evaluation`.
    pub security_mode: String,
    /// Start of validity, Unix seconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub not_before: u64,
    /// End of validity, Unix seconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub not_after: u64,
}
