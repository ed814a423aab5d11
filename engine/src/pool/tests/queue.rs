//! The queue without threads.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::job::Job;
use super::super::queue::Queue;
use super::super::{Client, PoolError, PoolLimits};
use super::{ONE, TWO, limits};

/// A request for the queue alone, and the end that its answer comes out of.
fn job(client: Client, lengths: &[usize]) -> (Job, oneshot::Receiver<Result<Vec<f32>, PoolError>>) {
    let (reply, answer) = oneshot::channel();
    let sequences = lengths.iter().map(|length| vec![1; *length]).collect();
    let deadline = Instant::now() + Duration::from_secs(3600);
    (
        Job::new(client, sequences, |length| length, deadline, reply),
        answer,
    )
}

/// Pushes a request. Its answer is to be kept: whoever drops it withdraws the request.
#[must_use]
fn push(
    queue: &mut Queue,
    client: Client,
    lengths: &[usize],
) -> oneshot::Receiver<Result<Vec<f32>, PoolError>> {
    let (job, answer) = job(client, lengths);
    queue.push(job);
    answer
}

/// Takes all that waits; says whose turn came after whose.
fn turns(queue: &mut Queue) -> Vec<Client> {
    std::iter::from_fn(|| queue.next_batch(Instant::now()))
        .flat_map(|batch| batch.parts)
        .map(|(job, _)| job.client)
        .collect()
}

#[test]
fn idle_threads_get_their_share_instead_of_one_a_batch() {
    for (idle, expected) in [(0, 4), (1, 2), (2, 2), (3, 1)] {
        let limits = PoolLimits {
            queue_tokens: 100,
            slice_tokens: 50,
            fill_tokens: 50,
            ..limits()
        };
        let mut queue = Queue::new(limits, 50);
        let mut answers = Vec::new();
        for client in 0..4 {
            answers.push(push(&mut queue, Client(client), &[2]));
        }
        queue.idle = idle;
        let batch = queue.next_batch(Instant::now()).unwrap();
        assert_eq!(batch.parts.len(), expected, "{idle} idle");
    }
}

#[test]
fn clients_share_by_cost_however_many_requests_they_send() {
    let limits = PoolLimits {
        queue_tokens: 1000,
        ..limits()
    };
    let mut queue = Queue::new(limits, 6);
    let mut answers = Vec::new();
    // One client sends twenty long requests before the other sends two.
    for (client, count) in [(ONE, 20), (TWO, 2)] {
        for _ in 0..count {
            answers.push(push(&mut queue, client, &[6]));
        }
    }
    let order = turns(&mut queue);
    assert_eq!(order.len(), 22);
    assert_eq!(order[..6], [ONE, TWO, ONE, TWO, ONE, ONE]);
}

#[test]
fn a_turn_buys_several_short_requests_or_one_slice() {
    let limits = PoolLimits {
        queue_tokens: 1000,
        fill_tokens: 0,
        ..limits()
    };
    let mut queue = Queue::new(limits, 6);
    let mut answers = Vec::new();
    for (client, length) in [(ONE, 2), (ONE, 2), (ONE, 2), (ONE, 2), (TWO, 6), (TWO, 6)] {
        answers.push(push(&mut queue, client, &[length]));
    }
    let order = turns(&mut queue);
    assert_eq!(order, [ONE, ONE, ONE, TWO, ONE, TWO]);
}

#[test]
fn admission_counts_cost_and_says_what_must_go_first() {
    let mut queue = Queue::new(limits(), 6);
    let (large, _answer) = job(ONE, &[30]);
    assert_eq!(queue.excess(ONE, 30), None, "nothing else waits");
    queue.push(large);
    for (client, cost, excess) in [
        (ONE, 1, Some(11)),
        (ONE, usize::MAX, Some(30)),
        (TWO, 6, None),
        (TWO, 7, Some(17)),
    ] {
        assert_eq!(queue.excess(client, cost), excess, "{client:?}, {cost}");
    }
    // Its own, and of the other as many turns as it needs itself.
    for (client, cost, until_done) in [(ONE, 5, 35), (TWO, 1, 7), (TWO, 7, 19), (TWO, 50, 80)] {
        assert_eq!(
            queue.until_done(client, cost),
            until_done,
            "{client:?}, {cost}"
        );
    }
    let _slice = push(&mut queue, TWO, &[6]);
    assert_eq!(queue.excess(TWO, 1), Some(1), "of its own");
    queue.close();
    assert!(!queue.ended());
    assert!(queue.next_batch(Instant::now()).is_some());
    assert!(queue.next_batch(Instant::now()).is_some());
    assert!(queue.ended());
}

#[test]
fn texts_longer_than_a_slice_get_as_many_turns_as_others() {
    let limits = PoolLimits {
        queue_tokens: 1000,
        fill_tokens: 0,
        ..limits()
    };
    let mut queue = Queue::new(limits, 8);
    let mut answers = Vec::new();
    for (client, length) in [(ONE, 6), (TWO, 8)] {
        answers.push(push(&mut queue, client, &[length; 4]));
    }
    let mut order = Vec::new();
    while let Some(batch) = queue.next_batch(Instant::now()) {
        for (mut job, slice) in batch.parts {
            order.push(job.client);
            if job.store(&slice, &[0.0], 1) {
                queue.settle(job.client, slice.cost);
            } else {
                queue.advance(job, &slice);
            }
        }
    }
    assert_eq!(order, [ONE, TWO, ONE, TWO, ONE, TWO, ONE, TWO]);
    assert_eq!(queue.pending(), 0);
}

#[test]
fn what_is_past_its_deadline_is_answered_and_costs_nothing() {
    let mut queue = Queue::new(limits(), 6);
    let (late, mut answer) = job(ONE, &[3, 3]);
    let deadline = late.deadline;
    queue.push(late);
    assert!(queue.next_batch(deadline).is_none());
    assert_eq!(answer.try_recv(), Ok(Err(PoolError::Deadline)));
    assert_eq!(queue.pending(), 0);
}
