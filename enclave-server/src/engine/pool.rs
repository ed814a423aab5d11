//! Inference threads behind a bounded queue: async callers wait, computations never block the runtime.
//!
//! A request is worked off in slices of some hundred word pieces and goes to the back of the queue between slices, so
//! a long batch delays a short text by a slice, not by itself. The queue's lock is held to push and pop, never to compute.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Encoder;

/// How much may wait, and how long.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Word pieces admitted and not yet encoded, over all requests. One request may exceed it when nothing else waits.
    pub queue_tokens: usize,
    /// Word pieces of a slice: what is encoded before another request gets its turn.
    pub slice_tokens: usize,
    /// After this long a request is given up.
    pub deadline: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            queue_tokens: 65_536,
            slice_tokens: 512,
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
    /// Starts `threads` threads that share `encoder`.
    ///
    /// # Errors
    /// Whatever the system says where a thread cannot be started.
    pub fn start(
        encoder: Arc<dyn Encoder>,
        threads: usize,
        limits: PoolLimits,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            encoder,
            limits,
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                pending: 0,
                closed: false,
            }),
            work: Condvar::new(),
            nanos_per_token: AtomicU64::new(100_000),
            threads: threads.max(1) as u64,
        });
        let threads = (0..threads.max(1))
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("inference-{number}"))
                    .spawn(move || shared.run())
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { shared, threads })
    }

    /// Encodes `sequences`; returns one row of [`Encoder::dimension`] floats each, in order.
    ///
    /// Dropping the future withdraws the request: what was not computed yet never will be.
    ///
    /// # Errors
    /// [`PoolError`]: refused at once when the queue is full, given up at the deadline, or failed.
    pub async fn encode(&self, sequences: Vec<Vec<u32>>) -> Result<Vec<f32>, PoolError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        self.shared
            .admit(Job::new(sequences, self.shared.limits.deadline, reply))?;
        answer.await.unwrap_or(Err(PoolError::Failed))
    }

    /// The encoder that the threads run.
    pub fn encoder(&self) -> &dyn Encoder {
        &*self.shared.encoder
    }

    /// Word pieces admitted and not yet encoded.
    pub fn pending_tokens(&self) -> usize {
        self.shared.lock().pending
    }

    /// Finishes what is queued and ends the threads; blocks until they did.
    pub fn shut_down(mut self) {
        self.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    code = "INFERENCE_THREAD_DIED",
                    "an inference thread ended by a panic"
                );
            }
        }
    }

    fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why a request got no embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Too much is waiting already.
    #[error("ENGINE_BUSY: too much text is waiting; try again in {} s", retry_after.as_secs())]
    Busy {
        /// When the queue will probably have room, whole seconds, at least one.
        retry_after: Duration,
    },
    /// It took longer than the deadline.
    #[error("ENGINE_DEADLINE: the request was not finished in time; send fewer or shorter texts")]
    Deadline,
    /// The encoder failed or panicked.
    #[error("ENGINE_FAILED: the request could not be computed")]
    Failed,
    /// The server is going down.
    #[error("ENGINE_CLOSED: the service is shutting down; try again")]
    Closed,
}

struct Shared {
    encoder: Arc<dyn Encoder>,
    limits: PoolLimits,
    queue: Mutex<Queue>,
    work: Condvar,
    /// Moving average of one thread, for `retry-after`.
    nanos_per_token: AtomicU64,
    threads: u64,
}

struct Queue {
    jobs: VecDeque<Job>,
    pending: usize,
    closed: bool,
}

