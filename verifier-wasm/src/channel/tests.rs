//! Tests the client handle against the protocol's server: bytes split anywhere, changed anywhere, and out of order.

use std::cell::RefCell;

use attestation::Evidence;
use fixtures::channel::{END, START, anonymous};
use fixtures::enclave::{Enclave, NOW, request};
use protocol::channel::{AwaitingKey, Prepared, ReceivedHello, preferred_aeads};
use protocol::inner::InnerResponse;
use protocol::receipt::ReceiptSigner;

use super::*;

/// A trusted enclave, and the key that signs for it.
struct Fixture {
    signer: ReceiptSigner,
    enclave: TrustedEnclave,
}

impl Fixture {
    fn start() -> Self {
        let enclave = Enclave::start(1);
        let attestation = enclave.attested();
        Self {
            signer: enclave.signer,
            enclave: TrustedEnclave {
                attestation,
                prepared: RefCell::new(None),
                document: enclave.document,
                manifest: enclave.manifest,
                crls: Vec::new(),
            },
        }
    }

    /// A new channel, and its server's first message.
    fn meet(&self) -> (Channel, Vec<u8>, AwaitingKey) {
        let channel = self.enclave.open_channel();
        let hello = channel.hello();
        let (answer, awaiting) = prepare(&hello[HEADER..])
            .endorse(&self.signer, false)
            .unwrap();
        (channel, Step::ServerHello.frame(&answer), awaiting)
    }

    /// An open channel with `requests` under way, and the server's session.
    fn open(&self, requests: usize) -> (Channel, Session) {
        let (mut channel, hello, awaiting) = self.meet();
        let key = opened(&mut channel, &hello);
        let session = accept(awaiting, &key);
        for _ in 0..requests {
            channel.ask(request(), NOW, START).unwrap();
        }
        (channel, session)
    }
}

fn prepare(hello: &[u8]) -> Prepared {
    ReceivedHello::read(hello, preferred_aeads())
        .unwrap()
        .prepare(&mut fixtures::rng(2))
}

fn accept(awaiting: AwaitingKey, key: &[u8]) -> Session {
    anonymous(awaiting.receive(&key[HEADER..], START, END).unwrap())
}

/// Gives the server hello to a channel; returns the client key.
fn opened(channel: &mut Channel, hello: &[u8]) -> Vec<u8> {
    channel.feed(hello.to_vec());
    match channel.advance(NOW, START).unwrap() {
        Some(Event::Opened(key)) => key,
        _ => panic!("the channel did not open"),
    }
}

/// A refusal, which needs no receipt.
fn answer(number: u64) -> Vec<u8> {
    let response = InnerResponse {
        status: 400,
        headers: Vec::new(),
        content: b"no".to_vec(),
    };
    [
        &number.to_be_bytes()[..],
        &response.encode_padded().unwrap(),
    ]
    .concat()
}

fn frame(session: &mut Session, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let sealed = session.sender.append(kind, payload, START, &mut out);
    sealed.unwrap();
    out
}

/// Two answers, a heartbeat and a close, as bytes on the wire.
fn conversation(session: &mut Session) -> Vec<u8> {
    let first = frame(session, Kind::Data, &answer(0));
    let alive = frame(session, Kind::Heartbeat, b"");
    let second = frame(session, Kind::Data, &answer(1));
    let close = frame(session, Kind::Shutdown, b"");
    [first, alive, second, close].concat()
}

/// Everything that comes of these bytes: the number of answers, whether there was a close, and the failure.
fn outcome(channel: &mut Channel, pieces: &[&[u8]]) -> (usize, bool, Option<Failure>) {
    let (mut answers, mut closed) = (0, false);
    for piece in pieces {
        channel.feed(piece.to_vec());
        loop {
            match channel.advance(NOW, START) {
                Ok(None) => break,
                Ok(Some(Event::Answered(answered))) => {
                    assert_eq!(answered.body(), b"no");
                    answers += 1;
                }
                Ok(Some(Event::Closed)) => closed = true,
                Ok(Some(_)) => panic!("opened twice"),
                Err(failure) => {
                    channel.fail(failure.clone());
                    return (answers, closed, Some(failure));
                }
            }
        }
    }
    (answers, closed, None)
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let fixture = Fixture::start();
    let (mut channel, mut session) = fixture.open(2);
    let wire = conversation(&mut session);
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(outcome(&mut channel, &bytes), (2, true, None));
    assert!(channel.connection_ended().is_none());

    let (mut channel, hello, _) = fixture.meet();
    let (last, before) = hello.split_last().unwrap();
    for byte in before {
        channel.feed(vec![*byte]);
        assert!(matches!(channel.advance(NOW, START), Ok(None)));
    }
    opened(&mut channel, &[*last]);
}

#[test]
fn only_what_opens_is_a_sign_of_life() {
    let fixture = Fixture::start();
    let (mut channel, mut session) = fixture.open(1);
    let alive = frame(&mut session, Kind::Heartbeat, b"");
    let large = frame(&mut session, Kind::Data, &answer(0));
    let begun = &large[..large.len() - 1];
    for (bytes, opened) in [(&b""[..], 0), (&alive, 1), (begun, 1)] {
        channel.feed(bytes.to_vec());
        assert!(channel.advance(NOW, START).unwrap().is_none());
        assert_eq!(channel.frames_opened(), opened);
    }
    channel.feed(large[begun.len()..].to_vec());
    assert!(channel.advance(NOW, START).unwrap().is_some());
    assert_eq!(channel.frames_opened(), 2);
}

