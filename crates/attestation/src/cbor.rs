//! Strict, bounded CBOR (RFC 8949): a pull reader that never allocates, and a deterministic writer.
//!
//! The reader supports only the types that evidence uses: integers, byte and text strings, arrays, maps, tags, null and booleans.
//! It compares every declared length with the rest of the input before any other use, refuses reserved additional
//! information (28 to 30, RFC 8949 §3) and chunked strings, and bounds nesting.

mod reader;
mod writer;

pub use reader::{CborError, Container, Kind, Reader, Rules};
pub use writer::Writer;

/// Deepest nesting that [`Reader::skip`] follows.
pub const MAX_DEPTH: u8 = 16;
