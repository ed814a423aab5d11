//! Requests and answers in chunks, and streams of rows: by this project's client code, and by the crates `ohttp` and `bhttp`.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use attestation::{Kem, KeyConfig};
use axum::body::{Body, HttpBody};
use axum::http::{Request, StatusCode};
use bhttp::{Message, Mode};
use clearseal_client::Error;
use enclave_server::api::AnswerSteps;
use engine::{EncodeError, Encoder};
use futures_util::io::{AsyncReadExt as TheirRead, AsyncWrite, AsyncWriteExt as TheirWrite};
use getrandom::SysRng;
use protocol::exchange::{self, Answer, ExchangeError, PendingChunks};
use protocol::inner::InnerRequest;
use protocol::padme::padded_len;
use protocol::terms;
use rand_core::UnwrapErr;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::bulk::{client, stack};
use crate::common::{Attested, MODEL, Options, Rig, Toy, code, embeddings, hello};
use crate::interop::terms as their_terms;

const MEDIA_TYPE: &str = "message/ohttp-chunked-req";

fn begin(rig: &Rig, attested: &Attested, request: InnerRequest) -> (Vec<u8>, PendingChunks) {
    let rng = &mut UnwrapErr(SysRng);
    exchange::begin_chunked(&attested.verified, request, rig.now(), rng).unwrap()
}

/// Posts a request in chunks; returns the answer's body as it arrives.
async fn post(rig: &Rig, sealed: Vec<u8>) -> Body {
    let request = Request::post("/v1/gateway").header("content-type", MEDIA_TYPE);
    let response = rig
        .router
        .clone()
        .oneshot(request.body(Body::from(sealed)).unwrap());
    let response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        response.headers()["content-type"],
        "message/ohttp-chunked-res"
    );
    assert_eq!(response.headers()["incremental"], "?1");
    response.into_body()
}

async fn next_part(body: &mut Body) -> Option<Vec<u8>> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    Some(frame.unwrap().into_data().unwrap().to_vec())
}

async fn ask(
    rig: &Rig,
    attested: &Attested,
    request: InnerRequest,
) -> Result<Answer, ExchangeError> {
    let (sealed, mut pending) = begin(rig, attested, request);
    let mut body = post(rig, sealed).await;
    while let Some(part) = next_part(&mut body).await {
        pending.push(&part)?;
    }
    pending.finish(rig.now())
}

/// A stream of `count` texts of different lengths.
fn stream(count: usize, format: &str) -> Value {
    let input: Vec<_> = (0..count).map(|n| "hello ".repeat(n % 9 + 1)).collect();
    json!({"model": MODEL, "input": input, "encoding_format": format, "stream": true})
}

fn lines(content: &[u8]) -> Vec<Value> {
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_stream_has_the_rows_of_the_whole_answer_and_a_receipt() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    for format in ["float", "base64"] {
        let streamed = ask(&rig, &attested, embeddings(&stream(70, format)))
            .await
            .unwrap();
        assert_eq!(
            streamed.response.header("content-type"),
            Some("application/x-ndjson")
        );
        let report = streamed.receipt.unwrap().report;
        assert_eq!(report.verdict, attestation::Verdict::Simulated);
        let mut body = stream(70, format);
        body.as_object_mut().unwrap().remove("stream");
        let whole = rig.exchange(&attested, embeddings(&body)).await.unwrap();
        let whole: Value = serde_json::from_slice(&whole.response.content).unwrap();
        let mut rows = lines(&streamed.response.content);
        let last = rows.pop().unwrap();
        assert_eq!(Value::from(rows), whole["data"]);
        assert_eq!(
            (&last["usage"], &last["model"]),
            (&whole["usage"], &whole["model"])
        );
    }
}

/// The toy model, which computes texts of more than nine words only once the gate is open.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Encoder for Gate {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        if sequences.iter().any(|sequence| sequence.len() > 11) {
            let is_open = self.is_open.lock().unwrap();
            drop(self.changed.wait_while(is_open, |is_open| !*is_open));
        }
        Toy.encode(sequences)
    }
    fn dimension(&self) -> usize {
        Toy.dimension()
    }
    fn is_normalised(&self) -> bool {
        Toy.is_normalised()
    }
    fn max_tokens(&self) -> usize {
        Toy.max_tokens()
    }
    fn vocabulary(&self) -> usize {
        Toy.vocabulary()
    }
    fn name(&self) -> &'static str {
        Toy.name()
    }
}

