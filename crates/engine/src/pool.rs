//! Inference threads behind a bounded queue: async callers wait, and computations never block the runtime.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `job` | the progress of a request |
//! | `queue` | which request is next, and which requests form a batch |
//! | `threads` | how threads compute batches, and how failures are contained |
//! | `turns` | which of several models computes next |
//!
//! A request is computed in slices, and the request with the least remaining work is next. A request far shorter than the batches
//! on all threads is computed on one additional thread, concurrently with them. So long batches, however many, delay a short text
//! little. Waiting short requests are encoded together, but only while that makes them cheaper, and only up to each idle thread's
//! share: a batch never waits to fill up. The queue's lock is held only to push and pop, never to compute.

mod job;
mod queue;
mod threads;
mod turns;

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use job::Job;
use threads::Shared;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::Encoder;
pub use turns::Turns;

/// Limits on queued work and waiting time.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Cost ([`Encoder::cost`], in tokens) admitted and not yet encoded, over all requests; at least that of the model's longest
    /// text. A request may exceed it if nothing else waits, and so may one that costs at most a slice; the caller limits the
    /// number of requests in flight.
    pub queue_tokens: usize,
    /// Tokens of a slice, after which another request may be next.
    pub slice_tokens: usize,
    /// Short requests are combined up to this many tokens: beyond it, a product is not faster per row, and all requests of the
    /// batch would only wait longer.
    pub fill_tokens: usize,
    /// Time limit of a request.
    pub deadline: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            queue_tokens: 65_536,
            slice_tokens: 128,
            fill_tokens: 128,
            deadline: Duration::from_secs(30),
        }
    }
}

/// Dedicated inference threads. Dropping the pool lets them finish the queue and end.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` threads that share `encoder`, and one more for requests far shorter than those being computed.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub fn start(
        encoder: Arc<dyn Encoder>,
        threads: usize,
        limits: PoolLimits,
    ) -> std::io::Result<Self> {
        Self::start_with_turns(encoder, threads, limits, None)
    }

    /// Like [`start`](Self::start), for one of several models that take `turns`. Only the additional thread computes without one.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_with_turns(
        encoder: Arc<dyn Encoder>,
        threads: usize,
        limits: PoolLimits,
        turns: Option<Arc<Turns>>,
    ) -> std::io::Result<Self> {
        let mut pool = Self {
            shared: Arc::new(Shared::new(encoder, limits, turns.map(Turns::join))),
            threads: Vec::with_capacity(threads.max(1) + 1),
        };
        // If a thread cannot be started, dropping the pool ends those before it.
        let mut start = |name: String, run: fn(&Shared, usize)| {
            let (shared, number) = (Arc::clone(&pool.shared), pool.threads.len());
            let thread = std::thread::Builder::new().name(name);
            pool.threads
                .push(thread.spawn(move || run(&shared, number))?);
            Ok::<_, std::io::Error>(())
        };
        for number in 0..threads.max(1) {
            start(format!("inference-{number}"), Shared::run)?;
        }
        start("inference-express".to_owned(), Shared::run_express)?;
        Ok(pool)
    }

    /// The deadline of a request that starts now.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.shared.limits.deadline
    }

    /// Encodes `sequences` before [`deadline`](Self::deadline), or an earlier one if given; returns one row of
    /// [`Encoder::dimension`] floats each, in order.
    ///
    /// Dropping the future withdraws the request; slices that have not started are not computed.
    ///
    /// # Errors
    /// [`PoolError`]: refused immediately if too much is queued, not finished by the deadline, or failed.
    pub async fn encode(
        &self,
        sequences: Vec<Vec<u32>>,
        deadline: Instant,
    ) -> Result<Zeroizing<Vec<f32>>, PoolError> {
        if sequences.is_empty() {
            return Ok(Zeroizing::default());
        }
        let (reply, answer) = oneshot::channel();
        let cost = |length| self.shared.encoder.cost(length);
        self.shared
            .admit(Job::new(sequences, cost, deadline, reply))?;
        let withdrawal = Withdrawal(Some(&self.shared));
        match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(outcome) => {
                withdrawal.disarm();
                outcome.unwrap_or(Err(PoolError::Failed))
            }
            // A running computation continues; slices that have not started are withdrawn.
            Err(_) => Err(PoolError::Deadline),
        }
    }

    /// Whether requests can be computed.
    pub fn health(&self) -> Health {
        let limit = self.shared.limits.deadline;
        if self.threads.iter().any(JoinHandle::is_finished) {
            Health::Ended
        } else if self
            .shared
            .oldest_start()
            .is_some_and(|begun| begun.elapsed() > limit)
        {
            Health::Stuck
        } else {
            Health::Sound
        }
    }

    /// The encoder that the threads run.
    pub fn encoder(&self) -> &dyn Encoder {
        &*self.shared.encoder
    }

    /// Sets the `observer` of queueing and computing times. Later calls have no effect.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observer.get_or_init(|| observer);
    }

    /// Cost admitted and not yet encoded, in tokens.
    pub fn pending_tokens(&self) -> usize {
        self.shared.lock().pending()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().close();
        self.shared.work.notify_all();
        self.shared.express.notify_all();
    }
}

/// State of the pool's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Every thread waits for work or computes.
    Sound,
    /// A thread has ended.
    Ended,
    /// A batch has been computed for longer than a whole request may take.
    Stuck,
}

/// Frees queue space as soon as a waiting caller is cancelled.
struct Withdrawal<'a>(Option<&'a Shared>);

impl Withdrawal<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        // The await's receiver has been dropped by now, which marks the request as withdrawn.
        if let Some(shared) = self.0 {
            shared.lock().drop_withdrawn();
        }
    }
}

/// Receives durations. Called on inference threads, so it must not block.
pub trait Observer: Send + Sync {
    /// A request waited this long for its first slice.
    fn queued(&self, time: Duration);

    /// A batch took this long to compute.
    fn computed(&self, time: Duration);
}

/// Why a request was not encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
pub enum PoolError {
    /// The queue is full.
    #[error("too much text is waiting")]
    #[coded("ENGINE_BUSY", remedy = "Try again after the time in retry-after.")]
    Busy {
        /// Estimated time until the queue has room, in whole seconds, at least one.
        retry_after: Duration,
    },
    /// The request missed its deadline.
    #[error("the request was not finished in time")]
    #[coded("ENGINE_DEADLINE", remedy = "Send fewer or shorter texts.")]
    Deadline,
    /// The encoder failed or panicked.
    #[error("the request could not be computed")]
    #[coded(
        "ENGINE_FAILED",
        remedy = "Try again; report the failure if it persists."
    )]
    Failed,
}
