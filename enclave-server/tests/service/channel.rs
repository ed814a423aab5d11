//! Attested channels: the same requests as at the gateway, over one connection.

use std::sync::Arc;
use std::time::Duration;

use channel::{Channel, Error, Verifier, connect_known};
use protocol::channel::frame::Kind;
use protocol::exchange::{Answer, PendingResponse};
use protocol::inner::InnerRequest;
use protocol::items::stated_root;
use protocol::vectors::Vectors;
use rand_core::UnwrapErr;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

use crate::common::{Attested, HeldToy, MODEL, Options, Rig, code, embeddings};
use enclave_server::keys::Periods;
use engine::PoolLimits;

const DEADLINE: Duration = Duration::from_secs(60);

/// The rig with a socket listener, until it is dropped.
pub(crate) struct Listening {
    pub(crate) rig: Rig,
    pub(crate) address: std::net::SocketAddr,
    stop: Arc<Notify>,
    ended: Option<oneshot::Receiver<()>>,
}

impl Listening {
    pub(crate) async fn start(options: Options) -> Self {
        let rig = Rig::with(options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (router, service) = (rig.router.clone(), Arc::clone(&rig.service));
        let stop = Arc::new(Notify::new());
        let (end, ended) = oneshot::channel();
        let stopped = Arc::clone(&stop);
        tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown({
                    let service = Arc::clone(&service);
                    async move {
                        stopped.notified().await;
                        service.drain();
                    }
                })
                .await
                .unwrap();
            service.wait_for_channels().await;
            end.send(()).ok();
        });
        Self {
            rig,
            address,
            stop,
            ended: Some(ended),
        }
    }

    /// Opens a connection and upgrades it.
    async fn stream(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = "GET /v1/channel HTTP/1.1\r\nhost: enclave\r\nconnection: upgrade\r\nupgrade: clearseal-channel\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        stream
    }

    pub(crate) async fn open(&self, attested: &Attested) -> Result<Channel<TcpStream>, Error> {
        let (stream, now) = (self.stream().await, self.rig.now());
        let rng = &mut UnwrapErr(getrandom::SysRng);
        connect_known(stream, &attested.verified, now, DEADLINE, rng).await
    }
}

pub(crate) fn ask(
    rig: &Rig,
    attested: &Attested,
    number: u64,
    request: InnerRequest,
) -> (Vec<u8>, PendingResponse) {
    let rng = &mut UnwrapErr(getrandom::SysRng);
    let (bytes, asked) = PendingResponse::new(&attested.verified, request, rig.now(), rng).unwrap();
    ([&number.to_be_bytes()[..], &bytes].concat(), asked)
}

pub(crate) async fn answer(
    channel: &mut Channel<TcpStream>,
    rig: &Rig,
    number: u64,
    asked: PendingResponse,
) -> Answer {
    let message = channel.incoming.receive().await.unwrap().unwrap();
    assert_eq!(message.kind, Kind::Data);
    let (found, payload) = message.payload.split_first_chunk().unwrap();
    assert_eq!(u64::from_be_bytes(*found), number);
    asked.finish(payload, rig.now()).unwrap()
}

fn tensors(input: &serde_json::Value) -> InnerRequest {
    embeddings(&json!({"model": MODEL, "input": input, "encoding_format": "tensors"}))
}

