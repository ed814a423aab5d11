//! Client side of an attested channel, as a handle: JavaScript transports bytes, and this module interprets them.
//!
//! A channel belongs to an enclave that [`Challenge`](crate::Challenge) verified: the enclave's receipt key has to endorse the
//! session's key, so evidence is only verified there. If the server offers a document instead, the channel is stale.

mod failure;

use std::collections::VecDeque;

use attestation::UnixMillis;
use getrandom::SysRng;
use protocol::channel::frame::{HEADER, Header, Kind, MAX_MESSAGE, Step, TAG};
use protocol::channel::{
    AwaitingHello, ChannelError, ClientOptions, MonotonicMillis, Offer, Receiver, Sender, Session,
    begin,
};
use protocol::exchange::{Answer, PendingResponse};
use protocol::inner::InnerRequest;
use rand_core::UnwrapErr;
use tsify::{Ts, Tsify};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

pub use failure::ChannelOutcome;
use failure::Failure;

use crate::challenge::TrustedEnclave;
use crate::exchange::{OpenedAnswer, fields};
use crate::policy::moment;
use crate::stopwatch::steady;

/// One event of a channel.
#[wasm_bindgen]
pub struct ChannelEvent {
    state: Event,
}

enum Event {
    Opened(Vec<u8>),
    Answered(Box<OpenedAnswer>),
    Taken,
    Closed,
    Failed(Failure),
}

#[wasm_bindgen]
impl ChannelEvent {
    /// Describes the event.
    pub fn outcome(&self) -> Result<Ts<ChannelOutcome>, JsError> {
        let outcome = match &self.state {
            Event::Opened(_) => ChannelOutcome::Opened,
            Event::Answered(_) | Event::Taken => ChannelOutcome::Answered,
            Event::Closed => ChannelOutcome::Closed,
            Event::Failed(failure) => failure.outcome(),
        };
        Ok(outcome.into_ts()?)
    }

    /// Bytes to send, if a session was opened.
    #[wasm_bindgen(js_name = takeBytes)]
    pub fn take_bytes(&mut self) -> Option<Vec<u8>> {
        match &mut self.state {
            Event::Opened(bytes) => Some(std::mem::take(bytes)),
            _ => None,
        }
    }

    /// Takes the answer.
    #[wasm_bindgen(js_name = takeAnswer)]
    pub fn take_answer(&mut self) -> Option<OpenedAnswer> {
        if !matches!(self.state, Event::Answered(_)) {
            return None;
        }
        match std::mem::replace(&mut self.state, Event::Taken) {
            Event::Answered(answer) => Some(*answer),
            _ => None,
        }
    }
}

/// Bytes to send, or the reason for a refusal.
#[wasm_bindgen]
pub struct ChannelBytes {
    state: Result<Vec<u8>, Failure>,
}

#[wasm_bindgen]
impl ChannelBytes {
    /// Takes the bytes.
    #[wasm_bindgen(js_name = takeBytes)]
    pub fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.state.as_mut().ok().map(std::mem::take)
    }

    /// The refusal, if there is one. A refused request does not end the channel.
    pub fn refusal(&self) -> Result<Option<Ts<ChannelOutcome>>, JsError> {
        match &self.state {
            Ok(_) => Ok(None),
            Err(failure) => Ok(Some(failure.outcome().into_ts()?)),
        }
    }
}

/// Client of one connection. The first error ends it.
#[wasm_bindgen]
pub struct Channel {
    enclave: TrustedEnclave,
    step: Option<Opening>,
    session: Option<(Sender, Receiver)>,
    /// Requests in flight, in order, with their numbers.
    pending: VecDeque<(u64, PendingResponse)>,
    next: u64,
    /// Received bytes of an incomplete frame.
    buffer: Vec<u8>,
    /// Header of that frame, after it was validated.
    due: Option<Header>,
    /// Parts of an incomplete message.
    parts: Vec<u8>,
    /// Number of authenticated frames.
    opened: u32,
    ended: Option<Failure>,
}

/// Between the client hello and the client key.
struct Opening {
    hello: Vec<u8>,
    awaiting: AwaitingHello,
}

