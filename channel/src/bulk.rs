//! Many items over as many connections as it takes.
//!
//! Each item is a data frame that begins with its number (8 bytes, big-endian); the peer answers each with a frame that begins
//! with the same number, in the same order. What was not answered when a connection ended is sent again over the next
//! one; an answer is handed out once, in order. So the output is complete, in order and without repeats, however often the
//! connection is cut. Refused evidence and forged bytes end the run: no cut explains them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use protocol::channel::frame::Kind;
use rand_core::{CryptoRng, Rng};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::{Channel, Error};

/// How connections are made again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Longest pause after the first failure; doubled by each further one.
    pub first: Duration,
    /// Longest pause of all.
    pub longest: Duration,
    /// Connections in a row that may end without an answer.
    pub attempts: u32,
}

impl Default for Backoff {
    /// 50 ms, 5 s, 10 connections.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(50),
            longest: Duration::from_secs(5),
            attempts: 10,
        }
    }
}

impl Backoff {
    /// A random pause up to the limit of this attempt ("full jitter"): clients that lost one server do not come back at once.
    fn pause(&self, failures: u32, rng: &mut impl Rng) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        let limit = self.first.saturating_mul(doubled).min(self.longest);
        let part = f64::from(rng.next_u32()) / f64::from(u32::MAX);
        limit.mul_f64(part)
    }
}

/// Sends every item and hands out every answer, in order. At most `window` items are in flight.
///
/// `connect` makes a connection; `answer` gets each answer's number, kind and bytes.
///
/// # Errors
/// The first [`Error`] that is not transient, or the last one where no connection brings an answer any more.
pub async fn run<S: AsyncRead + AsyncWrite>(
    mut items: impl Iterator<Item = Vec<u8>>,
    window: usize,
    backoff: Backoff,
    mut connect: impl AsyncFnMut() -> Result<Channel<S>, Error>,
    mut answer: impl FnMut(u64, Kind, &[u8]),
    rng: &mut impl CryptoRng,
) -> Result<u64, Error> {
    let mut work = Work {
        in_flight: VecDeque::new(),
        next: 0,
        window: window.max(1),
        answered: 0,
        done: false,
    };
    let mut failures = 0;
    loop {
        let before = work.answered;
        let outcome = match connect().await {
            Ok(channel) => work.over(channel, &mut items, &mut answer).await,
            Err(error) => Err(error),
        };
        let error = match outcome {
            _ if work.done => return Ok(work.answered),
            Ok(()) => return Ok(work.answered),
            Err(error) if !error.is_transient() => return Err(error),
            Err(error) => error,
        };
        failures = match work.answered > before {
            true => 1,
            false => failures + 1,
        };
        if failures > backoff.attempts {
            return Err(error);
        }
        tokio::time::sleep(backoff.pause(failures, rng)).await;
    }
}

struct Work {
    /// Sent or about to be, and not answered. The front is the next to be answered.
    in_flight: VecDeque<Arc<[u8]>>,
    next: u64,
    window: usize,
    answered: u64,
    /// Every item has its answer; how the last connection ends no longer matters.
    done: bool,
}

impl Work {
    /// Goes on over one connection, until everything is answered or the connection fails.
    async fn over<S: AsyncRead + AsyncWrite>(
        &mut self,
        channel: Channel<S>,
        items: &mut impl Iterator<Item = Vec<u8>>,
        answer: &mut impl FnMut(u64, Kind, &[u8]),
    ) -> Result<(), Error> {
        let Channel {
            mut incoming,
            mut outgoing,
            ..
        } = channel;
        // Holds no more than the window does, so that nothing waits here: reading goes on while writing is stuck.
        let (queue, mut queued) = mpsc::channel::<Arc<[u8]>>(self.window);
        let write = async {
            while let Some(item) = queued.recv().await {
                outgoing.send(Kind::Data, &item).await?;
            }
            outgoing.close().await
        };
        let read = async {
            for item in &self.in_flight {
                enqueue(&queue, item)?;
            }
            loop {
                while self.in_flight.len() < self.window
                    && let Some(item) = items.next()
                {
                    let item: Arc<[u8]> = [&self.next.to_be_bytes()[..], &item].concat().into();
                    self.next += 1;
                    enqueue(&queue, &item)?;
                    self.in_flight.push_back(item);
                }
                if self.in_flight.is_empty() {
                    drop(queue);
                    self.done = true;
                    return Ok(());
                }
                let message = incoming.receive().await?;
                // A server that closes early, for its rotation or its end, left these unanswered.
                let message = message.ok_or(protocol::channel::ChannelError::Closed)?;
                let (number, payload) = message
                    .payload
                    .split_first_chunk()
                    .ok_or(Error::OutOfTurn)?;
                if u64::from_be_bytes(*number) != self.answered {
                    return Err(Error::OutOfTurn);
                }
                self.in_flight.pop_front();
                answer(self.answered, message.kind, payload);
                self.answered += 1;
            }
        };
        // Whichever fails first ends both: the other one may be stuck on a connection that leads nowhere.
        tokio::try_join!(write, read).map(|((), ())| ())
    }
}

fn enqueue(queue: &mpsc::Sender<Arc<[u8]>>, item: &Arc<[u8]>) -> Result<(), Error> {
    // The writer has failed: so will the reader.
    queue
        .try_send(Arc::clone(item))
        .map_err(|_| Error::HalfSent)
}