#[tokio::test]
async fn rows_are_sent_before_later_ones_are_computed() {
    let gate = Arc::new(Gate::default());
    let rig = Rig::with(Options {
        encoder: gate.clone(),
        ..Options::default()
    });
    let attested = rig.attest().await;
    let mut request = stream(70, "float");
    request["input"][40] = "hello ".repeat(10).into();
    let (sealed, mut pending) = begin(&rig, &attested, embeddings(&request));
    let mut body = post(&rig, sealed).await;
    while lines(pending.content()).len() < 32 {
        pending.push(&next_part(&mut body).await.unwrap()).unwrap();
    }
    assert_eq!(pending.head().unwrap().0, 200);
    let early = lines(pending.content());
    assert_eq!((early.len(), &early[31]["index"]), (32, &json!(31)));
    gate.open();
    while let Some(part) = next_part(&mut body).await {
        pending.push(&part).unwrap();
    }
    let answer = pending.finish(rig.now()).unwrap();
    assert_eq!(lines(&answer.response.content).len(), 71);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_computation() {
    let gate = Arc::new(Gate::default());
    let rig = Rig::with(Options {
        encoder: gate.clone(),
        ..Options::default()
    });
    let attested = rig.attest().await;
    let mut request = stream(2000, "float");
    request["input"][40] = "hello ".repeat(10).into();
    let (sealed, _) = begin(&rig, &attested, embeddings(&request));
    drop(post(&rig, sealed).await);
    gate.open();
    // Its memory is free again for the largest request there is.
    while rig.service.hold_all_answer_memory().await.is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_answer_without_its_end_is_refused() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (sealed, mut pending) = begin(&rig, &attested, embeddings(&stream(40, "float")));
    let mut body = post(&rig, sealed).await;
    let mut parts = Vec::new();
    while let Some(part) = next_part(&mut body).await {
        parts.push(part);
    }
    assert!(parts.len() >= 3);
    for part in &parts[..parts.len() - 1] {
        pending.push(part).unwrap();
    }
    assert_eq!(lines(pending.content()).len(), 41, "all rows are there");
    assert_eq!(pending.end().err().unwrap().code(), "CHUNKS_CUT_OFF");
    let refused = pending.finish(rig.now()).err().unwrap();
    assert_eq!(refused.code(), "CHUNKS_CUT_OFF");
}

#[tokio::test]
async fn a_part_that_fails_is_the_last_line_and_has_no_receipt() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let mut body = stream(40, "float");
    body["input"][35] = "hello ".repeat(50).into();
    body["truncate"] = false.into();
    let (sealed, mut pending) = begin(&rig, &attested, embeddings(&body));
    let mut parts = post(&rig, sealed).await;
    while let Some(part) = next_part(&mut parts).await {
        pending.push(&part).unwrap();
    }
    let early = lines(pending.content()).len();
    assert_eq!(early, 32);
    let refused = pending.finish(rig.now()).err().unwrap();
    assert_eq!(refused.code(), "RECEIPT_MISSING");
    // Not in chunks, nothing was sent before the refusal.
    let whole = rig.exchange(&attested, embeddings(&body)).await.unwrap();
    assert_eq!(whole.response.status, 400);
    assert_eq!(code(&whole.response.content), "INPUT_TOO_LONG");
    let error: Value = serde_json::from_slice(&whole.response.content).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("input 35 "), "{message}");
    // A refusal of the first rows has a status.
    body["input"][3] = "hello ".repeat(50).into();
    let refused = ask(&rig, &attested, embeddings(&body)).await.unwrap();
    assert_eq!(refused.response.status, 400);
}

#[tokio::test]
async fn a_stream_that_is_not_in_chunks_is_the_same_content_at_once() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let streamed = ask(&rig, &attested, embeddings(&stream(40, "float")))
        .await
        .unwrap();
    let whole = rig
        .exchange(&attested, embeddings(&stream(40, "float")))
        .await
        .unwrap();
    assert!(whole.receipt.is_some() && whole.response.content == streamed.response.content);
}

#[tokio::test]
async fn tensors_are_not_streamed() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let answer = ask(&rig, &attested, embeddings(&stream(2, "tensors")))
        .await
        .unwrap();
    assert_eq!(code(&answer.response.content), "STREAM_FORMAT");
}

