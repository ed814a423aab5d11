//! Sends sealed answers only at steps after their requests arrived, so that the host sees a step and not an exact duration.
//!
//! An answer waits after it is computed and before its receipt is signed, because the log would reveal the moment of the
//! signature. While it waits it holds only its content, neither the slot nor the memory in which it was computed.

use std::time::Duration;

use crate::{Clock, Moment};

/// Steps at which answers leave: the first, twice that, and so on until a step is a second or more; then every multiple of it.
///
/// Doubling reveals least: a request of a minute leaves at one of a few dozen moments. A wait grows with the request, and is
/// less than two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerSteps(Duration);

/// From this step on steps no longer double: a client should not wait for seconds.
const LONGEST: Duration = Duration::from_secs(1);

impl AnswerSteps {
    /// Steps from `first` on, clamped to between a millisecond and a second.
    pub fn new(first: Duration) -> Self {
        Self(first.clamp(Duration::from_millis(1), LONGEST))
    }

    /// First step at or after `taken`, the time from a request's arrival until its answer is ready.
    fn next_step(self, taken: Duration) -> Duration {
        let mut step = self.0;
        while step < taken && step < LONGEST {
            step *= 2;
        }
        let count = taken.as_nanos().div_ceil(step.as_nanos()).max(1);
        // The product is within a step of `taken`.
        Duration::from_nanos(u64::try_from(count * step.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Moment at which the last byte of a request was read, by the steady count. The host knows that moment. If steps counted from the
/// first byte, the host could move them by sending a request slowly.
#[derive(Clone, Copy)]
pub(super) struct Arrival(Duration);

/// The clock, and the steps at which answers leave.
pub(super) struct AnswerTiming {
    clock: Clock,
    pub(super) steps: Option<AnswerSteps>,
}

impl AnswerTiming {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, steps: None }
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Records that a request has been read to its end now.
    pub(super) fn arrival(&self) -> Arrival {
        Arrival(self.now().steady)
    }

    /// Drops `held`, the resources that only computing needs, and waits for the step at which the answer may leave.
    /// Without steps returns `held` at once.
    pub(super) async fn wait_for_step<T>(&self, arrival: Arrival, held: T) -> Option<T> {
        let Some(steps) = self.steps else {
            return Some(held);
        };
        drop(held);
        let taken = self.now().steady.saturating_sub(arrival.0);
        self.clock
            .wait_until(arrival.0.saturating_add(steps.next_step(taken)))
            .await;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn steps_double_and_then_repeat() {
        let steps = AnswerSteps::new(millis(10));
        for (taken, leaves) in [
            (0, 10),
            (1, 10),
            (10, 10),
            (11, 20),
            (41, 80),
            (640, 640),
            (641, 1280),
            (1281, 2560),
            (2561, 3840),
            (30_000, 30_720),
        ] {
            assert_eq!(steps.next_step(millis(taken)), millis(leaves), "{taken} ms");
        }
        let just_after = millis(10) + Duration::from_nanos(1);
        assert_eq!(steps.next_step(just_after), millis(20));
    }

    #[test]
    fn no_answer_leaves_early_or_waits_for_two_seconds() {
        for first in [0, 1, 3, 10, 999, 1000, 5000] {
            let steps = AnswerSteps::new(millis(first));
            for taken in (0..60_000).step_by(7) {
                let leaves = steps.next_step(millis(taken));
                assert!(leaves >= millis(taken), "{first} {taken}");
                assert!(leaves < millis(taken + 2000), "{first} {taken}");
            }
        }
    }

    #[test]
    fn a_minute_has_a_few_dozen_steps() {
        let steps = AnswerSteps::new(millis(10));
        let moments: std::collections::BTreeSet<_> = (0..60_000)
            .map(|taken| steps.next_step(millis(taken)))
            .collect();
        assert_eq!(moments.len(), 8 + 46);
    }
}
