//! Clocks for the duration of checks and for channels.

use attestation::Stopwatch;
use protocol::channel::MonotonicMillis;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    // Available in windows, workers and Node; milliseconds with a fraction.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
}

/// Microseconds since the page was loaded.
pub(crate) fn stopwatch() -> Stopwatch {
    Box::new(|| performance_now() * 1_000.0)
}

/// Monotonic milliseconds since the page was loaded.
pub(crate) fn steady() -> MonotonicMillis {
    // Deliberately truncated, and never negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    MonotonicMillis(performance_now() as u64)
}
