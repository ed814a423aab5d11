//! Tests without wall-clock assertions.

mod pool;
mod queue;

use std::time::Duration;

use super::PoolLimits;

fn limits() -> PoolLimits {
    PoolLimits {
        queue_tokens: 20,
        slice_tokens: 6,
        fill_tokens: 4,
        deadline: Duration::from_secs(3600),
    }
}
