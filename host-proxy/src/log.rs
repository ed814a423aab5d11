//! The transparency log of the enclave's receipts: pulled from the enclave, kept in one file, proven to whoever asks.
//!
//! The host cannot change what it keeps without showing it: heads are signed inside the enclave, over roots that the
//! enclave computed itself. What it keeps here lets it answer; what it loses, it can no longer explain. So a head is
//! served only after everything that it covers is on disk, and a file that does not agree with itself is reported and
//! left as it is.

mod check;
mod error;
mod file;
mod load;
mod proofs;
mod pull;
mod serve;
mod store;
mod thin;

pub(crate) use pull::follow;
pub(crate) use serve::routes;

pub use check::Checked;
pub use error::LogError;
pub use store::{Batch, Store};
