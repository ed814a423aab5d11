//! Errors of building blocks and of searches.

use crate::{MAX_DIMENSIONS, MAX_ROWS};

/// Why vectors or a search were refused. Contains no value of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ScanError {
    /// The number of dimensions is 0 or too large.
    #[error("vectors have {dimensions} dimensions; 1 to {MAX_DIMENSIONS} are supported")]
    #[coded(
        "VECTOR_DIMENSIONS",
        remedy = "Use vectors of 1 to 4096 dimensions, or let the model shorten them."
    )]
    Dimensions {
        /// Dimensions of the vectors.
        dimensions: usize,
    },
    /// Too many rows for one block.
    #[error("a block has {rows} rows; at most {MAX_ROWS} are supported")]
    #[coded("VECTORS_TOO_MANY", remedy = "Split the rows into several blocks.")]
    TooManyRows {
        /// Rows of the block.
        rows: usize,
    },
    /// The length is not that of whole rows.
    #[error(
        "the vectors have a length of {length}, which does not match their dimensions and number"
    )]
    #[coded(
        "VECTOR_LENGTH",
        remedy = "Send every vector with as many numbers as the index has dimensions."
    )]
    Length {
        /// Floats or bytes given.
        length: usize,
    },
    /// A number is NaN or infinite.
    #[error("vector {row} has a number that is not finite")]
    #[coded("VECTOR_NOT_FINITE", remedy = "Send finite numbers only.")]
    NotFinite {
        /// Row, or query of a search.
        row: usize,
    },
    /// A number is too large for the precision.
    #[error("vector {row} has a number that is too large for the precision")]
    #[coded(
        "VECTOR_OUT_OF_RANGE",
        remedy = "Scale the vectors to unit length, or store them as f32."
    )]
    OutOfRange {
        /// Row of the number.
        row: usize,
    },
    /// Stored bytes that no block writes.
    #[error("stored vector {row} has a form that is never written")]
    #[coded(
        "VECTORS_MALFORMED",
        remedy = "The stored index is damaged; restore it, or build it again from its texts."
    )]
    Malformed {
        /// Row of the bytes.
        row: usize,
    },
    /// A query has another number of dimensions than a block.
    #[error("query {query} has another number of dimensions than block {block}")]
    #[coded(
        "QUERY_DIMENSIONS",
        remedy = "Send queries with as many numbers as the index has dimensions."
    )]
    Query {
        /// Number of the query.
        query: usize,
        /// Number of the block.
        block: usize,
    },
    /// A bitmap covers another number of rows than its block has.
    #[error("the bitmap of block {block} covers another number of rows")]
    #[coded("LIVE_ROWS", remedy = "Report this as a defect of the index.")]
    Live {
        /// Number of the block.
        block: usize,
    },
}
