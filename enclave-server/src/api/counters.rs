//! `GET /v1/counters`, a private endpoint: how many requests this enclave has answered.
//!
//! Plaintext metrics pass through the host, which can invent them. A sealed answer comes from the attested enclave. Anyone may ask,
//! so the counters must not reveal a single request. Powers of two alone do not ensure that: a caller could send requests until a
//! counter is one below a power, and then see when the next request comes, and whether it is refused. So a power of two is shown
//! only once the count has reached a secret number between it and the next power, a different one for each counter and power.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use attestation::ModelIdentity;
use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;

/// Extension of a response for which a model ran, and whose receipt names that model.
#[derive(Clone, Debug)]
pub(super) struct Inference(pub(super) Arc<ModelIdentity>);

/// Private requests since the start, by outcome. Clones share their counts.
#[derive(Clone, Default)]
pub struct Counters(Arc<Counts>);

#[derive(Default)]
struct Counts {
    computed: Count,
    answered: Count,
    refused: Count,
    failed: Count,
}

/// A count, and the key of the secret thresholds at which its shown value changes.
#[derive(Default)]
struct Count {
    exact: AtomicU64,
    thresholds: RandomState,
}

/// Least value shown, apart from 0. For smaller values it would be too likely that a given request changes the counter.
const LEAST: u64 = 64;

impl Count {
    fn increase(&self) {
        self.exact.fetch_add(1, Ordering::Relaxed);
    }

    /// The shown value: a power of two that the count has reached, or 0.
    fn at_least(&self) -> u64 {
        self.shown_value(self.exact.load(Ordering::Relaxed))
    }

    fn shown_value(&self, count: u64) -> u64 {
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

    /// A number from `power` to below twice that, each with the same probability.
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

/// Counts every private request, also those that a layer answers.
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
    /// Requests that were refused because of their content, or because memory or queue were full.
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
    fn a_shown_value_was_reached_and_is_not_far_below() {
        let count = Count::default();
        let mut last = 0;
        for exact in 0..5_000 {
            let shown = count.shown_value(exact);
            assert!(shown <= exact && shown >= last, "{exact}: {shown}");
            assert!(exact < 128 || shown > exact / 4, "{exact}: {shown}");
            assert!(shown == 0 || shown.is_power_of_two() && shown >= LEAST);
            last = shown;
        }
        assert_eq!(count.shown_value(u64::MAX).count_ones(), 1);
    }

    #[test]
    fn the_request_at_which_a_counter_changes_is_secret() {
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
