//! Exact search in memory: the `k` rows with the largest dot products with a query, over blocks of vectors.
//!
//! | part | is |
//! | --- | --- |
//! | [`Vectors`] | an immutable block of rows in one [`Precision`] |
//! | [`Live`] | the rows of a block that take part |
//! | [`search`] | the `k` best rows of several blocks for each of several queries |
//!
//! The crate knows vectors and threads: no ids, keys, seals, clock or I/O.
//!
//! # Exactness
//!
//! The score of a row is the dot product of its stored values ([`Vectors::row`]) and the query: `f64` products, which are exact,
//! added in `f64` in the order of the dimensions to 0, and the sum rounded to the nearest `f32` (−0 becomes 0; a sum beyond
//! `f32`'s range becomes infinite). The result is exactly the `k` rows with the largest scores among all rows that take part,
//! rows of equal score in the caller's order. It does not depend on processor, threads or the division into blocks.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use scan::{Block, Precision, Vectors, search};
//!
//! # fn main() -> Result<(), scan::ScanError> {
//! let vectors = Vectors::from_f32(2, Precision::F32, &[1.0, 0.0, 0.0, 1.0, 0.6, 0.8])?;
//! let blocks = [Block { vectors: &vectors, live: None }];
//! let hits = search(&blocks, &[&[1.0, 0.0]], 2, NonZeroUsize::MIN, &|a, b| a.cmp(&b))?;
//! assert_eq!(hits[0].iter().map(|hit| (hit.row, hit.score)).collect::<Vec<_>>(), [(0, 1.0), (2, 0.6)]);
//! # Ok(())
//! # }
//! ```

mod candidates;
mod error;
mod isa;
mod kernels;
mod live;
mod panels;
mod precision;
mod query;
mod search;
mod vectors;

pub use error::ScanError;
pub use isa::Isa;
pub use live::Live;
pub use precision::Precision;
pub use search::{Block, Hit, Ties, search, search_on};
pub use vectors::Vectors;

/// Largest number of dimensions.
pub const MAX_DIMENSIONS: usize = 4096;

/// Largest number of rows of a block.
pub const MAX_ROWS: usize = u32::MAX as usize;
