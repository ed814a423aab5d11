//! The allocator: with musl's own the tokenizer takes two to three times as long.
//!
//! The one foreign call: mimalloc keeps what is freed for the next time, and what loading a model frees is more than
//! serving it ever needs.

#![allow(unsafe_code)]

/// What the program allocates with.
pub use mimalloc::MiMalloc as Allocator;

/// Hands memory that this thread freed back to the system. Does nothing in a program with another allocator.
pub fn give_back() {
    // SAFETY: it takes a plain flag ("also what is still fresh"), touches free memory alone, and may be called by any
    // thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
