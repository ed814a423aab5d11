//! A kit that judges verifiers of AWS Nitro Enclaves attestation documents (`testing/conformance/README.md`).
//!
//! | module | holds |
//! | --- | --- |
//! | [`kit`] | the vectors: written from the catalogue of `forge`, byte for byte the same each time |
//! | [`referenced`] | genuine and derived documents that lie elsewhere, by path and hash |
//! | [`protocol`] | what a verifier is asked, and how it answers: one line of JSON each |
//! | [`own`] | this project's verifier behind that protocol |
//! | [`judge`] | runs a verifier's adapter over the kit |
//! | [`peers`] | adapters of public verifiers, and how each is installed |
//! | [`table`] | who differs where, as a page |

#![forbid(unsafe_code)]

pub mod judge;
pub mod kit;
pub mod own;
pub mod peers;
pub mod protocol;
pub mod referenced;
pub mod table;

mod appraisal;
mod scene;
