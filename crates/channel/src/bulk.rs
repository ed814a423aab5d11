//! Many items over as many connections as it takes.
//!
//! Each item is a data frame that begins with its number (8 bytes, big-endian); the peer answers each with a message that begins
//! with the same number, in the same order. What was not answered when a connection ended is sent again over the next
//! one; an answer is handed out once, in order. So the output is complete, in order and without repeats, however often the
//! connection is cut. Refused evidence and forged bytes end the run: no cut explains them. An item whose answer asks for it is replaced by others,
//! as where it is to be sent in parts.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use protocol::channel::ChannelError;
use protocol::channel::frame::Kind;
use rand_core::{CryptoRng, Rng};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::{Channel, Error, Message};

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

/// A connection, and what is known of its peer.
pub type Connected<W> = (Channel<<W as Work>::Stream>, <W as Work>::Peer);

/// What is done with the items of a run, and where.
pub trait Work {
    /// What a run is given.
    type Given;
    /// One item; kept until it is answered.
    type Item;
    /// A connection.
    type Stream: AsyncRead + AsyncWrite;
    /// What is known of the peer of one connection.
    type Peer;
    /// What reads the answer to one item on one connection.
    type Pending;
    /// Why a run ends early.
    type Error: From<Error>;

    /// Makes a connection.
    ///
    /// # Errors
    /// Ends the run, unless it [is transient](Self::is_transient).
    fn connect(&mut self) -> impl Future<Output = Result<Connected<Self>, Self::Error>>;

    /// Makes items of what was given; none where there is nothing to send.
    ///
    /// # Errors
    /// Ends the run.
    fn admit(&mut self, given: Self::Given) -> Result<Vec<Self::Item>, Self::Error>;

    /// What is sent for an item, without its number. Called again where it is sent again.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), once the items before it are answered.
    fn encode(
        &mut self,
        peer: &Self::Peer,
        item: &Self::Item,
    ) -> Result<(Vec<u8>, Self::Pending), Self::Error>;

    /// Takes the answer to an item, without its number. Returns the items that are sent in its place, before any that was not sent
    /// yet; none where it is done.
    ///
    /// # Errors
    /// As [`connect`](Self::connect). The item counts as unanswered then, and is sent again over the next connection.
    fn answer(
        &mut self,
        peer: &Self::Peer,
        item: &Self::Item,
        pending: Self::Pending,
        message: Message<'_>,
    ) -> Result<Vec<Self::Item>, Self::Error>;

    /// Whether more may be admitted. Asked again after each answer.
    fn has_room(&self) -> bool {
        true
    }

    /// Whether another connection may help.
    fn is_transient(error: &Self::Error) -> bool;

    /// Completes once nothing more may be sent to this peer, as where its proof was withdrawn. The connection is dropped then,
    /// and counts as one that was cut.
    fn ended(_peer: &Self::Peer) -> impl Future<Output = ()> {
        std::future::pending()
    }
}

/// Sends every item that comes, and hands out every answer, in the order in which the items were sent; returns how many answers there
/// were. At most `window` items are in flight.
///
/// Connects when the first item comes, and again only while an item waits. A connection needs
/// [patience](crate::Incoming::set_timeout): one that takes nothing any more may never say so.
///
/// # Errors
/// The first that is not transient, or the last one where no connection brings an answer any more.
pub async fn run<W: Work>(
    work: &mut W,
    items: &mut mpsc::Receiver<W::Given>,
    window: usize,
    backoff: Backoff,
    rng: &mut impl CryptoRng,
) -> Result<u64, W::Error> {
    let mut state = State {
        in_flight: VecDeque::new(),
        waiting: VecDeque::new(),
        window: window.max(1),
        answered: 0,
        ended: false,
        done: false,
    };
    let mut failures = 0;
    loop {
        while state.in_flight.is_empty() {
            match state.waiting.pop_front() {
                Some(item) => state.in_flight.push_back(item),
                None => match items.recv().await {
                    Some(given) => state.waiting.extend(work.admit(given)?),
                    None => return Ok(state.answered),
                },
            }
        }
        let before = state.answered;
        let outcome = match work.connect().await {
            Ok((channel, peer)) => state.over(channel, &peer, work, items).await,
            Err(error) => Err(error),
        };
        let error = match outcome {
            _ if state.done => return Ok(state.answered),
            Ok(()) => return Ok(state.answered),
            Err(error) if !W::is_transient(&error) => return Err(error),
            Err(error) => error,
        };
        if state.in_flight.is_empty() && state.waiting.is_empty() {
            // A server that let an idle connection go.
            failures = 0;
            continue;
        }
        failures = match state.answered > before {
            true => 1,
            false => failures + 1,
        };
        if failures > backoff.attempts {
            return Err(error);
        }
        tokio::time::sleep(backoff.pause(failures, rng)).await;
    }
}

