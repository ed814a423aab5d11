//! The queue without threads.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::job::{Job, Rows};
use super::super::queue::Queue;
use super::super::{PoolError, PoolLimits};
use super::limits;

type Answer = oneshot::Receiver<Result<Rows, PoolError>>;

/// A request whose sequences begin with `name`, and the receiver of its answer.
fn job(name: u32, lengths: &[usize]) -> (Job, Answer) {
    let (reply, answer) = oneshot::channel();
    let sequences = lengths.iter().map(|length| vec![name; *length]).collect();
    let deadline = Instant::now() + Duration::from_secs(3600);
    (
        Job::new(sequences, |length| length, deadline, reply),
        answer,
    )
}

/// Pushes a request. Keep the returned receiver: dropping it withdraws the request.
#[must_use]
fn push(queue: &mut Queue, name: u32, lengths: &[usize]) -> Answer {
    let (job, answer) = job(name, lengths);
    queue.push(job);
    answer
}

/// Computes everything in the queue; returns the order of the requests' slices.
fn run_all(queue: &mut Queue) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(batch) = queue.next_batch(Instant::now()) {
        for (mut job, slice) in batch.parts {
            order.extend(job.sequences(&slice).next().and_then(|first| first.first()));
            if job.store(&slice, &[0.0], 1) {
                queue.release(slice.cost);
            } else {
                queue.advance(job, &slice);
            }
        }
    }
    order
}

/// Limits large enough for every test.
fn roomy() -> PoolLimits {
    PoolLimits {
        queue_tokens: 1000,
        ..limits()
    }
}

#[test]
fn idle_threads_get_their_share_instead_of_one_a_batch() {
    for (idle, expected) in [(0, 4), (1, 2), (2, 2), (3, 1)] {
        let limits = PoolLimits {
            slice_tokens: 50,
            fill_tokens: 50,
            ..roomy()
        };
        let mut queue = Queue::new(limits, 50);
        let answers: Vec<_> = (0..4).map(|name| push(&mut queue, name, &[2])).collect();
        queue.idle = idle;
        let batch = queue.next_batch(Instant::now()).unwrap();
        assert_eq!(batch.parts.len(), expected, "{idle} idle");
        drop(answers);
    }
}

#[test]
fn the_least_left_goes_first_and_every_fourth_batch_to_the_longest_waiting() {
    let mut queue = Queue::new(roomy(), 6);
    let _long = [push(&mut queue, 1, &[6; 3]), push(&mut queue, 2, &[6; 3])];
    let _short: Vec<_> = (11..18).map(|name| push(&mut queue, name, &[5])).collect();
    let expected = [11, 12, 13, 1, 14, 15, 16, 2, 17, 1, 1, 2, 2];
    assert_eq!(run_all(&mut queue), expected);
    assert_eq!(queue.pending(), 0);
}

#[test]
fn equal_requests_are_finished_one_after_the_other() {
    let mut queue = Queue::new(roomy(), 6);
    let _answers = [
        push(&mut queue, 1, &[6, 6, 6, 6]),
        push(&mut queue, 2, &[6, 6]),
        push(&mut queue, 3, &[6]),
    ];
    assert_eq!(run_all(&mut queue), [3, 2, 2, 1, 1, 1, 1]);
    assert_eq!(queue.pending(), 0);
}

#[test]
fn a_flood_of_short_requests_leaves_a_long_one_its_share() {
    let mut queue = Queue::new(roomy(), 6);
    let _long = push(&mut queue, 1, &[6; 5]);
    let mut shorts = Vec::new();
    let mut batches = 0;
    // One short request per batch is more than can be computed: the queue grows, and the long request still gets its slices.
    while batches < 8 * 5 {
        shorts.push(push(&mut queue, 2, &[4]));
        let batch = queue.next_batch(Instant::now()).unwrap();
        batches += 1;
        for (mut job, slice) in batch.parts {
            let long = job.sequences(&slice).next().unwrap()[0] == 1;
            if !job.store(&slice, &[0.0], 1) {
                queue.advance(job, &slice);
            } else if long {
                return;
            } else {
                queue.release(slice.cost);
            }
        }
    }
    panic!("the long request was not done");
}

#[test]
fn a_text_longer_than_a_slice_is_one_turn() {
    let mut queue = Queue::new(roomy(), 8);
    let _answer = push(&mut queue, 1, &[8; 4]);
    assert_eq!(run_all(&mut queue), [1; 4]);
    assert_eq!(queue.pending(), 0);
}

