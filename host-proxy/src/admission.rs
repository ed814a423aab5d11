//! Fair admission: bounds on scarce resources, shared among sources.
//!
//! | type | bounds | a source at its limit | when all is in use |
//! | --- | --- | --- | --- |
//! | [`ConcurrencyLimit`] | sealed requests that the enclave works on | is refused | the source with the fewest permits is admitted next |
//! | [`FairQueue`] | documents and proofs made at once | has no limit | the source that was admitted least is admitted next |
//! | [`Quota`] | bytes in memory, connections, channels | is refused, or waits | new requests are refused, or wait |
//!
//! All three are policies of one [queue](queue), which holds the lock, the waiting requests and the permits.

mod concurrency_limit;
mod fair_queue;
mod queue;
mod quota;

pub(crate) use concurrency_limit::{ConcurrencyLimit, ConcurrencyPermit};
pub(crate) use fair_queue::FairQueue;
pub(crate) use quota::{Quota, Reservation};
