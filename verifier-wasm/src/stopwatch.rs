//! Times of single checks, where JavaScript has a clock for them.

use attestation::Stopwatch;
use protocol::channel::MonotonicMillis;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    // Windows, workers and Node all have it; in milliseconds with a fraction.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
}

/// Microseconds since the page began.
pub(crate) fn stopwatch() -> Stopwatch {
    Box::new(|| performance_now() * 1_000.0)
}

/// The same in milliseconds: a clock that never goes back.
pub(crate) fn steady() -> MonotonicMillis {
    // Truncated on purpose, and never negative: the time since the page began.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    MonotonicMillis(performance_now() as u64)
}