#[test]
fn short_requests_join_a_batch_and_long_ones_wait() {
    let limits = PoolLimits {
        fill_tokens: 6,
        ..roomy()
    };
    let mut queue = Queue::new(limits, 6);
    let _answers = [
        push(&mut queue, 1, &[2]),
        push(&mut queue, 2, &[2]),
        push(&mut queue, 3, &[5]),
    ];
    let batch = queue.next_batch(Instant::now()).unwrap();
    assert_eq!(batch.parts.len(), 2, "5 more would be beyond a slice");
    assert_eq!(queue.next_batch(Instant::now()).unwrap().parts.len(), 1);
}

#[test]
fn admission_counts_cost_and_estimates_the_wait() {
    let mut queue = Queue::new(limits(), 6);
    let (large, _answer) = job(1, &[30]);
    assert_eq!(queue.excess(30), None, "nothing else waits");
    queue.push(large);
    for (cost, excess) in [(6, None), (7, Some(17)), (usize::MAX, Some(30))] {
        assert_eq!(queue.excess(cost), excess, "{cost}");
    }
    // Its own cost, and every fourth slice of requests with more remaining.
    for (cost, until_done) in [(1, 7), (7, 13), (19, 31), (30, 60), (50, 80)] {
        assert_eq!(queue.until_done(cost), until_done, "{cost}");
    }
    let _slice = push(&mut queue, 2, &[6]);
    queue.close();
    assert!(!queue.is_finished());
    assert!(queue.next_batch(Instant::now()).is_some());
    assert!(queue.next_batch(Instant::now()).is_some());
    assert!(queue.is_finished());
}

#[test]
fn the_longest_text_is_admitted_next_to_others() {
    // A text of 50 is longer than the limit of 20.
    let mut queue = Queue::new(limits(), 50);
    let _short = push(&mut queue, 1, &[3]);
    for (cost, excess) in [(50, None), (51, Some(3))] {
        assert_eq!(queue.excess(cost), excess, "{cost}");
    }
    let _long = push(&mut queue, 2, &[50]);
    for (cost, excess) in [(50, None), (51, Some(53))] {
        assert_eq!(queue.excess(cost), excess, "{cost}");
    }
}

#[test]
fn running_batches_count_as_a_slice_of_each_thread() {
    let mut queue = Queue::new(roomy(), 6);
    let _answer = push(&mut queue, 1, &[6; 5]);
    let now = Instant::now();
    let batch = queue.next_batch(now).unwrap();
    queue.begin(0, &batch, now);
    assert_eq!(queue.until_done(2), 8);
    assert_eq!(queue.oldest_start(), Some(now));
    queue.end(0);
    assert_eq!(queue.oldest_start(), None);
}

#[test]
fn an_overdue_request_is_answered_and_not_computed() {
    let mut queue = Queue::new(limits(), 6);
    let (late, mut answer) = job(1, &[3, 3]);
    let deadline = late.deadline;
    queue.push(late);
    let _in_time = push(&mut queue, 2, &[2]);
    let batch = queue.next_batch(deadline).unwrap();
    assert_eq!(batch.parts.len(), 1);
    let outcome = answer.try_recv().unwrap();
    assert_eq!(outcome.err(), Some(PoolError::Deadline));
    assert_eq!(queue.pending(), 2);
}

#[test]
fn a_request_that_is_not_awaited_is_dropped() {
    let mut queue = Queue::new(limits(), 6);
    drop(push(&mut queue, 1, &[3]));
    let _answer = push(&mut queue, 2, &[2]);
    assert_eq!(run_all(&mut queue), [2]);
    assert_eq!(queue.pending(), 0);
}

#[test]
fn the_express_thread_takes_a_request_far_shorter_than_all_running_ones() {
    let now = Instant::now();
    for (computed, waits, taken) in [
        (&[16][..], 4, true),
        (&[16], 5, false),
        (&[16, 8], 4, false),
        (&[16, 8], 2, true),
        (&[], 1, false),
    ] {
        let limits = PoolLimits {
            slice_tokens: 16,
            ..roomy()
        };
        let mut queue = Queue::new(limits, 16);
        let (mut answers, mut batches) = (Vec::new(), Vec::new());
        for (thread, cost) in computed.iter().enumerate() {
            answers.push(push(&mut queue, 1, &[*cost]));
            let batch = queue.next_batch(now).unwrap();
            queue.begin(thread, &batch, now);
            batches.push(batch);
        }
        answers.push(push(&mut queue, 2, &[12]));
        answers.push(push(&mut queue, 3, &[waits]));
        queue.idle = 1;
        assert!(queue.next_express(now).is_none(), "an idle thread takes it");
        queue.idle = 0;
        let batch = queue.next_express(now);
        assert_eq!(batch.is_some(), taken, "{waits} next to {computed:?}");
        assert!(batch.is_none_or(|batch| batch.parts.len() == 1));
    }
}
