//! Benchmarks: the record of a run, the published figures as records, and the suites that create new ones.
//!
//! | module | answers |
//! | --- | --- |
//! | [`record`] | the format of a record; the only source of its JSON Schema and its TypeScript types |
//! | [`catalogue`] | which subjects exist, and in which dimension |
//! | [`published`], [`guide`] | the published format's fields as subjects, and what its guide says of a figure |
//! | [`json`], [`schema`], [`reading`], [`problem`] | whether a file is a valid record, and if not, where and why |
//! | [`typescript`] | the same types for the page |
//! | [`statistics`], [`machine`] | statistics of a sample, and the machine it was measured on |
//! | [`suite`] | the benchmarks themselves |
//! | [`peer`] | other implementations of the model, as processes with a line protocol |
//! | [`workload`], [`worker`] | the aggregation workloads, here and in a simulated enclave |
//! | [`counts`] | how many instructions the hot paths take, against a baseline |
//! | [`comparison`] | every published table, each row compared with our figures |
//! | [`compare`], [`slo`], [`report`] | results compared with another run, with service levels, with the reports; [`document`]
//! writes them in three formats |
#![forbid(unsafe_code)]

/// A table of data with one row per line; `$make` builds the value of each row. rustfmt leaves the rows as they are.
macro_rules! table {
    ($make:path: $($($cell:expr),+;)+) => {
        &[$($make($($cell),+)),+]
    };
}

pub mod catalogue;
pub mod compare;
pub mod comparison;
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
