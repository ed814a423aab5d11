//! A counting allocator, for tests that bound memory and work. Counts each thread separately, so that tests can run
//! in parallel.

#![allow(
    unsafe_code,
    dead_code,
    unreachable_pub,
    reason = "`GlobalAlloc` is an unsafe trait; everything is passed on to the system's allocator as it came"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Set it as `#[global_allocator]` in a test binary.
pub struct Counting;

/// Memory used by some work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Most bytes held at once, in addition to those held before.
    pub peak: usize,
    /// Bytes of all allocations together.
    pub total: usize,
    /// Number of allocations, including reallocations.
    pub count: usize,
}

thread_local! {
    // Constant initialisers and no destructors: nothing here allocates.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static TOTAL: Cell<usize> = const { Cell::new(0) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` and returns its memory use on this thread.
pub fn cost<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let before = LIVE.get();
    PEAK.set(before);
    TOTAL.set(0);
    COUNT.set(0);
    let result = work();
    let cost = Cost {
        peak: usize::try_from(PEAK.get() - before).unwrap_or(0),
        total: TOTAL.get(),
        count: COUNT.get(),
    };
    (result, cost)
}

fn grow(bytes: usize) {
    // Sizes of live allocations fit an isize (`Layout`).
    LIVE.set(LIVE.get().wrapping_add_unsigned(bytes));
    PEAK.set(PEAK.get().max(LIVE.get()));
    TOTAL.set(TOTAL.get().wrapping_add(bytes));
    COUNT.set(COUNT.get() + 1);
}

fn shrink(bytes: usize) {
    LIVE.set(LIVE.get().wrapping_sub_unsigned(bytes));
}

// SAFETY: each call goes to `System` with the caller's own arguments, which keep its contract; counting touches thread
// locals alone, and neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may exist at the same time.
        grow(size);
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
