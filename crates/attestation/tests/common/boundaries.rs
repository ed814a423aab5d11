//! The bounds of every refusal: accepted vectors on one side, refused ones on the other.
//!
//! Every code has a row, and every row names vectors on both sides; a test walks the table. Those inside must pass the
//! check, and for each code at least one of them is accepted as a whole: it is the refused document with that one error
//! corrected. `docs/CHECKS.md` is generated from this table.

mod appraisal;
mod chain;
mod document;
mod revocation;

use super::{appraisal_cases, judged_at_another_moment};
use attestation::{Appraisal, ErrorCode, Row, RowId, RowState};
use fixtures::{Fixture, NOW};
use std::collections::BTreeMap;

/// One bound of one check.
pub struct Boundary {
    /// The refusal beyond it.
    pub code: ErrorCode,
    /// The bound in words: accepted, then refused.
    pub bound: &'static str,
    /// Vectors that pass this check.
    pub within: &'static [&'static str],
    /// Vectors that this check refuses with this code.
    pub beyond: &'static [&'static str],
}

/// The vector for check 17, which needs the stages called one by one with different moments.
pub const TWO_MOMENTS: &str = "chain-and-age-at-two-moments";

const fn at(
    code: ErrorCode,
    bound: &'static str,
    within: &'static [&'static str],
    beyond: &'static [&'static str],
) -> Boundary {
    Boundary {
        code,
        bound,
        within,
        beyond,
    }
}

/// All bounds, in the order of the codes.
pub fn boundaries() -> impl Iterator<Item = &'static Boundary> {
    [
        document::BOUNDARIES,
        chain::BOUNDARIES,
        revocation::BOUNDARIES,
        appraisal::BOUNDARIES,
    ]
    .into_iter()
    .flatten()
}

/// The result of every vector, by name: its code, if it was refused, and its rows.
pub fn judged() -> BTreeMap<&'static str, (Option<String>, Vec<Row>)> {
    let fixture = Fixture::new();
    let mut judged = BTreeMap::new();
    for vector in forge::vectors() {
        let document = fixture.forged(vector.apply);
        let report = Appraisal::of(&document).inspect(&fixture.anchor, NOW);
        judged.insert(vector.name, (report.code, report.checks));
    }
    for vector in forge::crl_vectors() {
        let (document, crls) = fixture.with_lists(vector);
        let report = Appraisal::of(&document)
            .with_crls(&crls)
            .inspect(&fixture.anchor, NOW);
        judged.insert(vector.name, (report.code, report.checks));
    }
    for case in appraisal_cases() {
        let (report, _) = case.judge();
        judged.insert(case.name, (report.code, report.checks));
    }
    let (error, rows) = judged_at_another_moment();
    judged.insert(TWO_MOMENTS, (Some(error.code().to_string()), rows));
    judged
}

/// State of the row of `code` among `rows`.
pub fn state(code: ErrorCode, rows: &[Row]) -> RowState {
    rows.iter()
        .find(|row| row.id == code.check().number())
        .unwrap()
        .state
}
