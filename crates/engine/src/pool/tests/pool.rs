//! The pool's threads, with an encoder that waits for permits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use zeroize::Zeroizing;

use super::super::threads::Shared;
use super::super::{Health, Pool, PoolError, PoolLimits, Turns};
use super::limits;
use crate::{EncodeError, Encoder};

/// Returns first token and length of each sequence, and waits for a permit per call. Records its inputs.
struct Gated {
    calls: AtomicUsize,
    batches: Mutex<Vec<Vec<u32>>>,
    permits: Mutex<usize>,
    opened: Condvar,
    cost: usize,
    longest: usize,
}

impl Gated {
    fn closed() -> Arc<Self> {
        Self::new(1, 1)
    }

    /// With this cost per token.
    fn costing(cost: usize) -> Arc<Self> {
        Self::new(cost, 1)
    }

    /// Reports this maximum length, but accepts longer texts.
    fn longest(longest: usize) -> Arc<Self> {
        Self::new(1, longest)
    }

    fn new(cost: usize, longest: usize) -> Arc<Self> {
        Arc::new(Self {
            cost,
            longest,
            calls: AtomicUsize::new(0),
            batches: Mutex::new(Vec::new()),
            permits: Mutex::new(0),
            opened: Condvar::new(),
        })
    }

    fn opened(permits: usize) -> Arc<Self> {
        let encoder = Self::closed();
        encoder.open(permits);
        encoder
    }

    fn open(&self, permits: usize) {
        *self.permits.lock().unwrap() += permits;
        self.opened.notify_all();
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The first token of each sequence, by call.
    fn batches(&self) -> Vec<Vec<u32>> {
        self.batches.lock().unwrap().clone()
    }
}

impl Encoder for Gated {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        let firsts = sequences.iter().map(|sequence| sequence[0]).collect();
        self.batches.lock().unwrap().push(firsts);
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut permits = self.permits.lock().unwrap();
        while *permits == 0 {
            permits = self.opened.wait(permits).unwrap();
        }
        *permits -= 1;
        drop(permits);
        for sequence in sequences {
            assert!(sequence[0] != 666, "told to");
            if sequence[0] == 500 {
                return Err(EncodeError::Arithmetic("told to".to_owned()));
            }
        }
        Ok(sequences
            .iter()
            .flat_map(|sequence| [sequence[0] as f32, sequence.len() as f32])
            .collect())
    }
    fn dimension(&self) -> usize {
        2
    }
    fn cost(&self, tokens: usize) -> usize {
        tokens * self.cost
    }
    fn is_normalised(&self) -> bool {
        false
    }
    fn max_tokens(&self) -> usize {
        self.longest
    }
    fn vocabulary(&self) -> usize {
        1000
    }
    fn name(&self) -> &'static str {
        "gated"
    }
}

async fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

type Outcome = Result<Zeroizing<Vec<f32>>, PoolError>;

async fn encode(pool: &Pool, sequences: Vec<Vec<u32>>) -> Outcome {
    pool.encode(sequences, pool.deadline()).await
}

fn send(pool: &Arc<Pool>, sequences: Vec<Vec<u32>>) -> tokio::task::JoinHandle<Outcome> {
    let pool = Arc::clone(pool);
    tokio::spawn(async move { encode(&pool, sequences).await })
}

#[tokio::test]
async fn rows_come_back_in_order_whatever_the_slices() {
    let encoder = Gated::opened(100);
    let pool = Pool::start(encoder.clone(), 2, limits()).unwrap();
    let sequences: Vec<Vec<u32>> = [5, 1, 4, 2, 3]
        .iter()
        .map(|length| vec![*length; *length as usize])
        .collect();
    let rows = encode(&pool, sequences).await.unwrap();
    assert_eq!(*rows, [5., 5., 1., 1., 4., 4., 2., 2., 3., 3.]);
    assert!(encoder.calls() >= 3, "15 tokens are at least 3 slices of 6");
    assert_eq!(pool.pending_tokens(), 0);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let encoder = Gated::closed();
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
    let first = send(&pool, vec![vec![1; 15]]);
    wait_until(|| encoder.calls() == 1).await;
    let Err(PoolError::Busy { retry_after }) = encode(&pool, vec![vec![2; 7]]).await else {
        panic!("admitted")
    };
    assert!(retry_after >= Duration::from_secs(1));
    encoder.open(10);
    assert!(first.await.unwrap().is_ok());
    assert!(encode(&pool, vec![vec![2; 7]]).await.is_ok(), "room again");
}

