//! The attested channel: both hellos, frames after the handshake, and tensors.

use attestation::{Aead, Kem};
use protocol::channel::frame::{HEADER, Kind, MAX_PAYLOAD, Step};
use protocol::channel::tensor::{Tensor, append_floats};
use protocol::channel::{
    Accepted, AwaitingHello, ClientOptions, MonotonicMillis, Offer, ReceivedHello, Session, begin,
};

use super::near_misses;
use crate::fixture::{NOW, fixture, rng};

const AEADS: &[Aead] = &[Aead::ChaCha20Poly1305];
const START: MonotonicMillis = MonotonicMillis(0);
const END: MonotonicMillis = MonotonicMillis(1_000_000);

fn client() -> (Vec<u8>, AwaitingHello) {
    let options = ClientOptions {
        kems: &[Kem::X25519],
        aeads: AEADS,
        known: Some(&fixture().attested),
        has_evidence: false,
    };
    begin(options, &mut rng(31)).unwrap()
}

fn server_hello() -> Vec<u8> {
    let prepared = ReceivedHello::read(&client().0, AEADS)
        .unwrap()
        .prepare(&mut rng(32));
    prepared.endorse(&fixture().signer, false).unwrap().0
}

/// Both ends of one session, the same each time.
fn session() -> (Session, Session) {
    let (hello, awaiting) = client();
    let prepared = ReceivedHello::read(&hello, AEADS)
        .unwrap()
        .prepare(&mut rng(32));
    let (answer, awaiting_key) = prepared.endorse(&fixture().signer, false).unwrap();
    let Offer::Endorsed(offer) = awaiting.receive(&answer).unwrap() else {
        panic!("a document was not asked for");
    };
    let attested = offer.check(NOW).unwrap();
    let (key, client) = attested.finish(START, &mut rng(33)).unwrap();
    match awaiting_key.receive(&key, START, END).unwrap() {
        Accepted::Anonymous(server) => (client, server),
        Accepted::WithEvidence(_) => panic!("evidence was not asked for"),
    }
}

/// The first byte selects the hello. Only the genuine server hello opens a session.
pub(super) fn hello(data: &[u8]) {
    match data.split_first() {
        Some((0, message)) => {
            if let Ok(arrival) = ReceivedHello::read(message, AEADS) {
                arrival.prepare(&mut rng(34)).configs();
            }
        }
        Some((_, message)) => {
            let Ok(offer) = client().1.receive(message) else {
                return;
            };
            let accepted = match offer {
                Offer::Endorsed(offer) => offer.check(NOW).is_ok(),
                Offer::Documented(offer) => {
                    let mut memory = attestation::SignatureMemory::new();
                    let (report, judged) = offer.appraise(fixture().policy(), NOW, &mut memory);
                    super::check_report(&report);
                    judged
                        .including_simulated()
                        .is_ok_and(|found| found.is_some())
                }
            };
            // "Wants evidence" alone is not signed, and is part of the transcript instead.
            let genuine = server_hello();
            assert!(!accepted || message[..message.len() - 1] == genuine[..genuine.len() - 1]);
        }
        None => {}
    }
}

pub(super) fn hello_seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, message: Vec<u8>| near_misses(&[&[tag], &message[..]].concat());
    [tagged(0, client().0), tagged(1, server_hello())].concat()
}

/// A stream of frames at the receiver. Everything that is opened equals what was sealed, from the beginning.
pub(super) fn frames(data: &[u8]) {
    let (mut client, mut server) = session();
    let mut rest = data;
    let mut opened = 0;
    while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
        for step in [Step::ClientHello, Step::ServerHello, Step::ClientKey] {
            let _ = step.length(header);
        }
        let Ok(header) = server.receiver.header(header) else {
            break;
        };
        assert!(header.length() <= MAX_PAYLOAD + 16);
        let Some((body, after)) = after.split_at_checked(header.length()) else {
            break;
        };
        let mut body = body.to_vec();
        if server.receiver.open(&header, &mut body).is_err() {
            break;
        }
        opened += HEADER + header.length();
        rest = after;
    }
    let genuine = stream(&mut client);
    assert!(genuine.starts_with(&data[..opened]));
    assert_eq!(server.receiver.end().is_ok(), opened == genuine.len());
}

fn stream(client: &mut Session) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in [
        (Kind::Data, &b"a line"[..]),
        (Kind::Heartbeat, b""),
        (Kind::Tensor, &[0; 40]),
        (Kind::Shutdown, b""),
    ] {
        client
            .sender
            .append(kind, payload, START, &mut out)
            .unwrap();
    }
    out
}

pub(super) fn frames_seeds() -> Vec<Vec<u8>> {
    let whole = stream(&mut session().0);
    let mut seeds = near_misses(&whole);
    // The second frame before the first.
    seeds.push([&whole[38..70], &whole[..38], &whole[70..]].concat());
    seeds
}

/// A tensor is read in place, and has one encoding.
pub(super) fn tensor(data: &[u8]) {
    let Ok(tensor) = Tensor::parse(data) else {
        return;
    };
    let elements: u64 = tensor.shape().iter().product();
    assert_eq!(
        elements * tensor.dtype().size() as u64,
        tensor.data().len() as u64
    );
    if let Ok(floats) = tensor.to_floats() {
        let mut again = Vec::new();
        append_floats(tensor.shape(), tensor.name(), &floats, &mut again).unwrap();
        // A signalling NaN may come back as a quiet one.
        let head = data.len() - tensor.data().len();
        assert_eq!(again[..head], data[..head]);
        assert_eq!(again.len(), data.len());
    }
}

pub(super) fn tensor_seeds() -> Vec<Vec<u8>> {
    let mut good = Vec::new();
    append_floats(&[2, 2], "embeddings", &[1.0, 2.0, 3.0, 4.0], &mut good).unwrap();
    near_misses(&good)
}