#[wasm_bindgen]
impl TrustedEnclave {
    /// Begins a channel to this enclave. Send [`Channel::hello`] first.
    #[wasm_bindgen(js_name = openChannel)]
    pub fn open_channel(&self) -> Channel {
        let options = ClientOptions {
            known: Some(&self.attestation),
            ..ClientOptions::default()
        };
        let begun = begin(options, &mut UnwrapErr(SysRng));
        let (step, ended) = match begun {
            Ok((hello, awaiting)) => (Some(Opening { hello, awaiting }), None),
            Err(error) => (None, Some(error.into())),
        };
        Channel {
            enclave: self.share(),
            step,
            session: None,
            pending: VecDeque::new(),
            next: 0,
            buffer: Vec::new(),
            due: None,
            parts: Vec::new(),
            opened: 0,
            ended,
        }
    }
}

#[wasm_bindgen]
impl Channel {
    /// The first bytes to send.
    pub fn hello(&self) -> Vec<u8> {
        let step = self.step.as_ref();
        step.map_or_else(Vec::new, |step| Step::ClientHello.frame(&step.hello))
    }

    /// Takes received bytes, split anywhere. Call [`next`](Self::next) until it returns nothing before the next call, so that
    /// at most one frame and one chunk are buffered.
    pub fn feed(&mut self, bytes: Vec<u8>) {
        if self.ended.is_none() {
            self.buffer.extend_from_slice(&bytes);
        }
    }

    /// The next event in the received bytes. `None` if more are needed.
    pub fn next(&mut self, now_ms: f64) -> Option<ChannelEvent> {
        let state = match self.advance(moment(now_ms), steady()) {
            Ok(state) => state?,
            Err(failure) => self.fail(failure),
        };
        Some(ChannelEvent { state })
    }

    /// Number of authenticated frames, heartbeats included. Only these show that the enclave is alive: a relay can send arbitrary
    /// bytes.
    #[wasm_bindgen(js_name = framesOpened)]
    pub fn frames_opened(&self) -> u32 {
        self.opened
    }

    /// Reports the end of the connection. Returns nothing if the enclave had closed the session.
    #[wasm_bindgen(js_name = connectionEnded)]
    pub fn connection_ended(&mut self) -> Option<ChannelEvent> {
        if self.ended.is_some() {
            return None;
        }
        let ended = match &mut self.session {
            Some((_, receiver)) => receiver.end(),
            None => Err(ChannelError::CutOff),
        };
        let state = self.fail(ended.err()?.into());
        Some(ChannelEvent { state })
    }

    /// Seals the next request. `headers` is a flat list: name, value, name, value. Answers have the order of their requests.
    pub fn seal(
        &mut self,
        method: String,
        path: String,
        headers: Vec<String>,
        content: Vec<u8>,
        now_ms: f64,
    ) -> ChannelBytes {
        let request = InnerRequest {
            method,
            path,
            headers: fields(headers),
            content,
        };
        ChannelBytes {
            state: self.ask(request, moment(now_ms), steady()),
        }
    }

    /// The last frame, which tells the enclave that there are no more requests. Pending answers still arrive.
    pub fn close(&mut self) -> ChannelBytes {
        ChannelBytes {
            state: self.frame(Kind::Shutdown, b"", steady()),
        }
    }
}

impl Channel {
    fn fail(&mut self, failure: Failure) -> Event {
        self.step = None;
        self.session = None;
        self.pending.clear();
        self.buffer = Vec::new();
        self.parts = Vec::new();
        self.ended = Some(failure.clone());
        Event::Failed(failure)
    }

    /// `now` is wall-clock time, `steady` is monotonic.
    fn advance(
        &mut self,
        now: UnixMillis,
        steady: MonotonicMillis,
    ) -> Result<Option<Event>, Failure> {
        if self.ended.is_some() {
            return Ok(None);
        }
        match self.step.take() {
            Some(opening) => self.open(opening, now, steady),
            None => self.receive(now),
        }
    }