#[tokio::test]
async fn each_part_is_padded() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (sealed, mut pending) = begin(&rig, &attested, embeddings(&stream(90, "base64")));
    let mut body = post(&rig, sealed).await;
    let mut before = 0;
    let mut lengths = Vec::new();
    while let Some(part) = next_part(&mut body).await {
        pending.push(&part).unwrap();
        let length = pending.content().len();
        lengths.push(length - before);
        before = length;
    }
    // Three groups, the last line, and the trailer.
    assert_eq!(lengths.iter().filter(|length| **length > 0).count(), 4);
    for length in lengths {
        assert_eq!(length, padded_len(length));
    }
}

#[tokio::test]
async fn each_part_leaves_at_a_step() {
    let rig = Rig::with(Options {
        answer_steps: Some(AnswerSteps::new(Duration::from_millis(10))),
        ..Options::default()
    });
    let attested = rig.attest().await;
    let (sealed, mut pending) = begin(&rig, &attested, embeddings(&stream(40, "float")));
    let mut body = post(&rig, sealed).await;
    let mut read = tokio::spawn(async move {
        while let Some(part) = next_part(&mut body).await {
            pending.push(&part).unwrap();
        }
        pending
    });
    // Nothing leaves until the clock has reached the first step.
    while rig.time.waits.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!read.is_finished());
    rig.advance_millis(10);
    let pending = (&mut read).await.unwrap();
    assert!(pending.finish(rig.now()).unwrap().receipt.is_some());
    // Two groups, the last line, the end.
    assert!(rig.time.waits.lock().unwrap().len() >= 4);
}

#[tokio::test]
async fn other_answers_are_whole_and_a_repeat_is_refused() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (sealed, mut pending) = begin(&rig, &attested, hello());
    let mut body = post(&rig, sealed.clone()).await;
    while let Some(part) = next_part(&mut body).await {
        pending.push(&part).unwrap();
    }
    let answer = pending.finish(rig.now()).unwrap();
    assert!(answer.receipt.is_some());
    let (_, mut other) = begin(&rig, &attested, hello());
    let mut body = post(&rig, sealed).await;
    let part = next_part(&mut body).await.unwrap();
    // The answer to a repeat is sealed to the first request.
    assert_eq!(
        other.push(&part).err().map(|error| error.code().to_owned()),
        None
    );
    assert_eq!(
        other.finish(rig.now()).err().unwrap().code(),
        "CHUNK_OPEN_FAILED"
    );
}

#[tokio::test]
async fn a_damaged_request_is_refused_outside_the_seal() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let long = embeddings(&json!({"model": MODEL, "input": "hello ".repeat(4000)}));
    let (sealed, _) = begin(&rig, &attested, long);
    let refusal = async |sealed: Vec<u8>| {
        let request = Request::post("/v1/gateway").header("content-type", MEDIA_TYPE);
        let (status, body) = rig.send(request.body(Body::from(sealed)).unwrap()).await;
        (status.as_u16(), code(&body))
    };
    let cut = sealed[..sealed.len() - 20].to_vec();
    assert_eq!(refusal(cut).await, (400, "CHUNK_OPEN_FAILED".to_owned()));
    let short = sealed[..2000].to_vec();
    assert_eq!(refusal(short).await, (400, "CHUNKS_CUT_OFF".to_owned()));
    let mut changed = sealed.clone();
    changed[1500] ^= 1;
    assert_eq!(refusal(changed).await, (400, "KEY_UNKNOWN".to_owned()));
    assert_eq!(
        refusal(Vec::new()).await,
        (400, "ENCAPSULATION_MALFORMED".to_owned())
    );
}

