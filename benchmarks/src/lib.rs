//! Benchmarks: the record of a run, the published figures as records, and the drivers that make new ones.
//!
//! | module | answers |
//! | --- | --- |
//! | [`record`] | what a record is; the one source of its JSON Schema and its TypeScript types |
//! | [`catalogue`] | which subjects exist, and in which dimension |
//! | [`published`], [`guide`] | the published format's fields as subjects, and what its guide says of a figure |
//! | [`json`], [`schema`], [`reading`], [`problem`] | whether a file is a record, and if not, where and why |
//! | [`typescript`] | the same types for the page |
//! | [`statistics`], [`machine`] | what a sample says, and what it was measured on |
//! | [`suite`] | the benchmarks themselves |
//! | [`peer`] | other implementations of the model, as processes that are asked line by line |
//! | [`workload`], [`worker`] | the aggregation workloads, here and in a simulated enclave |
//! | [`counts`] | how many instructions the hot paths take, against a baseline |
//! | [`beside`] | every published table, with ours beside each row |
//! | [`compare`], [`slo`], [`report`] | what came out, beside something; [`document`] writes it in three styles |
#![forbid(unsafe_code)]

/// A table of data, a row a line: what `$make` makes of the cells of each. rustfmt leaves the rows as they stand.
macro_rules! table {
    ($make:path: $($($cell:expr),+;)+) => {
        &[$($make($($cell),+)),+]
    };
}

pub mod beside;
pub mod catalogue;
pub mod compare;
pub mod cost;
pub mod counts;
pub mod document;
pub mod guide;
pub mod json;
mod judge;
pub mod machine;
pub mod peer;
pub mod problem;
pub mod published;
pub mod reading;
pub mod record;
pub mod report;
pub mod schema;
pub mod slo;
pub mod statistics;
pub mod suite;
pub mod typescript;
pub mod worker;
pub mod workload;