    /// Receives the server hello, returns the client key.
    fn open(
        &mut self,
        opening: Opening,
        now: UnixMillis,
        steady: MonotonicMillis,
    ) -> Result<Option<Event>, Failure> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else {
            self.step = Some(opening);
            return Ok(None);
        };
        let end = HEADER + Step::ServerHello.length(header)?;
        let Some(message) = self.buffer.get(HEADER..end) else {
            self.step = Some(opening);
            return Ok(None);
        };
        let Offer::Endorsed(offer) = opening.awaiting.receive(message)? else {
            return Err(Failure::stale());
        };
        let attested = offer.check(now)?;
        let (key, session) = attested.finish(steady, &mut UnwrapErr(SysRng))?;
        self.buffer.drain(..end);
        let Session {
            sender, receiver, ..
        } = session;
        self.session = Some((sender, receiver));
        Ok(Some(Event::Opened(Step::ClientKey.frame(&key))))
    }

    fn receive(&mut self, now: UnixMillis) -> Result<Option<Event>, Failure> {
        loop {
            let Some((kind, message)) = self.message()? else {
                return Ok(None);
            };
            match kind {
                Kind::Heartbeat => {}
                Kind::Shutdown if self.pending.is_empty() => {
                    self.ended = Some(ChannelError::Closed.into());
                    return Ok(Some(Event::Closed));
                }
                // The server closed early (rotation or shutdown) and left requests unanswered.
                Kind::Shutdown => return Err(ChannelError::Closed.into()),
                Kind::Data => return self.answer(&message, now).map(Some),
                _ => return Err(Failure::out_of_turn()),
            }
        }
    }

    /// The next complete message. Checks every declared length before waiting for more bytes.
    fn message(&mut self) -> Result<Option<(Kind, Vec<u8>)>, Failure> {
        let Some((_, receiver)) = &mut self.session else {
            return Ok(None);
        };
        loop {
            let header = match (self.due, self.buffer.first_chunk::<HEADER>()) {
                (Some(header), _) => header,
                (None, Some(bytes)) => {
                    let header = receiver.header(bytes)?;
                    let length = self.parts.len() + header.length().saturating_sub(TAG);
                    if length > MAX_MESSAGE {
                        return Err(ChannelError::TooLarge {
                            length: length as u64,
                            limit: MAX_MESSAGE as u64,
                        }
                        .into());
                    }
                    self.due = Some(header);
                    header
                }
                (None, None) => return Ok(None),
            };
            let end = HEADER + header.length();
            let Some(body) = self.buffer.get_mut(HEADER..end) else {
                return Ok(None);
            };
            self.due = None;
            let frame = receiver.open(&header, body)?;
            self.opened = self.opened.wrapping_add(1);
            let (kind, more) = (frame.kind, frame.more);
            let whole = match kind {
                // May arrive between the parts of a message.
                Kind::Heartbeat => Some(Vec::new()),
                _ => {
                    self.parts.extend_from_slice(frame.payload);
                    (!more).then(|| std::mem::take(&mut self.parts))
                }
            };
            self.buffer.drain(..end);
            if let Some(whole) = whole {
                return Ok(Some((kind, whole)));
            }
        }
    }

    fn answer(&mut self, message: &[u8], now: UnixMillis) -> Result<Event, Failure> {
        let (Some((number, payload)), Some((due, asked))) =
            (message.split_first_chunk(), self.pending.pop_front())
        else {
            return Err(Failure::out_of_turn());
        };
        if u64::from_be_bytes(*number) != due {
            return Err(Failure::out_of_turn());
        }
        let answer: Answer = asked.finish(payload, now)?;
        Ok(Event::Answered(Box::new(OpenedAnswer::new(
            Ok(answer),
            &self.enclave,
        ))))
    }

    fn ask(
        &mut self,
        request: InnerRequest,
        now: UnixMillis,
        steady: MonotonicMillis,
    ) -> Result<Vec<u8>, Failure> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let rng = &mut UnwrapErr(SysRng);
        let (inner, asked) = PendingResponse::new(&self.enclave.attestation, request, now, rng)?;
        let numbered = [&self.next.to_be_bytes()[..], &inner].concat();
        let bytes = self.frame(Kind::Data, &numbered, steady)?;
        self.pending.push_back((self.next, asked));
        self.next += 1;
        Ok(bytes)
    }

    fn frame(
        &mut self,
        kind: Kind,
        payload: &[u8],
        steady: MonotonicMillis,
    ) -> Result<Vec<u8>, Failure> {
        let (sender, _) = self.session.as_mut().ok_or(ChannelError::Closed)?;
        let mut out = Vec::with_capacity(HEADER + payload.len() + TAG);
        sender.append(kind, payload, steady, &mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
