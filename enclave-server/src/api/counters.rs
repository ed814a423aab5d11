//! `GET /v1/counters`, inside the seal: how much this enclave has answered, in its own word.
//!
//! Plain metrics cross the host, which can invent them. What is in a sealed answer is from the attested enclave. Anybody may ask,
//! so nothing here tells of one request: a number is rounded down to a power of two, and moves when it has doubled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;

/// In the extensions of a response: the model ran for it, so it gets a receipt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inference;

/// Requests inside the seal since the start, by how they ended. Clones count together.
#[derive(Clone, Default)]
pub struct Counters(Arc<Counts>);

#[derive(Default)]
struct Counts {
    computed: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    fn count(&self, response: &Response) {
        let status = response.status();
        let ended = match status.as_u16() {
            ..400 => &self.0.answered,
            400..500 => &self.0.refused,
            500.. => &self.0.failed,
        };
        ended.fetch_add(1, Ordering::Relaxed);
        if response.extensions().get::<Inference>().is_some() {
            self.0.computed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts every request, whatever answers it.
pub(super) async fn observe(
    State(counters): State<Counters>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    counters.count(&response);
    response
}

/// Requests inside the seal since the enclave's start.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Counters"))]
#[derive(Serialize)]
pub(super) struct Body {
    #[cfg_attr(test, schemars(extend("const" = "counters")))]
    object: &'static str,
    at_least: AtLeast,
}

/// Each a power of two that was reached, or 0.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct AtLeast {
    /// Inferences; each has a receipt.
    computed: u64,
    /// Requests that were answered, inferences included.
    answered: u64,
    /// Requests that were refused for what they asked, or for want of room.
    refused: u64,
    /// Requests that failed in the enclave.
    failed: u64,
}

pub(super) async fn counters(State(counters): State<Counters>) -> Json<Body> {
    let Counters(counts) = counters;
    let at_least = |count: &AtomicU64| coarse(count.load(Ordering::Relaxed));
    Json(Body {
        object: "counters",
        at_least: AtLeast {
            computed: at_least(&counts.computed),
            answered: at_least(&counts.answered),
            refused: at_least(&counts.refused),
            failed: at_least(&counts.failed),
        },
    })
}

/// The largest power of two that `count` has reached.
fn coarse(count: u64) -> u64 {
    count.checked_ilog2().map_or(0, |power| 1 << power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_moves_when_it_has_doubled() {
        let rounded = [0, 1, 2, 3, 4, 7, 8, 1_000, u64::MAX].map(coarse);
        assert_eq!(rounded, [0, 1, 2, 2, 4, 4, 8, 512, 1 << 63]);
    }
}
