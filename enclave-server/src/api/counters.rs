//! `GET /v1/counters`, inside the seal: how much this enclave has answered, in its own word.
//!
//! Plain metrics cross the host, which can invent them. What is in a sealed answer is from the attested enclave. Anybody may ask,
//! so nothing here tells of one request. Powers of two alone do not ensure that: a caller could send requests of its own until
//! a counter is one below a power, and then see the moment of the next request, and whether it was refused. So a power of two is
//! shown once the count has reached a secret number between it and the next power, another one for each counter and power.

use std::hash::{BuildHasher as _, RandomState};
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
    computed: Count,
    answered: Count,
    refused: Count,
    failed: Count,
}

/// A count, and the key of the secret numbers at which what is shown of it moves.
#[derive(Default)]
struct Count {
    exact: AtomicU64,
    thresholds: RandomState,
}

/// Least that is shown, apart from 0. Below, a single request would be too likely to be the one that moves a counter.
const LEAST: u64 = 64;

impl Count {
    fn increase(&self) {
        self.exact.fetch_add(1, Ordering::Relaxed);
    }

    /// A power of two that the count has reached, or 0.
    fn at_least(&self) -> u64 {
        self.shown_of(self.exact.load(Ordering::Relaxed))
    }

    fn shown_of(&self, count: u64) -> u64 {
        let Some(power) = count.checked_ilog2().map(|power| 1 << power) else {
            return 0;
        };
        match (count >= self.threshold(power), power > LEAST) {
            _ if power < LEAST => 0,
            (true, _) => power,
            (false, true) => power / 2,
            (false, false) => 0,
        }
    }

    /// From `power` to below twice of it, each as likely.
    fn threshold(&self, power: u64) -> u64 {
        power + self.thresholds.hash_one(power) % power
    }
}

impl Counters {
    fn count(&self, response: &Response) {
        let status = response.status();
        let ended = match status.as_u16() {
            ..400 => &self.0.answered,
            400..500 => &self.0.refused,
            500.. => &self.0.failed,
        };
        ended.increase();
        if response.extensions().get::<Inference>().is_some() {
            self.0.computed.increase();
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

/// Each a power of two that was reached, 64 at least, or 0. The count is less than four times as large, or below 128.
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
    Json(Body {
        object: "counters",
        at_least: AtLeast {
            computed: counts.computed.at_least(),
            answered: counts.answered.at_least(),
            refused: counts.refused.at_least(),
            failed: counts.failed.at_least(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_was_reached_and_is_not_far_below() {
        let count = Count::default();
        let mut last = 0;
        for exact in 0..5_000 {
            let shown = count.shown_of(exact);
            assert!(shown <= exact && shown >= last, "{exact}: {shown}");
            assert!(exact < 128 || shown > exact / 4, "{exact}: {shown}");
            assert!(shown == 0 || shown.is_power_of_two() && shown >= LEAST);
            last = shown;
        }
        assert_eq!(count.shown_of(u64::MAX).count_ones(), 1);
    }

    #[test]
    fn no_one_knows_at_which_request_a_counter_moves() {
        let moves = |power: u64| {
            let found: std::collections::BTreeSet<_> =
                (0..64).map(|_| Count::default().threshold(power)).collect();
            assert!(found.iter().all(|at| (power..2 * power).contains(at)));
            found.len()
        };
        assert!(moves(64) > 20);
        assert!(moves(1 << 40) > 60);
    }
}
