//! A kit that judges verifiers of AWS Nitro Enclaves attestation documents (`testing/conformance/README.md`).
//!
//! | module | holds |
//! | --- | --- |
//! | [`kit`] | the vectors, generated deterministically from the catalogue of `forge` |
//! | [`referenced`] | genuine and derived documents that are stored elsewhere, by path and hash |
//! | [`protocol`] | the questions to a verifier and its answers, one line of JSON each |
//! | [`project_verifier`] | this project's verifier behind that protocol |
//! | [`runner`] | runs a verifier's adapter over the kit |
//! | [`peers`] | adapters of public verifiers, and how each is installed |
//! | [`table`] | where verifiers differ, as a page |

#![forbid(unsafe_code)]

pub mod kit;
pub mod peers;
pub mod project_verifier;
pub mod protocol;
pub mod referenced;
pub mod runner;
pub mod table;

mod appraisal;
mod fixture;