struct State<T> {
    /// Not answered. The front is the next to be answered.
    in_flight: VecDeque<T>,
    /// Admitted, and sent over no connection yet.
    waiting: VecDeque<T>,
    window: usize,
    answered: u64,
    /// There are no more items to come.
    ended: bool,
    /// Every item has its answer; how the last connection ends no longer matters.
    done: bool,
}

impl<T> State<T> {
    /// Goes on over one connection, until everything is answered or the connection fails. Where writing fails first, the answers to
    /// what was written are still read, for as long as the channel's patience lasts.
    async fn over<W: Work<Item = T>>(
        &mut self,
        channel: Channel<W::Stream>,
        peer: &W::Peer,
        work: &mut W,
        items: &mut mpsc::Receiver<W::Given>,
    ) -> Result<(), W::Error> {
        let Channel {
            mut incoming,
            mut outgoing,
            ..
        } = channel;
        // Holds no more than the window does, so that nothing waits here: reading goes on while writing is stuck.
        let (queue, mut queued) = mpsc::channel::<Vec<u8>>(self.window);
        // Items that were written whole, less the answers: an answer may come before the write has returned.
        let due = Cell::new(0_i64);
        let writable = Cell::new(true);
        let write = async {
            while let Some(mut item) = queued.recv().await {
                outgoing.send_in_place(Kind::Data, &mut item).await?;
                due.set(due.get() + 1);
            }
            outgoing.close().await.map_err(W::Error::from)
        };
        let read = async {
            let mut pending = VecDeque::new();
            let mut next = self.answered;
            let mut send = |work: &mut W, item: &T| {
                let (bytes, pending) = work.encode(peer, item)?;
                let numbered = [&next.to_be_bytes()[..], &bytes].concat();
                next += 1;
                let sent = queue.try_send(numbered);
                sent.map_err(|_| W::Error::from(Error::HalfSent))?;
                Ok::<_, W::Error>(pending)
            };
            // Why nothing more can be sent here, or at all. What was sent before is answered all the same: every connection gets
            // further, and an item that cannot be sent costs none of those before it.
            let mut stopped = None;
            for item in &self.in_flight {
                match send(work, item) {
                    Ok(sent) => pending.push_back(sent),
                    Err(error) => {
                        stopped = Some(error);
                        break;
                    }
                }
            }
            loop {
                while stopped.is_none()
                    && writable.get()
                    && self.in_flight.len() < self.window
                    && let Some(item) = self.waiting.pop_front()
                {
                    match send(work, &item) {
                        Ok(sent) => pending.push_back(sent),
                        Err(error) => stopped = Some(error),
                    }
                    // Where it was not sent, the next connection takes it.
                    self.in_flight.push_back(item);
                }
                if self.ended && self.in_flight.is_empty() && self.waiting.is_empty() {
                    break;
                }
                if !writable.get() && due.get() <= 0 {
                    return Ok(());
                }
                if pending.is_empty()
                    && let Some(error) = stopped.take()
                {
                    return Err(error);
                }
                let more = stopped.is_none()
                    && writable.get()
                    && !self.ended
                    && self.in_flight.len() < self.window
                    && work.has_room();
                let message = tokio::select! {
                    item = items.recv(), if more => {
                        match item {
                            Some(given) => self.waiting.extend(work.admit(given)?),
                            None => self.ended = true,
                        }
                        continue;
                    }
                    message = incoming.receive() => message?,
                };
                // A server that closes early, for its rotation or its end, left these unanswered.
                let message = message.ok_or(Error::Channel(ChannelError::Closed))?;
                let (Some((number, payload)), Some(item), Some(pending)) = (
                    message.payload.split_first_chunk(),
                    self.in_flight.front(),
                    pending.pop_front(),
                ) else {
                    return Err(Error::OutOfTurn.into());
                };
                if u64::from_be_bytes(*number) != self.answered {
                    return Err(Error::OutOfTurn.into());
                }
                let message = Message {
                    payload,
                    kind: message.kind,
                };
                let parts = work.answer(peer, item, pending, message)?;
                self.in_flight.pop_front();
                for part in parts.into_iter().rev() {
                    self.waiting.push_front(part);
                }
                self.answered += 1;
                due.set(due.get() - 1);
            }
            self.done = true;
            drop(queue);
            Ok(())
        };
        let converse = async {
            let (mut write, mut read) = (pin!(write), pin!(read));
            let failed = tokio::select! {
                // Writing may be stuck on a connection that leads nowhere.
                outcome = &mut read => return match outcome {
                    Ok(()) => write.await,
                    Err(error) => Err(error),
                },
                outcome = &mut write => match outcome {
                    Ok(()) => return read.await,
                    Err(error) => error,
                },
            };
            writable.set(false);
            if due.get() > 0
                && let Err(error) = read.await
                && !W::is_transient(&error)
            {
                return Err(error);
            }
            Err(failed)
        };
        tokio::select! {
            // Asked first: nothing is sent after a peer has ended.
            biased;
            () = W::ended(peer) => Err(Error::Channel(ChannelError::Closed).into()),
            outcome = converse => outcome,
        }
    }
}