#[tokio::test]
async fn a_channel_answers_like_the_gateway() {
    let served = Listening::start(Options::default()).await;
    let rig = &served.rig;
    let attested = rig.attest().await;
    let mut channel = served.open(&attested).await.unwrap();
    let sealed = rig
        .exchange(&attested, tensors(&json!(["hello", "hello world"])))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let mut asked = Vec::new();
    for number in 0..5 {
        let (message, one) = ask(
            rig,
            &attested,
            number,
            tensors(&json!(["hello", "hello world"])),
        );
        channel.outgoing.send(Kind::Data, &message).await.unwrap();
        asked.push(one);
    }
    let mut signed = Vec::new();
    for (number, one) in (0..).zip(asked) {
        let answer = answer(&mut channel, rig, number, one).await;
        // Equal except for the root, because each request has a different salt.
        let root = 24..56;
        assert_eq!(
            stated_root(&answer.response.content),
            Some(answer.response.content[root.clone()].try_into().unwrap())
        );
        assert!(answer.response.content[root.end..] == sealed.response.content[root.end..]);
        let receipt = answer.receipt.unwrap();
        signed.push(receipt.report.claims.unwrap().sequence_number);
        let vectors = Vectors::decode(&answer.response.content).unwrap();
        assert_eq!((vectors.dimension, vectors.tokens), (4, vec![3, 4]));
        assert_eq!(vectors.truncated, [false, false]);
        assert_eq!(vectors.values.len(), 8);
    }
    // Answers arrive in order. Of two that are computed together either may be signed first.
    signed.sort_unstable();
    assert_eq!(signed, [2, 3, 4, 5, 6]);
    // A refusal is an answer too, and the session continues.
    for (request, status, wrong) in [
        (tensors(&json!([])), 400, "INPUT_EMPTY"),
        (
            embeddings(&json!({"model": "other", "input": "x"})),
            404,
            "model_not_found",
        ),
    ] {
        let (message, one) = ask(rig, &attested, 9, request);
        channel.outgoing.send(Kind::Data, &message).await.unwrap();
        let answer = answer(&mut channel, rig, 9, one).await;
        assert_eq!(
            (answer.response.status, &code(&answer.response.content)[..]),
            (status, wrong)
        );
        assert!(answer.receipt.is_none());
    }
    channel.outgoing.close().await.unwrap();
    assert!(channel.incoming.receive().await.unwrap().is_none());
    assert!(
        rig.metrics()
            .await
            .contains("clearseal_enclave_channels_total 1\n")
    );
}

#[tokio::test]
async fn a_client_without_keys_gets_a_document_and_rotated_keys_are_stale() {
    let served = Listening::start(Options::default()).await;
    let rig = &served.rig;
    let (_, policy) = rig.get("/v1/development-policy").await;
    let policy = attestation::Policy::with_evidence(&policy).unwrap();
    let mut verifier = Verifier::new(policy).including_simulated();
    for _ in 0..2 {
        let (stream, now) = (served.stream().await, rig.now());
        let rng = &mut UnwrapErr(getrandom::SysRng);
        let mut channel = channel::connect(stream, &mut verifier, now, DEADLINE, rng)
            .await
            .unwrap();
        let known = verifier.known().unwrap().clone();
        let attested = Attested {
            verified: known,
            document: Vec::new(),
            manifest: Vec::new(),
        };
        // The receipt names the session's document.
        let (message, one) = ask(rig, &attested, 0, tensors(&json!("hello")));
        channel.outgoing.send(Kind::Data, &message).await.unwrap();
        assert!(answer(&mut channel, rig, 0, one).await.receipt.is_some());
    }
    assert!(
        rig.metrics()
            .await
            .contains("clearseal_enclave_documents_total 1\n")
    );

    // A replaced generation still endorses. An expired one does not, and accepts no more requests.
    let attested = rig.attest().await;
    let mut old = served.open(&attested).await.unwrap();
    rig.service.rotate().unwrap();
    assert!(served.open(&attested).await.is_ok());
    rig.advance(3_600 + 700);
    rig.service.rotate().unwrap();
    let (message, _) = {
        let rng = &mut UnwrapErr(getrandom::SysRng);
        let earlier = attestation::UnixMillis(rig.now().0 - 4_300_000);
        let request = tensors(&json!("hello"));
        PendingResponse::new(&attested.verified, request, earlier, rng).unwrap()
    };
    let message = [&[0; 8][..], &message].concat();
    old.outgoing.send(Kind::Data, &message).await.unwrap();
    assert!(
        old.incoming.receive().await.unwrap().is_none(),
        "closed, not cut off"
    );
    // By a wrong clock the client's evidence is still valid, but the enclave refuses.
    let (stream, rng) = (served.stream().await, &mut UnwrapErr(getrandom::SysRng));
    let earlier = attestation::UnixMillis(rig.now().0 - 4_300_000);
    let stale = connect_known(stream, &attested.verified, earlier, DEADLINE, rng).await;
    assert_eq!(
        stale.err().map(|error| error.code().to_owned()).as_deref(),
        Some("CHANNEL_STALE")
    );
}

