//! The transparency log of the enclave's receipts: pulled from the enclave, stored in one file, proven to anyone who asks.
//!
//! The host cannot change the log unnoticed: heads are signed inside the enclave, over roots that the enclave computed. The
//! stored leaves are the host's only answer to a request for a proof. So a head is served only after everything that it covers
//! is on disk, and a file that is inconsistent is reported and left unchanged.

mod check;
mod error;
mod file;
mod load;
mod proofs;
mod pull;
mod serve;
mod store;
mod thin;
mod unchanged;

pub(crate) use file::{begin_write, builder};
pub(crate) use pull::follow;
pub(crate) use serve::routes;
pub(crate) use store::{catch_panics, sync_folder};

pub use check::Checked;
pub use error::LogError;
pub use store::{Batch, Store};