#[test]
fn threads_that_compute_other_models_are_counted() {
    let turns = Arc::new(Turns::new(4));
    let other = Arc::clone(&turns).join();
    let shared = |turns: Option<&Arc<Turns>>| {
        let member = turns.map(|turns| Arc::clone(turns).join());
        Shared::new(Gated::closed(), limits(), member)
    };
    let (alone, sharing) = (shared(None), shared(Some(&turns)));
    let held = [other.take_turn(), other.take_turn()];
    assert_eq!((alone.count_threads(2), sharing.count_threads(2)), (2, 4));
    drop(held);
    assert_eq!(sharing.count_threads(2), 2);
}

#[tokio::test]
async fn a_long_request_does_not_block_a_short_one() {
    let encoder = Gated::closed();
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
    // Far more than the queue's limit; admitted because the queue was empty.
    let long = send(&pool, vec![vec![1; 6]; 20]);
    wait_until(|| encoder.calls() == 1).await;
    let refused = encode(&pool, vec![vec![3; 7]]).await;
    assert!(
        matches!(refused, Err(PoolError::Busy { .. })),
        "more than a slice"
    );
    let short = send(&pool, vec![vec![4; 6]]);
    wait_until(|| pool.pending_tokens() == 126).await;
    encoder.open(2);
    assert_eq!(*short.await.unwrap().unwrap(), [4., 6.], "second in turn");
    assert!(!long.is_finished());
    encoder.open(20);
    assert!(long.await.unwrap().is_ok());
}

#[tokio::test]
async fn one_text_of_any_length_is_admitted() {
    let encoder = Gated::longest(9);
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
    let first = send(&pool, vec![vec![1; 6]; 3]);
    wait_until(|| encoder.calls() == 1).await;
    let text = send(&pool, vec![vec![2; 9]]);
    wait_until(|| pool.pending_tokens() == 27).await;
    encoder.open(10);
    assert!(first.await.unwrap().is_ok());
    assert_eq!(*text.await.unwrap().unwrap(), [2., 9.]);
}

#[tokio::test]
async fn a_withdrawn_request_makes_room_at_once_and_is_never_computed() {
    let encoder = Gated::closed();
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
    let first = send(&pool, vec![vec![1; 4]]);
    wait_until(|| encoder.calls() == 1).await;
    let second = send(&pool, vec![vec![2; 16]]);
    wait_until(|| pool.pending_tokens() == 20).await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    assert_eq!(
        pool.pending_tokens(),
        4,
        "while the only thread is still busy"
    );
    let third = send(&pool, vec![vec![3; 16]]);
    encoder.open(10);
    assert!(first.await.unwrap().is_ok());
    assert!(third.await.unwrap().is_ok(), "admitted in its place");
    assert_eq!(encoder.batches(), [[1], [3]]);
}

#[tokio::test]
async fn a_long_batch_lets_a_short_text_pass() {
    let encoder = Gated::closed();
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
    let long = send(&pool, vec![vec![1; 5]; 3]);
    wait_until(|| encoder.calls() == 1).await;
    let short = send(&pool, vec![vec![2; 2]]);
    wait_until(|| pool.pending_tokens() == 17).await;
    encoder.open(2);
    assert_eq!(*short.await.unwrap().unwrap(), [2., 2.], "second in turn");
    assert!(!long.is_finished());
    encoder.open(2);
    assert!(long.await.unwrap().is_ok());
    assert_eq!(encoder.batches()[1][0], 2);
}

