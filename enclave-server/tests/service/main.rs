//! The whole service in one process, driven through its routers as clients drive it.

mod common;
mod interop;
mod outer;
mod private;
mod sealed;
