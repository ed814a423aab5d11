//! An index of vectors for a host that may store it but not read it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`IndexKey`], [`IndexId`] | the client's secret, and the public name that is derived from it |
//! | [`Row`], [`Change`], [`Metadata`], [`Filter`] | what a client writes, and how it chooses among rows |
//! | [`Index`] | an opened index: immutable, cheap to clone. [`stage`](Index::stage) gives the next one, and what to store first |
//! | [`Opening`] | opens a stored index, its segments in any order and on any thread |
//! | [`Statement`], [`RowProof`], [`AbsenceProof`] | what an answer says about its index, and proofs of single rows under it |
//!
//! # Stored form
//!
//! A host stores objects, each sealed under a key that is derived from the index key and the object's name. *Segments* hold rows and
//! never change. A *state* names the segments of one version of the index, the rows of them that were replaced or deleted, and the
//! root of the map over all rows. A change writes at most one segment, and then the state of the next version under
//! a name that must not exist yet: the change has happened when that state is stored, and not before.
//!
//! Every version has a *head*, a hash over the head before it and its root. A client that remembers a head recognises an older
//! version ([`HistoryError::RolledBack`]) and another history ([`HistoryError::Forked`]).
//!
//! `docs/INDEX.md` defines every byte. No clock, no randomness, no I/O and no logging: the caller supplies random bytes and moves objects.

#![forbid(unsafe_code)]

mod block;
mod codec;
mod compact;
mod error;
mod filter;
mod history;
mod index;
mod key;
mod map;
mod metadata;
mod object;
mod opening;
mod proof;
mod row;
mod serde_bytes;
mod settings;
mod state;

pub use block::OpenedSegment;
pub use compact::Scope;
pub use error::{ChangeError, FilterError, HistoryError, IndexError, ProofError};
pub use filter::Filter;
pub use index::{Found, Index, Staged, Writes};
pub use key::{IndexId, IndexKey};
pub use metadata::{MAX_METADATA, Metadata, Value};
pub use object::{MAX_OBJECT, ObjectName};
pub use opening::{Opening, SegmentToOpen};
pub use proof::{AbsenceProof, Disclosed, Head, Proof, RowProof, Statement};
pub use row::{Change, MAX_ID, MAX_TEXT, Row, RowRef};
pub use scan::{Precision, ScanError};
pub use settings::Settings;

/// SHA-256.
pub type Hash = [u8; 32];
