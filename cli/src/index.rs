//! `clearseal index`: keeps all rows of an index to one model, prompt and dimension.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `identity` | which statements all rows of an index share |
//! | `check` | whether given rows are verified, and of one index |
//! | `migrate` | how an index is embedded again |
//! | `folder` | where an interrupted migration continues |

mod check;
mod folder;
mod identity;
mod migrate;

pub(crate) use check::check;
pub(crate) use identity::{Identity, IndexError};
pub(crate) use migrate::migrate;