/// A network that passes `most` bytes of an answer that is longer, and then closes the connection.
async fn cut_after(to: SocketAddr, most: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                let (mut up, mut down, mut left) = (vec![0; 1 << 16], vec![0; 1 << 16], usize::MAX);
                loop {
                    tokio::select! {
                        read = near.read(&mut up) => match read {
                            Ok(count @ 1..) => {
                                if up.starts_with(b"POST") {
                                    left = most;
                                }
                                far.write_all(&up[..count]).await.unwrap();
                            }
                            _ => return,
                        },
                        read = far.read(&mut down) => match read {
                            Ok(count @ 1..) => {
                                near.write_all(&down[..count.min(left)]).await.unwrap();
                                left = left.saturating_sub(count);
                                if left == 0 {
                                    return;
                                }
                            }
                            _ => return,
                        },
                    }
                }
            });
        }
    });
    address
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| "hello ".repeat(n % 9 + 1)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_reads_rows_through_the_relay_while_later_ones_are_computed() {
    let gate = Arc::new(Gate::default());
    let (enclave, host) = stack(Options {
        encoder: gate.clone(),
        ..Options::default()
    })
    .await;
    let client = client(&enclave, host);
    let mut given = texts(70);
    given[40] = "hello ".repeat(10);
    let mut rows = client.embed_stream(&given).await.unwrap();
    let mut streamed = Vec::new();
    for _ in 0..32 {
        streamed.push(rows.next().await.unwrap().unwrap());
    }
    assert!(rows.answer().is_none());
    gate.open();
    while let Some(row) = rows.next().await.unwrap() {
        streamed.push(row);
    }
    assert!(rows.answer().unwrap().receipt().is_some());
    assert!(rows.next().await.unwrap().is_none());
    let whole = client.embed(&given).await.unwrap();
    assert!(streamed == whole.items);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_the_network_cuts_ends_with_an_error() {
    let (enclave, host) = stack(Options::default()).await;
    for most in [600, 5_000, 9_000] {
        let client = client(&enclave, cut_after(host, most).await);
        let error = async {
            let mut rows = client.embed_stream(&texts(200)).await?;
            while rows.next().await?.is_some() {}
            Ok::<_, Error>(())
        };
        let error = error.await.unwrap_err();
        assert_eq!(
            (error.code(), error.is_transient()),
            ("NETWORK", true),
            "{most}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_reports_refusals_before_and_within_a_stream() {
    let (enclave, host) = stack(Options::default()).await;
    let client = client(&enclave, host);
    let mut given = texts(70);
    given[3] = String::new();
    let refused = client.embed_stream(&given).await.err().unwrap();
    assert_eq!(refused.code(), "INPUT_EMPTY");
    given[3] = "hello".to_owned();
    // The tokenizer refuses it when its group is computed.
    given[60] = "x".repeat(65 << 10);
    let mut rows = client.embed_stream(&given).await.unwrap();
    let error = loop {
        match rows.next().await {
            Ok(row) => assert!(row.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "TEXT_TOO_LONG");
    // `None` would say that the receipt was verified.
    let code = rows.next().await.unwrap_err().code().to_owned();
    assert_eq!(code, "CHUNKS_CUT_OFF");
    assert!(rows.answer().is_none());
}

/// Bytes that the other implementation wrote.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn stock_clients_read_streams_and_whole_answers() {
    ohttp::init();
    let rig = Rig::new();
    let attested = rig.attest().await;
    let mut nonce = 100;
    for kem in [Kem::X25519, Kem::XWing] {
        for mode in [Mode::KnownLength, Mode::IndeterminateLength] {
            for is_stream in [false, true] {
                nonce += 1;
                let keys = attested.verified.sealing_keys();
                let mut configs = keys.iter().map(|key| key.config().clone());
                let mut config = configs.find(|config| config.kem == kem).unwrap();
                // Version 0.8.0 has memory for a response nonce of 16 bytes only.
                config
                    .symmetric
                    .retain(|(_, aead)| *aead == attestation::Aead::Aes128Gcm);
                let list = KeyConfig::encode_list(&[config]).unwrap();
                let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
                let mut message = Message::request(
                    "POST".into(),
                    "https".into(),
                    "embed.example".into(),
                    "/v1/embeddings".into(),
                );
                for (name, value) in their_terms(&rig, &attested, nonce) {
                    message.put_header(name, value);
                }
                message.put_header("content-type", "application/json");
                let mut body = stream(70, "float");
                body["stream"] = is_stream.into();
                message.write_content(body.to_string());
                let mut bytes = Vec::new();
                message.write_bhttp(mode, &mut bytes).unwrap();
                let sealed = Sink::default();
                let mut request = client.encapsulate_stream(sealed.clone()).unwrap();
                TheirWrite::write_all(&mut request, &bytes).await.unwrap();
                TheirWrite::close(&mut request).await.unwrap();
                let sealed = sealed.0.lock().unwrap().clone();
                let answer = post(&rig, sealed).await;
                let answer = axum::body::to_bytes(answer, 1 << 20).await.unwrap();
                let mut opened = Vec::new();
                let mut response = request.response(&answer[..]).unwrap();
                TheirRead::read_to_end(&mut response, &mut opened)
                    .await
                    .unwrap();
                let message = Message::read_bhttp(&mut io::Cursor::new(&opened)).unwrap();
                assert_eq!(message.control().status().unwrap().code(), 200);
                let receipt = terms::RECEIPT.as_bytes();
                match is_stream {
                    true => {
                        assert_eq!(lines(message.content()).len(), 71);
                        assert!(message.trailer().get(receipt).is_some());
                    }
                    false => assert!(message.header().get(receipt).is_some()),
                }
            }
        }
    }
}
