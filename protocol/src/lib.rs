//! What crosses a wire between a client and the enclave, each layout and limit said once.
//!
//! | module | holds |
//! | --- | --- |
//! | [`ohttp`] | sealing of requests and responses (RFC 9458) |
//! | [`inner`], [`padme`] | the HTTP message inside the seal (RFC 9292) and its padding |
//! | [`commitment`] | salted hashes of request and response |
//!
//! Time and randomness are inputs: nothing here has a clock, does I/O, or logs.

pub mod commitment;
pub mod inner;
pub mod ohttp;
pub mod padme;
