//! The allocator: with musl's own the tokenizer takes two to three times as long.
//!
//! The foreign calls: mimalloc keeps what is freed for the next time, and what loading a model frees is more than serving it
//! ever needs.

#![allow(unsafe_code)]

/// What the program allocates with.
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay`, for which the bindings have no name: milliseconds until freed memory goes back to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// While it lives, memory that is freed goes back to the system at once, and the peak of a load is what it holds at one time. A
/// server that serves is faster if it keeps what it frees for the next request.
pub struct PurgingAllocator {
    before: std::ffi::c_long,
}

impl PurgingAllocator {
    /// From now on.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        // SAFETY: both take numbers alone, and may be called by any thread at any time; the number names an option.
        unsafe {
            let before = libmimalloc_sys::mi_option_get(PURGE_DELAY);
            libmimalloc_sys::mi_option_set(PURGE_DELAY, 0);
            Self { before }
        }
    }
}

impl Drop for PurgingAllocator {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, self.before) }
    }
}

/// Hands memory that this thread freed back to the system. Does nothing in a program with another allocator.
pub fn purge() {
    // SAFETY: it takes a plain flag ("also what is still fresh"), touches free memory alone, and may be called by any
    // thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::{PURGE_DELAY, PurgingAllocator};

    #[test]
    fn the_delay_is_the_option_of_that_number_and_comes_back() {
        // SAFETY: as in `PurgingAllocator::new`.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // Its default; the options beside it have 1 and 0.
        let before = delay();
        assert!(before >= 10, "{before}");
        let purging = PurgingAllocator::new();
        assert_eq!(delay(), 0);
        drop(purging);
        assert_eq!(delay(), before);
    }
}
