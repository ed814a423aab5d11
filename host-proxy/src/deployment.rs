//! The deployment's log: one tree over the keys of all enclaves, heads of their logs, releases, pages and policies, which witnesses
//! cosign (docs/WITNESS.md).
//!
//! | module | holds |
//! | --- | --- |
//! | `key` | the log's key, and the identifier of the file that belongs to it |
//! | `store` | records, tree and checkpoints in one file |
//! | `publisher` | batches of records, and their cosignatures |
//! | `submit` | requests to witnesses |
//! | `files` | records from a folder, and tiles in a folder |
//! | `serve` | the public endpoints |
//!
//! The log's key opens nothing and attests nothing: it states that this tree is the log's.

mod error;
mod files;
mod key;
mod publisher;
mod serve;
mod store;
mod submit;

pub(crate) use publisher::Deployment;
pub(crate) use serve::routes;

pub use error::DeploymentError;
pub use key::{LogKey, init};
pub use store::{DeploymentStore, Verified};
pub use submit::WitnessPlace;
