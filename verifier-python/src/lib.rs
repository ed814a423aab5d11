//! Native part of the Python package `clearseal`. Every verdict comes from `attestation` and `clearseal-client`. The public API
//! is in `python/clearseal/`.
#![allow(
    missing_docs,
    reason = "names and documentation for users are in python/clearseal"
)]

mod error;
mod judge;
mod session;

/// `clearseal._clearseal`.
#[pyo3::pymodule]
mod _clearseal {
    #[pymodule_export]
    use crate::judge::{judge_bundle, judge_document, judge_vector};
    #[pymodule_export]
    use crate::session::{Answer, NativeSession, Task};
}