#[test]
fn no_byte_of_what_a_server_sends_can_be_changed() {
    let fixture = Fixture::start();
    let (_, mut session) = fixture.open(2);
    let length = conversation(&mut session).len();
    for at in 0..length {
        let (mut channel, mut session) = fixture.open(2);
        let mut wire = conversation(&mut session);
        wire[at] ^= 1;
        let (answers, closed, failure) = outcome(&mut channel, &[&wire]);
        assert!(answers < 3 && !closed, "byte {at}");
        // A larger length makes the client wait, and the end of the connection is then not a close.
        let failure = failure.or_else(|| match channel.connection_ended()?.state {
            Event::Failed(failure) => Some(failure),
            _ => None,
        });
        let failure = failure.unwrap_or_else(|| panic!("byte {at} was changed unseen"));
        assert!(
            !failure.transient || failure.code == "CHANNEL_CUT_OFF",
            "byte {at}: {failure:?}"
        );
        // It is over for good.
        let refused = channel.ask(request(), NOW, START);
        assert_eq!(
            refused.err().map(|it| it.code),
            Some(failure.code),
            "byte {at}"
        );
        channel.feed(wire);
        assert!(matches!(channel.advance(NOW, START), Ok(None)), "byte {at}");
    }
}

#[test]
fn a_hello_that_was_changed_opens_nothing() {
    let fixture = Fixture::start();
    let (_, hello, _) = fixture.meet();
    for at in 0..hello.len() {
        let (mut channel, mut hello, _) = fixture.meet();
        hello[at] ^= 1;
        channel.feed(hello);
        // A larger length makes the client wait.
        if let Ok(state) = channel.advance(NOW, START) {
            assert!(state.is_none() && at < 4, "byte {at}");
        }
    }
}

#[test]
fn answers_out_of_turn_are_refused() {
    let fixture = Fixture::start();
    for (requests, number) in [(1, 1), (2, 1), (0, 0), (1, u64::MAX)] {
        let (mut channel, mut session) = fixture.open(requests);
        let wire = frame(&mut session, Kind::Data, &answer(number));
        let (_, _, failure) = outcome(&mut channel, &[&wire]);
        let code = failure.map(|failure| failure.code);
        assert_eq!(
            code.as_deref(),
            Some("CHANNEL_OUT_OF_TURN"),
            "{requests} {number}"
        );
    }
    for (kind, payload) in [
        (Kind::Tensor, &b"12345678"[..]),
        (Kind::Error, b"no"),
        (Kind::Data, b"short"),
    ] {
        let (mut channel, mut session) = fixture.open(1);
        let wire = frame(&mut session, kind, payload);
        let (_, _, failure) = outcome(&mut channel, &[&wire]);
        let code = failure.map(|failure| failure.code);
        assert_eq!(code.as_deref(), Some("CHANNEL_OUT_OF_TURN"), "{kind:?}");
    }
}

#[test]
fn a_message_is_bounded_before_it_is_there() {
    let fixture = Fixture::start();
    let (mut channel, mut session) = fixture.open(1);
    let mut whole = vec![7; 1 << 20];
    let mut parts = 0;
    let failure = loop {
        let sealed = session
            .sender
            .seal(Kind::Data, true, &mut whole, START)
            .unwrap();
        let wire = [&sealed.header[..], &whole, &sealed.tag].concat();
        parts += 1;
        // The last header alone is refused.
        let piece = if parts > 16 {
            &wire[..HEADER]
        } else {
            &wire[..]
        };
        if let (_, _, Some(failure)) = outcome(&mut channel, &[piece]) {
            break failure;
        }
        assert!(channel.buffer.is_empty());
    };
    assert_eq!((failure.code.as_str(), parts), ("CHANNEL_TOO_LARGE", 17));
}

#[test]
fn a_close_ends_a_session_and_a_cut_does_not() {
    let fixture = Fixture::start();
    let (mut channel, mut session) = fixture.open(1);
    let wire = frame(&mut session, Kind::Shutdown, b"");
    let (_, closed, failure) = outcome(&mut channel, &[&wire]);
    let failure = failure.unwrap();
    // With a request unanswered, so that the client comes back.
    assert!(!closed && failure.transient && failure.code == "CHANNEL_CLOSED");

    let (mut channel, _) = fixture.open(0);
    let Some(Event::Failed(failure)) = channel.connection_ended().map(|event| event.state) else {
        panic!("a cut passed for a close");
    };
    assert!(failure.transient && failure.code == "CHANNEL_CUT_OFF");
    assert!(channel.connection_ended().is_none());
}

#[test]
fn a_document_in_place_of_an_endorsement_is_stale_and_an_attestation_ends() {
    let fixture = Fixture::start();
    let (mut channel, ..) = fixture.meet();
    let prepared = prepare(&channel.hello()[HEADER..]);
    let evidence = Evidence {
        document: &fixture.enclave.document,
        manifest: &fixture.enclave.manifest,
    };
    let (answer, _) = prepared.document(evidence, false);
    channel.feed(Step::ServerHello.frame(&answer));
    let failure = channel.advance(NOW, START).err().unwrap();
    assert!(failure.stale && !failure.transient && failure.code == "CHANNEL_STALE");

    let (mut channel, _) = fixture.open(0);
    let late = UnixMillis(fixture.enclave.attestation.valid_until().0 + 1);
    let failure = channel.ask(request(), late, START).err().unwrap();
    assert!(failure.stale, "{failure:?}");
    // Nothing was sent, so the channel is as it was.
    assert!(channel.ask(request(), NOW, START).is_ok());
}