#[tokio::test]
async fn a_far_shorter_request_does_not_wait_for_the_slice_that_is_computed() {
    let encoder = Gated::closed();
    let pool = Arc::new(Pool::start(encoder.clone(), 2, limits()).unwrap());
    let long: Vec<_> = (1..3)
        .map(|name| send(&pool, vec![vec![name; 6]]))
        .collect();
    wait_until(|| encoder.calls() == 2).await;
    let short = send(&pool, vec![vec![3]]);
    wait_until(|| encoder.calls() == 3).await;
    assert_eq!(encoder.batches()[2], [3], "while both threads are held up");
    encoder.open(3);
    assert_eq!(*short.await.unwrap().unwrap(), [3., 1.]);
    for answer in long {
        assert!(answer.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn short_requests_are_put_together_while_the_thread_is_busy() {
    let encoder = Gated::closed();
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
    let first = send(&pool, vec![vec![1; 6]]);
    wait_until(|| encoder.calls() == 1).await;
    let mut answers = Vec::new();
    for token in 2..6 {
        answers.push(send(&pool, vec![vec![token; 2]]));
        wait_until(|| pool.pending_tokens() == 6 + 2 * (token as usize - 1)).await;
    }
    encoder.open(10);
    assert!(first.await.unwrap().is_ok());
    for (token, answer) in (2..).zip(answers) {
        assert_eq!(*answer.await.unwrap().unwrap(), [token as f32, 2.]);
    }
    // Two make 4 tokens, from where batching does not pay off.
    assert_eq!(encoder.batches(), [vec![1], vec![2, 3], vec![4, 5]]);
}

#[tokio::test]
async fn a_failing_request_does_not_fail_its_batch() {
    for culprit in [666, 500] {
        let encoder = Gated::closed();
        let pool = Arc::new(Pool::start(encoder.clone(), 1, limits()).unwrap());
        let first = send(&pool, vec![vec![1; 6]]);
        wait_until(|| encoder.calls() == 1).await;
        let bad = send(&pool, vec![vec![culprit; 2]]);
        wait_until(|| pool.pending_tokens() == 8).await;
        let good = send(&pool, vec![vec![3; 2]]);
        wait_until(|| pool.pending_tokens() == 10).await;
        encoder.open(10);
        assert!(first.await.unwrap().is_ok());
        assert_eq!(bad.await.unwrap().err(), Some(PoolError::Failed));
        assert_eq!(*good.await.unwrap().unwrap(), [3., 2.]);
        assert_eq!(encoder.batches()[1], [culprit, 3], "they were together");
        assert_eq!(pool.pending_tokens(), 0);
    }
}

#[tokio::test]
async fn a_panic_fails_one_request_and_keeps_the_thread() {
    let pool = Pool::start(Gated::opened(10), 1, limits()).unwrap();
    let failed = encode(&pool, vec![vec![666]]).await;
    assert_eq!(failed.err(), Some(PoolError::Failed));
    assert!(encode(&pool, vec![vec![1]]).await.is_ok());
    assert_eq!(pool.pending_tokens(), 0);
}

#[tokio::test]
async fn the_deadline_is_kept() {
    let encoder = Gated::opened(10);
    let limits = PoolLimits {
        deadline: Duration::ZERO,
        ..limits()
    };
    let pool = Pool::start(encoder.clone(), 1, limits).unwrap();
    let answer = encode(&pool, vec![vec![1]]).await;
    assert_eq!(answer.err(), Some(PoolError::Deadline));
    assert_eq!(encoder.calls(), 0);
}

#[tokio::test]
async fn the_deadline_is_kept_while_others_are_computed() {
    let encoder = Gated::closed();
    let limits = PoolLimits {
        deadline: Duration::from_millis(100),
        ..limits()
    };
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits).unwrap());
    let begun = send(&pool, vec![vec![1; 6]]);
    wait_until(|| encoder.calls() == 1).await;
    let waiting = send(&pool, vec![vec![2; 2]]);
    // Nothing is computed until both have timed out.
    assert_eq!(waiting.await.unwrap().err(), Some(PoolError::Deadline));
    assert_eq!(begun.await.unwrap().err(), Some(PoolError::Deadline));
    assert_eq!(pool.pending_tokens(), 6, "what was not begun is withdrawn");
    encoder.open(10);
    wait_until(|| pool.pending_tokens() == 0).await;
    assert_eq!(encoder.batches(), [[1]]);
}

#[tokio::test]
async fn a_request_that_would_miss_its_deadline_is_refused_immediately() {
    // Before the first measurement, a unit of cost counts as 100 µs, so a token as 1,000 s here.
    let encoder = Gated::costing(10_000_000);
    let limits = PoolLimits {
        queue_tokens: usize::MAX,
        slice_tokens: 1,
        ..limits()
    };
    let pool = Arc::new(Pool::start(encoder.clone(), 1, limits).unwrap());
    let first = send(&pool, vec![vec![1; 2]]);
    wait_until(|| encoder.calls() == 1).await;
    let Err(PoolError::Busy { retry_after }) = encode(&pool, vec![vec![2]; 2]).await else {
        panic!("admitted, though it would take 4,000 s and the deadline is 3,600 s")
    };
    assert_eq!(retry_after, Duration::from_secs(60), "at most a minute");
    let second = send(&pool, vec![vec![3]]);
    wait_until(|| pool.pending_tokens() == 30_000_000).await;
    encoder.open(10);
    assert!(first.await.unwrap().is_ok());
    assert!(
        second.await.unwrap().is_ok(),
        "its turn comes after 1,000 s"
    );
}

#[tokio::test]
async fn a_hanging_encoder_is_reported() {
    let encoder = Gated::closed();
    let limits = PoolLimits {
        deadline: Duration::from_millis(50),
        ..limits()
    };
    let pool = Arc::new(Pool::start(encoder.clone(), 2, limits).unwrap());
    assert_eq!(pool.health(), Health::Sound);
    let answer = send(&pool, vec![vec![1]]);
    wait_until(|| pool.health() == Health::Stuck).await;
    assert_eq!(answer.await.unwrap().err(), Some(PoolError::Deadline));
    encoder.open(1);
    wait_until(|| pool.health() == Health::Sound).await;
}