#[tokio::test]
async fn without_an_upgrade_there_is_no_channel() {
    let served = Listening::start(Options::default()).await;
    let (status, problem) = served.rig.get("/v1/channel").await;
    assert_eq!(
        (status.as_u16(), code(&problem).as_str()),
        (426, "UPGRADE_REQUIRED")
    );
    served.rig.service.drain();
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = "GET /v1/channel HTTP/1.1\r\nhost: e\r\nconnection: upgrade, close\r\nupgrade: clearseal-channel\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
}

#[tokio::test]
async fn oversized_and_foreign_messages_end_a_channel() {
    let served = Listening::start(Options::default()).await;
    let attested = served.rig.attest().await;
    for (kind, length) in [
        (Kind::Data, 600 * 1024),
        (Kind::Tensor, 100),
        (Kind::Data, 7),
    ] {
        let mut channel = served.open(&attested).await.unwrap();
        // The server may close before everything is written.
        channel.outgoing.send(kind, &vec![0; length]).await.ok();
        // A close, an authenticated close, or a reset, but never an answer.
        let outcome = channel.incoming.receive().await;
        assert!(!matches!(outcome, Ok(Some(_))), "{kind:?} {length}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_answers_accepted_requests_and_closes() {
    let held = Arc::new(HeldToy::default());
    let mut served = Listening::start(Options {
        encoder: held.clone(),
        ..Options::default()
    })
    .await;
    let attested = served.rig.attest().await;
    let mut channel = served.open(&attested).await.unwrap();
    let (message, asked) = ask(&served.rig, &attested, 0, tensors(&json!("hello")));
    channel.outgoing.send(Kind::Data, &message).await.unwrap();
    held.wait_begun(1).await;
    served.stop.notify_one();
    let mut ended = served.ended.take().unwrap();
    tokio::task::yield_now().await;
    assert!(ended.try_recv().is_err(), "a request is in flight");
    held.release(1);
    let answer = answer(&mut channel, &served.rig, 0, asked).await;
    assert!(answer.receipt.is_some());
    assert!(channel.incoming.receive().await.unwrap().is_none());
    ended.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_queues_two_requests_and_starves_no_other_client() {
    let held = Arc::new(HeldToy::default());
    let served = Listening::start(Options {
        encoder: held.clone(),
        // A batch holds one request, so that a step of the encoder answers one.
        pool: PoolLimits {
            slice_tokens: 3,
            fill_tokens: 1,
            ..PoolLimits::default()
        },
        ..Options::default()
    })
    .await;
    let rig = &served.rig;
    let attested = rig.attest().await;
    let mut channel = served.open(&attested).await.unwrap();
    let mut asked = Vec::new();
    for number in 0..20 {
        let (message, one) = ask(rig, &attested, number, tensors(&json!("hello")));
        channel.outgoing.send(Kind::Data, &message).await.unwrap();
        asked.push(one);
    }
    held.wait_begun(1).await;
    // A sealed request that arrives now is computed after the accepted ones, and not after all twenty.
    let sealed = async {
        let answer = rig.exchange(&attested, tensors(&json!("world"))).await;
        answer.map(|answer| answer.response.status).ok()
    };
    let mut sealed = std::pin::pin!(sealed);
    for turn in 0..8 {
        held.release(1);
        let wait = tokio::time::timeout(Duration::from_millis(200), &mut sealed);
        if let Ok(status) = wait.await {
            assert_eq!(status, Some(200));
            held.release(usize::MAX);
            for (number, one) in (0..).zip(asked) {
                answer(&mut channel, rig, number, one).await;
            }
            return;
        }
        assert!(turn < 7, "twenty requests of one channel came first");
    }
}

#[tokio::test]
async fn a_request_accepted_in_the_last_second_of_the_keys_is_answered() {
    let periods = Periods::new(Duration::from_secs(5), Duration::from_secs(5)).unwrap();
    let served = Listening::start(Options {
        periods,
        ..Options::default()
    })
    .await;
    let rig = &served.rig;
    let attested = rig.attest().await;
    let mut channel = served.open(&attested).await.unwrap();
    // The session is older than keys accept requests. By the rig's clock they still do.
    tokio::time::pause();
    tokio::time::advance(periods.longest() + Duration::from_secs(1)).await;
    tokio::time::resume();
    let (message, asked) = ask(rig, &attested, 0, tensors(&json!(["hello"])));
    channel.outgoing.send(Kind::Data, &message).await.unwrap();
    assert!(answer(&mut channel, rig, 0, asked).await.receipt.is_some());
}