impl Shared {
    fn admit(&self, job: Job) -> Result<(), PoolError> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(PoolError::Closed);
        }
        if queue.pending > 0 && queue.pending + job.pending > self.limits.queue_tokens {
            return Err(PoolError::Busy {
                retry_after: self.wait_for(queue.pending),
            });
        }
        queue.pending += job.pending;
        queue.jobs.push_back(job);
        drop(queue);
        self.work.notify_one();
        Ok(())
    }

    fn wait_for(&self, tokens: usize) -> Duration {
        let nanos = self
            .nanos_per_token
            .load(Ordering::Relaxed)
            .saturating_mul(tokens as u64)
            / self.threads;
        Duration::from_secs(Duration::from_nanos(nanos).as_secs().clamp(1, 60))
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            self.advance(job);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Encodes one slice of `job`, and queues what is left of it.
    fn advance(&self, mut job: Job) {
        // A client that went away, or has waited too long, costs no inference.
        if job.reply.is_closed() {
            return self.settle(job, Err(PoolError::Failed));
        }
        if Instant::now() >= job.deadline {
            return self.settle(job, Err(PoolError::Deadline));
        }
        let slice = job.slice(self.limits.slice_tokens);
        let views: Vec<&[u32]> = job.order[slice.clone()]
            .iter()
            .map(|index| job.sequences[*index].as_slice())
            .collect();
        let tokens: usize = views.iter().map(|view| view.len()).sum();
        let started = Instant::now();
        // A panic must cost this request, not the thread.
        let rows = match catch_unwind(AssertUnwindSafe(|| self.encoder.encode(&views))) {
            Ok(Ok(rows)) => rows,
            Ok(Err(error)) => {
                tracing::error!(code = "ENGINE_FAILED", %error, "a slice was not encoded");
                return self.settle(job, Err(PoolError::Failed));
            }
            Err(_) => {
                tracing::error!(code = "ENGINE_PANICKED", "the encoder panicked");
                return self.settle(job, Err(PoolError::Failed));
            }
        };
        self.observe(started.elapsed(), tokens);
        job.store(slice, &rows, self.encoder.dimension());
        self.lock().pending -= tokens;
        job.pending -= tokens;
        if job.done < job.order.len() {
            self.lock().jobs.push_back(job);
            self.work.notify_one();
        } else {
            let rows = std::mem::take(&mut job.rows);
            self.settle(job, Ok(rows));
        }
    }

    fn settle(&self, job: Job, outcome: Result<Vec<f32>, PoolError>) {
        self.lock().pending -= job.pending;
        // The receiver may be gone; then nobody wants the outcome.
        job.reply.send(outcome).ok();
    }

    fn observe(&self, elapsed: Duration, tokens: usize) {
        let sample = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / (tokens as u64).max(1);
        let before = self.nanos_per_token.load(Ordering::Relaxed);
        // A lost update between threads only makes the average a little older.
        self.nanos_per_token
            .store((before * 7 + sample) / 8, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing under the lock can leave the queue half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Job {
    sequences: Vec<Vec<u32>>,
    /// Positions by length: neighbours in a slice need little padding.
    order: Vec<usize>,
    done: usize,
    rows: Vec<f32>,
    pending: usize,
    deadline: Instant,
    reply: oneshot::Sender<Result<Vec<f32>, PoolError>>,
}

impl Job {
    fn new(
        sequences: Vec<Vec<u32>>,
        deadline: Duration,
        reply: oneshot::Sender<Result<Vec<f32>, PoolError>>,
    ) -> Self {
        let mut order: Vec<_> = (0..sequences.len()).collect();
        order.sort_by_key(|index| sequences[*index].len());
        let pending = sequences.iter().map(Vec::len).sum();
        Self {
            sequences,
            order,
            done: 0,
            rows: Vec::new(),
            pending,
            deadline: Instant::now() + deadline,
            reply,
        }
    }

    /// The next positions in `order`, at least one, of at most `budget` word pieces in all.
    fn slice(&self, budget: usize) -> std::ops::Range<usize> {
        let mut tokens = 0;
        let count = self.order[self.done..]
            .iter()
            .take_while(|index| {
                tokens += self.sequences[**index].len();
                tokens <= budget
            })
            .count();
        self.done..self.done + count.max(1)
    }

    fn store(&mut self, slice: std::ops::Range<usize>, rows: &[f32], dimension: usize) {
        self.rows.resize(self.sequences.len() * dimension, 0.0);
        for (index, row) in self.order[slice.clone()]
            .iter()
            .zip(rows.chunks_exact(dimension))
        {
            self.rows[index * dimension..][..dimension].copy_from_slice(row);
        }
        self.done = slice.end;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::engine::EncodeError;

    /// Answers with the first token, and waits for a permit a call.
    struct Gated {
        calls: AtomicUsize,
        permits: Mutex<usize>,
        opened: Condvar,
    }

    impl Gated {
        fn closed() -> Arc<Self> {
            Arc::new(Self {
                calls: AtomicUsize::new(0),
                permits: Mutex::new(0),
                opened: Condvar::new(),
            })
        }

        fn open(&self, permits: usize) {
            *self.permits.lock().unwrap() += permits;
            self.opened.notify_all();
        }
    }

    impl Encoder for Gated {
        fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let mut permits = self.permits.lock().unwrap();
            while *permits == 0 {
                permits = self.opened.wait(permits).unwrap();
            }
            *permits -= 1;
            drop(permits);
            assert!(sequences[0][0] != 666, "told to");
            Ok(sequences
                .iter()
                .flat_map(|sequence| [sequence[0] as f32, sequence.len() as f32])
                .collect())
        }
        fn dimension(&self) -> usize {
            2
        }
        fn max_tokens(&self) -> usize {
            100
        }
        fn vocabulary(&self) -> usize {
            1000
        }
        fn name(&self) -> &'static str {
            "gated"
        }
    }

    fn limits() -> PoolLimits {
        PoolLimits {
            queue_tokens: 20,
            slice_tokens: 6,
            deadline: Duration::from_secs(60),
        }
    }

    async fn until(mut condition: impl FnMut() -> bool) {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn rows_come_back_in_order_whatever_the_slices() {
        let encoder = Gated::closed();
        encoder.open(100);
        let pool = Pool::start(encoder.clone(), 2, limits()).unwrap();
        let sequences: Vec<Vec<u32>> = [5, 1, 4, 2, 3]
            .iter()
            .map(|length| vec![*length; *length as usize])
            .collect();
        let rows = pool.encode(sequences).await.unwrap();
        assert_eq!(rows, [5., 5., 1., 1., 4., 4., 2., 2., 3., 3.]);
        assert!(
            encoder.calls.load(Ordering::SeqCst) >= 3,
            "15 tokens are at least 3 slices of 6"
        );
        assert_eq!(pool.pending_tokens(), 0);
        pool.shut_down();
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let encoder = Gated::closed();
        let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
        let first = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.encode(vec![vec![1; 15]]).await }
        });
        until(|| encoder.calls.load(Ordering::SeqCst) == 1).await;
        let Err(PoolError::Busy { retry_after }) = pool.encode(vec![vec![2; 6]]).await else {
            panic!("admitted")
        };
        assert!(retry_after >= Duration::from_secs(1));
        encoder.open(10);
        assert!(first.await.unwrap().is_ok());
        assert!(pool.encode(vec![vec![2; 6]]).await.is_ok(), "room again");
    }

    #[tokio::test]
    async fn a_withdrawn_request_is_never_computed() {
        let encoder = Gated::closed();
        let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
        let spawn = |token: u32| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { pool.encode(vec![vec![token; 4]]).await })
        };
        let first = spawn(1);
        until(|| encoder.calls.load(Ordering::SeqCst) == 1).await;
        let second = spawn(2);
        until(|| pool.pending_tokens() == 8).await;
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        encoder.open(10);
        assert!(first.await.unwrap().is_ok());
        until(|| pool.pending_tokens() == 0).await;
        assert_eq!(encoder.calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_long_batch_lets_a_short_text_pass() {
        let encoder = Gated::closed();
        let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
        let long = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.encode(vec![vec![1; 5]; 3]).await }
        });
        until(|| encoder.calls.load(Ordering::SeqCst) == 1).await;
        let short = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.encode(vec![vec![2; 2]]).await }
        });
        until(|| pool.pending_tokens() == 17).await;
        encoder.open(2);
        assert_eq!(short.await.unwrap().unwrap(), [2., 2.], "second in turn");
        assert!(!long.is_finished());
        encoder.open(2);
        assert!(long.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn the_deadline_is_kept() {
        let encoder = Gated::closed();
        encoder.open(10);
        let pool = Pool::start(
            encoder.clone(),
            1,
            PoolLimits {
                deadline: Duration::ZERO,
                ..limits()
            },
        )
        .unwrap();
        assert_eq!(pool.encode(vec![vec![1]]).await, Err(PoolError::Deadline));
        assert_eq!(encoder.calls.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_panic_costs_one_request_and_no_thread() {
        let encoder = Gated::closed();
        encoder.open(10);
        let pool = Pool::start(encoder, 1, limits()).unwrap();
        assert_eq!(pool.encode(vec![vec![666]]).await, Err(PoolError::Failed));
        assert!(pool.encode(vec![vec![1]]).await.is_ok());
        assert_eq!(pool.pending_tokens(), 0);
        pool.shut_down();
    }
}
