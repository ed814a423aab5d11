//! Inference threads behind a bounded queue: async callers wait, computations never block the runtime.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `job` | what of a request is done, and what comes next |
//! | `queue` | whose turn it is, and what goes into one batch |
//! | `threads` | who computes it, and what a failure costs |
//!
//! A request is worked off in slices, and between them the request with the least left goes first. A request far shorter than
//! what every thread computes is computed beside them by one thread more. So long batches, however many, delay a short text
//! little. Short requests that wait are encoded together, but only while that makes them cheaper, and
//! only as many as are left for each idle thread: a batch never waits to fill up. The queue's lock is held to push and
//! pop, never to compute.

mod job;
mod queue;
mod threads;

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::Encoder;
use job::Job;
use threads::Shared;

/// How much may wait, and how long.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Cost ([`Encoder::cost`], in tokens) admitted and not yet encoded, over all requests. One request may exceed it when
    /// nothing else waits, and so may each request of one slice; the caller bounds how many of those are in flight.
    pub queue_tokens: usize,
    /// Tokens of a slice: what is encoded before another request gets its turn.
    pub slice_tokens: usize,
    /// Short requests are put together up to this many tokens: from there on a product is no faster a row, and
    /// everybody in the batch would only wait longer.
    pub fill_tokens: usize,
    /// After this long a request is given up.
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

/// Dedicated inference threads. Dropping the pool lets them finish what is queued and end.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` threads that share `encoder`, and one more for requests far shorter than what those compute.
    ///
    /// # Errors
    /// Whatever the system says where a thread cannot be started.
    pub fn start(
        encoder: Arc<dyn Encoder>,
        threads: usize,
        limits: PoolLimits,
    ) -> std::io::Result<Self> {
        let mut pool = Self {
            shared: Arc::new(Shared::new(encoder, limits)),
            threads: Vec::with_capacity(threads.max(1) + 1),
        };
        // Dropping the pool, where a thread is refused, ends those before it.
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

    /// How long a request may take from now on.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.shared.limits.deadline
    }

    /// Encodes `sequences` before [`deadline`](Self::deadline), or one that was asked for earlier; returns one
    /// row of [`Encoder::dimension`] floats each, in order.
    ///
    /// Dropping the future withdraws the request: what was not computed yet never will be.
    ///
    /// # Errors
    /// [`PoolError`]: refused at once when too much waits, given up at the deadline, or failed.
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
                withdrawal.not_needed();
                outcome.unwrap_or(Err(PoolError::Failed))
            }
            // What is being computed goes on; what was not begun is withdrawn.
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
            .oldest()
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

    /// Has `observer` told how long requests wait and batches take. The first one stays.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observer.get_or_init(|| observer);
    }

    /// Tokens, or their equivalent in cost, admitted and not yet encoded.
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

/// State of a pool's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Every thread waits for work or computes.
    Sound,
    /// A thread has ended.
    Ended,
    /// One batch has been computed for longer than a whole request may take.
    Stuck,
}

/// Makes room at once when a caller goes away while it waits.
struct Withdrawal<'a>(Option<&'a Shared>);

impl Withdrawal<'_> {
    fn not_needed(mut self) {
        self.0 = None;
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        // The receiver, which the await owns, is gone already: that is how the queue tells.
        if let Some(shared) = self.0 {
            shared.lock().drop_withdrawn();
        }
    }
}

/// Is told how long things took. Called on inference threads, so it must not block.
pub trait Observer: Send + Sync {
    /// A request waited this long until its first slice was computed.
    fn queued(&self, time: Duration);

    /// A batch took this long to compute.
    fn computed(&self, time: Duration);
}

/// Why a request got no embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
pub enum PoolError {
    /// Too much is waiting already.
    #[error("too much text is waiting")]
    #[coded("ENGINE_BUSY", remedy = "Try again after the time in retry-after.")]
    Busy {
        /// When the queue will probably have room, whole seconds, at least one.
        retry_after: Duration,
    },
    /// It took longer than the deadline.
    #[error("the request was not finished in time")]
    #[coded("ENGINE_DEADLINE", remedy = "Send fewer or shorter texts.")]
    Deadline,
    /// The encoder failed or panicked.
    #[error("the request could not be computed")]
    #[coded("ENGINE_FAILED", remedy = "Ask again; report it if it stays.")]
    Failed,
}
