//! Benchmarks: the record of a run, the published figures as records, and the drivers that make new ones.
//!
//! | module | answers |
//! | --- | --- |
//! | [`record`] | what a record is; the one source of its JSON Schema and its TypeScript types |
//! | [`catalogue`] | which subjects exist, in which dimension, and what the interpretation guide says of them |
//! | [`json`], [`schema`], [`reading`] | whether a file is a record, and if not, where and why |
//! | [`typescript`] | the same types for the page |
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod json;
pub mod reading;
pub mod record;
pub mod schema;
pub mod typescript;
