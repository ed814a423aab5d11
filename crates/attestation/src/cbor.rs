//! Strict, bounded CBOR (RFC 8949): a pull reader that never allocates, and a deterministic writer.
//!
//! The reader knows only what evidence needs: integers, byte and text strings, arrays, maps, tags, null and booleans.
//! A declared length is compared with what is left of the input before anything else happens, reserved additional
//! information (28 to 30, RFC 8949 §3) and chunked strings are refused, and nesting is bounded.

mod reader;
mod writer;

pub use reader::{CborError, Container, Kind, Reader, Rules};
pub use writer::Writer;

/// Deepest nesting that [`Reader::skip`] follows.
pub const MAX_DEPTH: u8 = 16;
