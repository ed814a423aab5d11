//! Addresses and time spans on the command lines of both servers, and the sockets that they listen on.
//!
//! Both servers depend on this crate, so it depends on no cryptography.
//!
//! ```
//! # use std::time::Duration;
//! use sockets::{ListenAddress, parse_duration};
//!
//! assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
//! assert_eq!("vsock:5005".parse(), Ok(ListenAddress::Vsock(5005)));
//! ```

#![forbid(unsafe_code)]

mod address;
mod duration;
mod listener;

pub use address::{EnclaveAddress, InvalidAddress, ListenAddress, ParentAddress};
pub use duration::parse_duration;
pub use listener::{BindError, Listener, Stream};
