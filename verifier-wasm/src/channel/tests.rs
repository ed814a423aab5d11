//! The handle against a server of the protocol's own: cut anywhere, changed anywhere, out of turn.

use std::cell::RefCell;

use attestation::{
    Evidence, HashScheme, ModelIdentity, Policy, SecurityMode, ServiceManifest, SignatureMemory,
    TrustAnchor, manifest_binding,
};
use protocol::channel::{Accepted, AwaitingKey, Prepared, ReceivedHello, preferred_aeads};
use protocol::inner::InnerResponse;
use protocol::receipt::ReceiptSigner;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::*;

const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
const START: MonotonicMillis = MonotonicMillis(5_000);
const END: MonotonicMillis = MonotonicMillis(3_605_000);

/// An enclave, and what a page knows of it.
struct Scene {
    signer: ReceiptSigner,
    enclave: TrustedEnclave,
}

impl Scene {
    fn start() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let signer = ReceiptSigner::generate(&mut rng);
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let mut issuer = forge::Issuer::new(root, &mut rng, NOW.0);
        let anchor = TrustAnchor::development(issuer.root_der()).unwrap();
        let pcrs = forge::Contents::example().pcrs.into_iter();
        let pcrs = pcrs.filter(|(index, _)| *index < 3).collect();
        let policy = Policy::for_development(anchor, pcrs, &manifest(&signer, Vec::new())).unwrap();
        let (hello, awaiting) = begin(ClientOptions::default(), &mut rng).unwrap();
        let prepared = prepare(&hello);
        let manifest = manifest(&signer, prepared.configs()).encode().unwrap();
        let contents = forge::Contents {
            public_key: Some(prepared.x25519_key().to_vec()),
            user_data: Some(manifest_binding(&manifest).to_vec()),
            nonce: Some(prepared.nonce().to_vec()),
            ..forge::Contents::example()
        };
        let document = issuer.document(&contents, NOW.0, &mut rng);
        let evidence = Evidence {
            document: &document,
            manifest: &manifest,
        };
        let (answer, _) = prepared.document(evidence, false);
        let Offer::Documented(offer) = awaiting.receive(&answer).unwrap() else {
            panic!("a document was sent");
        };
        let (_, judged) = offer.appraise(&policy, NOW, &mut SignatureMemory::new());
        let attested = judged.including_simulated().unwrap().unwrap();
        let enclave = TrustedEnclave {
            attestation: attested.attestation().clone(),
            prepared: RefCell::new(None),
            document,
            manifest,
            crls: Vec::new(),
        };
        Self { signer, enclave }
    }

    /// A channel, and what its server says first.
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
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    ReceivedHello::read(hello, preferred_aeads())
        .unwrap()
        .prepare(&mut rng)
}

fn accept(awaiting: AwaitingKey, key: &[u8]) -> Session {
    match awaiting.receive(&key[HEADER..], START, END).unwrap() {
        Accepted::Anonymous(session) => session,
        Accepted::WithEvidence(_) => panic!("no evidence was asked for"),
    }
}

/// Gives the server hello to a channel; returns the client key.
fn opened(channel: &mut Channel, hello: &[u8]) -> Vec<u8> {
    channel.feed(hello.to_vec());
    match channel.advance(NOW, START).unwrap() {
        Some(Happened::Opened(key)) => key,
        _ => panic!("the channel did not open"),
    }
}

