//! The allocator, mimalloc: with musl's allocator the tokenizer takes two to three times as long.
//!
//! mimalloc keeps freed memory for reuse. Loading a model frees more than serving it ever needs, so the calls here return that
//! memory to the system.

#![allow(unsafe_code)]

/// The global allocator of the program.
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay`, which the bindings do not name: milliseconds until freed memory is returned to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// While this guard exists, freed memory is returned to the system at once, so that the peak of a load is no more than it uses at
/// one time. While serving, keeping freed memory for the next request is faster.
pub struct PurgingAllocator {
    before: std::ffi::c_long,
}

impl PurgingAllocator {
    /// Sets the purge delay to zero until the guard is dropped.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        // SAFETY: both functions take only numbers, and any thread may call them at any time; PURGE_DELAY is an option.
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

/// Returns memory that this thread freed to the system. Does nothing in a program with another allocator.
pub fn purge() {
    // SAFETY: it takes a flag (`force`), touches only free memory, and any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::{PURGE_DELAY, PurgingAllocator};

    #[test]
    fn the_purge_delay_is_set_and_restored() {
        // SAFETY: as in `PurgingAllocator::new`.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // The default; the neighbouring options have 1 and 0.
        let before = delay();
        assert!(before >= 10, "{before}");
        let purging = PurgingAllocator::new();
        assert_eq!(delay(), 0);
        drop(purging);
        assert_eq!(delay(), before);
    }
}
