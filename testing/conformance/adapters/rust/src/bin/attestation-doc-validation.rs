//! Adapter for attestation-doc-validation, which uses the current time: the adapter overrides the process's clock.

use attestation_doc_validation::validate_attestation_doc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    adapters::answer_all(|document, time| {
        clock::set(time);
        validate_attestation_doc(document).map_err(|error| error.to_string())
    })
}

/// Replaces this program's `clock_gettime`, which every clock read goes through.
mod clock {
    use std::ffi::{c_int, c_long};
    use std::sync::atomic::{AtomicU64, Ordering};

    static NOW: AtomicU64 = AtomicU64::new(0);

    /// Unix milliseconds.
    pub(super) fn set(now: u64) {
        NOW.store(now, Ordering::Relaxed);
    }

    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: c_long,
    }

    // SAFETY: name and signature are those of POSIX; the program's own symbol takes precedence over the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn clock_gettime(_: c_int, time: *mut Timespec) -> c_int {
        let now = NOW.load(Ordering::Relaxed);
        let (seconds, milliseconds) = (now / 1000, now % 1000);
        // SAFETY: the caller passes a pointer to a writable `timespec`, as POSIX requires.
        unsafe {
            (*time).seconds = seconds.cast_signed();
            (*time).nanoseconds = milliseconds.cast_signed() as c_long * 1_000_000;
        }
        0
    }
}
