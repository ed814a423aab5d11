//! Sends many items over as many connections as needed.
//!
//! Each item is a data frame that begins with its number (8 bytes, big-endian); the peer answers each with a message that begins
//! with the same number, in the same order. Items without an answer when a connection ends are sent again over the next one;
//! each answer is returned once. So the output is complete, in order and without duplicates, however often the connection is
//! lost. Refused evidence and forged bytes end the run: no lost connection explains them. An answer can replace its item by others,
//! for example by the parts of a batch.

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

/// Pauses between connections.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Upper bound on the pause after the first failure; each further failure doubles it.
    pub first: Duration,
    /// Upper bound on every pause.
    pub longest: Duration,
    /// Consecutive connections that may end without an answer.
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
    /// Returns a random pause up to the bound of this attempt ("full jitter"), so that clients of one lost server do not all return
    /// at the same time.
    fn pause(&self, failures: u32, rng: &mut impl Rng) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        let limit = self.first.saturating_mul(doubled).min(self.longest);
        let part = f64::from(rng.next_u32()) / f64::from(u32::MAX);
        limit.mul_f64(part)
    }
}

/// A channel and its peer.
pub type Connected<W> = (Channel<<W as Work>::Stream>, <W as Work>::Peer);

/// Connects, encodes items and takes answers.
pub trait Work {
    /// One input of a run.
    type Given;
    /// One item; kept until it is answered.
    type Item;
    /// A connection.
    type Stream: AsyncRead + AsyncWrite;
    /// The peer of one connection, as far as it is known.
    type Peer;
    /// State that the answer to one item on one connection needs.
    type Pending;
    /// An error that ends a run or a connection.
    type Error: From<Error>;

    /// Makes a connection.
    ///
    /// # Errors
    /// Ends the run, unless it [is transient](Self::is_transient).
    fn connect(&mut self) -> impl Future<Output = Result<Connected<Self>, Self::Error>>;

    /// Makes items of the input; none where there is nothing to send.
    ///
    /// # Errors
    /// Ends the run.
    fn admit(&mut self, given: Self::Given) -> Result<Vec<Self::Item>, Self::Error>;

    /// Encodes an item, without its number. Called again where the item is sent again.
    ///
    /// # Errors
    /// See [`connect`](Self::connect). The items before this one are answered first.
    fn encode(
        &mut self,
        peer: &Self::Peer,
        item: &Self::Item,
    ) -> Result<(Vec<u8>, Self::Pending), Self::Error>;

    /// Takes the answer to an item, without its number. Returns the items that are sent in its place, before any that was not sent
    /// yet; none where it is done.
    ///
    /// # Errors
    /// See [`connect`](Self::connect). Then the item counts as unanswered, and is sent again over the next connection.
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

    /// Whether another connection can help.
    fn is_transient(error: &Self::Error) -> bool;

    /// Completes once nothing more may be sent to this peer, for example because its proof was withdrawn. Then the connection is
    /// dropped, and counts as lost.
    fn ended(_peer: &Self::Peer) -> impl Future<Output = ()> {
        std::future::pending()
    }
}

/// Sends every item from `items` and takes every answer, in the order in which the items were sent; returns the number of answers.
/// At most `window` items are in flight.
///
/// Connects when the first item arrives, and again only while an item waits. Connections need a
/// [timeout](crate::Incoming::set_timeout), because a lost one may never report an error.
///
/// # Errors
/// The first error that is not transient, or the last one where further connections bring no answer.
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
        is_input_complete: false,
        is_done: false,
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
            Ok((channel, peer)) => state.run_on(channel, &peer, work, items).await,
            Err(error) => Err(error),
        };
        let error = match outcome {
            _ if state.is_done => return Ok(state.answered),
            Ok(()) => return Ok(state.answered),
            Err(error) if !W::is_transient(&error) => return Err(error),
            Err(error) => error,
        };
        if state.in_flight.is_empty() && state.waiting.is_empty() {
            // The server closed an idle connection.
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
    /// Items without an answer. The front is answered next.
    in_flight: VecDeque<T>,
    /// Admitted, and sent over no connection yet.
    waiting: VecDeque<T>,
    window: usize,
    answered: u64,
    /// No further items will arrive.
    is_input_complete: bool,
    /// Every item has its answer, so an error of the last connection does not matter.
    is_done: bool,
}

impl<T> State<T> {
    /// Continues on one connection, until all items are answered or the connection fails. Where writing fails first, the answers to
    /// the written items are still read, within the channel's timeout.
    async fn run_on<W: Work<Item = T>>(
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
        // As large as the window, so that sending to it never waits: reading continues while writing is blocked.
        let (queue, mut queued) = mpsc::channel::<Vec<u8>>(self.window);
        // Completely written items, less the answers. Below zero where an answer arrives before its write has returned.
        let unanswered = Cell::new(0_i64);
        let is_writable = Cell::new(true);
        let write = async {
            while let Some(mut item) = queued.recv().await {
                outgoing.send_in_place(Kind::Data, &mut item).await?;
                unanswered.set(unanswered.get() + 1);
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
            // An error after which nothing more is sent on this connection. Answers to earlier items are still read, so every
            // connection makes progress, and an item that cannot be sent does not lose those before it.
            let mut send_error = None;
            for item in &self.in_flight {
                match send(work, item) {
                    Ok(sent) => pending.push_back(sent),
                    Err(error) => {
                        send_error = Some(error);
                        break;
                    }
                }
            }
            loop {
                while send_error.is_none()
                    && is_writable.get()
                    && self.in_flight.len() < self.window
                    && let Some(item) = self.waiting.pop_front()
                {
                    match send(work, &item) {
                        Ok(sent) => pending.push_back(sent),
                        Err(error) => send_error = Some(error),
                    }
                    // Kept also where sending failed, so that the next connection sends it.
                    self.in_flight.push_back(item);
                }
                if self.is_input_complete && self.in_flight.is_empty() && self.waiting.is_empty() {
                    break;
                }
                if !is_writable.get() && unanswered.get() <= 0 {
                    return Ok(());
                }
                if pending.is_empty()
                    && let Some(error) = send_error.take()
                {
                    return Err(error);
                }
                let accepts_items = send_error.is_none()
                    && is_writable.get()
                    && !self.is_input_complete
                    && self.in_flight.len() < self.window
                    && work.has_room();
                let message = tokio::select! {
                    item = items.recv(), if accepts_items => {
                        match item {
                            Some(given) => self.waiting.extend(work.admit(given)?),
                            None => self.is_input_complete = true,
                        }
                        continue;
                    }
                    message = incoming.receive() => message?,
                };
                // The server closed early, to rotate its keys or to stop, and left these items unanswered.
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
                unanswered.set(unanswered.get() - 1);
            }
            self.is_done = true;
            drop(queue);
            Ok(())
        };
        let converse = async {
            let (mut write, mut read) = (pin!(write), pin!(read));
            let failed = tokio::select! {
                // Writing may be blocked on a lost connection.
                outcome = &mut read => return match outcome {
                    Ok(()) => write.await,
                    Err(error) => Err(error),
                },
                outcome = &mut write => match outcome {
                    Ok(()) => return read.await,
                    Err(error) => error,
                },
            };
            is_writable.set(false);
            if unanswered.get() > 0
                && let Err(error) = read.await
                && !W::is_transient(&error)
            {
                return Err(error);
            }
            Err(failed)
        };
        tokio::select! {
            // Polled first: nothing is sent to a peer that has ended.
            biased;
            () = W::ended(peer) => Err(Error::Channel(ChannelError::Closed).into()),
            outcome = converse => outcome,
        }
    }
}
