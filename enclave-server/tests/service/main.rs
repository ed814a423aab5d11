//! The whole service in one process, driven through its routers as clients drive it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod bulk;
mod channel;
mod chunked;
#[path = "../common/mod.rs"]
mod common;
mod forms;
mod index_rerank;
mod indexes;
mod interop;
mod log;
mod openapi;
mod outer;
mod private;
mod prompts;
mod queue;
mod rerank;
mod sealed;
mod several;
mod steps;
mod stop;
mod strangers;
mod time;