fn manifest(signer: &ReceiptSigner, sealing_keys: Vec<attestation::KeyConfig>) -> ServiceManifest {
    ServiceManifest {
        version: 1,
        sealing_keys,
        receipt_key: signer.public_key(),
        model: ModelIdentity {
            id: "all-MiniLM-L6-v2".into(),
            version: "1".into(),
            sha256: [5; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "2026-11-01".into(),
        security_mode: SecurityMode::Evaluation,
        not_before: NOW.seconds() - 60,
        not_after: NOW.seconds() + 3_600,
    }
}

fn request() -> InnerRequest {
    InnerRequest {
        method: "POST".into(),
        path: "/v1/embeddings".into(),
        headers: Vec::new(),
        content: b"{}".to_vec(),
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

/// What two answers, a sign of life and a close look like on the wire.
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
                Ok(Some(Happened::Answered(answered))) => {
                    assert_eq!(answered.body(), b"no");
                    answers += 1;
                }
                Ok(Some(Happened::Closed)) => closed = true,
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
    let scene = Scene::start();
    let (mut channel, mut session) = scene.open(2);
    let wire = conversation(&mut session);
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(outcome(&mut channel, &bytes), (2, true, None));
    assert!(channel.connection_ended().is_none());

    let (mut channel, hello, _) = scene.meet();
    let (last, before) = hello.split_last().unwrap();
    for byte in before {
        channel.feed(vec![*byte]);
        assert!(matches!(channel.advance(NOW, START), Ok(None)));
    }
    opened(&mut channel, &[*last]);
}

#[test]
fn only_what_opens_is_a_sign_of_life() {
    let scene = Scene::start();
    let (mut channel, mut session) = scene.open(1);
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
    let scene = Scene::start();
    let (_, mut session) = scene.open(2);
    let length = conversation(&mut session).len();
    for at in 0..length {
        let (mut channel, mut session) = scene.open(2);
        let mut wire = conversation(&mut session);
        wire[at] ^= 1;
        let (answers, closed, failure) = outcome(&mut channel, &[&wire]);
        assert!(answers < 3 && !closed, "byte {at}");
        // A length that grew is waited for, and the end of the connection is then no close.
        let failure = failure.or_else(|| match channel.connection_ended()?.state {
            Happened::Failed(failure) => Some(failure),
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
    let scene = Scene::start();
    let (_, hello, _) = scene.meet();
    for at in 0..hello.len() {
        let (mut channel, mut hello, _) = scene.meet();
        hello[at] ^= 1;
        channel.feed(hello);
        // A length that grew is waited for.
        if let Ok(state) = channel.advance(NOW, START) {
            assert!(state.is_none() && at < 4, "byte {at}");
        }
    }
}

#[test]
fn answers_out_of_turn_are_refused() {
    let scene = Scene::start();
    for (requests, number) in [(1, 1), (2, 1), (0, 0), (1, u64::MAX)] {
        let (mut channel, mut session) = scene.open(requests);
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
        let (mut channel, mut session) = scene.open(1);
        let wire = frame(&mut session, kind, payload);
        let (_, _, failure) = outcome(&mut channel, &[&wire]);
        let code = failure.map(|failure| failure.code);
        assert_eq!(code.as_deref(), Some("CHANNEL_OUT_OF_TURN"), "{kind:?}");
    }
}

#[test]
fn a_message_is_bounded_before_it_is_there() {
    let scene = Scene::start();
    let (mut channel, mut session) = scene.open(1);
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
    let scene = Scene::start();
    let (mut channel, mut session) = scene.open(1);
    let wire = frame(&mut session, Kind::Shutdown, b"");
    let (_, closed, failure) = outcome(&mut channel, &[&wire]);
    let failure = failure.unwrap();
    // With a request unanswered, so that the client comes back.
    assert!(!closed && failure.transient && failure.code == "CHANNEL_CLOSED");

    let (mut channel, _) = scene.open(0);
    let Some(Happened::Failed(failure)) = channel.connection_ended().map(|event| event.state)
    else {
        panic!("a cut passed for a close");
    };
    assert!(failure.transient && failure.code == "CHANNEL_CUT_OFF");
    assert!(channel.connection_ended().is_none());
}

#[test]
fn a_document_in_place_of_an_endorsement_is_stale_and_an_attestation_ends() {
    let scene = Scene::start();
    let (mut channel, ..) = scene.meet();
    let prepared = prepare(&channel.hello()[HEADER..]);
    let evidence = Evidence {
        document: &scene.enclave.document,
        manifest: &scene.enclave.manifest,
    };
    let (answer, _) = prepared.document(evidence, false);
    channel.feed(Step::ServerHello.frame(&answer));
    let failure = channel.advance(NOW, START).err().unwrap();
    assert!(failure.stale && !failure.transient && failure.code == "CHANNEL_STALE");

    let (mut channel, _) = scene.open(0);
    let late = UnixMillis(scene.enclave.attestation.valid_until().0 + 1);
    let failure = channel.ask(request(), late, START).err().unwrap();
    assert!(failure.stale, "{failure:?}");
    // Nothing was sent, so the channel is as it was.
    assert!(channel.ask(request(), NOW, START).is_ok());
}
