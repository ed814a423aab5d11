//! Nothing here depends on the time of day.

mod pool;
mod queue;

use std::time::Duration;

use super::{Client, PoolLimits};

const ONE: Client = Client(1);
const TWO: Client = Client(2);

fn limits() -> PoolLimits {
    PoolLimits {
        queue_tokens: 20,
        slice_tokens: 6,
        fill_tokens: 4,
        deadline: Duration::from_secs(3600),
    }
}
