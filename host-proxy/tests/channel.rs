//! Channels through the proxy: bytes both ways, unframed and in WebSocket messages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

use crate::support::{FakeEnclave, Running, ask_from, from, read_to_end};

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// An enclave that hands each channel to `serve`.
fn enclave<F>(
    serve: impl Fn(ReadHalf<Upgraded>, WriteHalf<Upgraded>) -> F + Clone + Send + Sync + 'static,
) -> FakeEnclave
where
    F: Future<Output = ()> + Send + 'static,
{
    let router = Router::new().route(
        "/v1/channel",
        get(move |mut request: Request| async move {
            let names: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
            assert_eq!(
                names,
                ["host", "connection", "upgrade"],
                "no field of the client passes"
            );
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let (read, write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
                serve(read, write).await;
            });
            let headers = [("connection", "upgrade"), ("upgrade", "clearseal-channel")];
            (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
        }),
    );
    FakeEnclave::start(router)
}

async fn echo(mut read: ReadHalf<Upgraded>, mut write: WriteHalf<Upgraded>) {
    tokio::io::copy(&mut read, &mut write).await.ok();
    write.shutdown().await.ok();
}

const UNFRAMED: &str = "upgrade: clearseal-channel\r\ncookie: a=b";
const WEBSOCKET: &str = "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\norigin: https://page.example";

/// Upgrades to a channel, and returns it with the head of the answer.
async fn open(address: SocketAddr, fields: &str) -> (TcpStream, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    open_over(stream, fields).await
}

async fn open_over(mut stream: TcpStream, fields: &str) -> (TcpStream, String) {
    let head =
        format!("GET /v1/channel HTTP/1.1\r\nhost: p\r\nconnection: upgrade\r\n{fields}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn bytes_and_the_end_of_the_stream_pass_both_ways() {
    let enclave = enclave(echo);
    let proxy = Running::start(&enclave.path(), &[]).await;
    let (mut stream, head) = open(proxy.address, UNFRAMED).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: clearseal-channel\r\n"), "{head}");
    for length in [1, 100, 200_000] {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let (mut read, mut write) = stream.split();
        let mut back = vec![0; length];
        let (sent, got) = tokio::join!(write.write_all(&bytes), read.read_exact(&mut back));
        sent.unwrap();
        got.unwrap();
        assert!(bytes == back);
    }
    stream.shutdown().await.unwrap();
    assert!(read_to_end(stream).await.is_empty());
    assert!(proxy.metrics().await.text().contains("route=\"Channel\""));
}

/// One direction is blocked for good while the other one continues. Then the reverse.
#[tokio::test]
async fn a_blocked_direction_does_not_block_the_other() {
    const LARGE: usize = 32 << 20;
    let enclave = enclave(
        async |mut read: ReadHalf<Upgraded>, mut write: WriteHalf<Upgraded>| {
            match read.read_u8().await.unwrap() {
                // Reads nothing more, and sends a large amount.
                0 => write.write_all(&vec![7; LARGE]).await.unwrap(),
                // Sends more than the client reads, and reads a large amount.
                _ => {
                    tokio::spawn(async move { write.write_all(&vec![7; 4 * LARGE]).await.ok() });
                    let mut sum = 0;
                    let mut buffer = vec![0; 1 << 16];
                    while sum < LARGE {
                        sum += read.read(&mut buffer).await.unwrap();
                    }
                    // Ends the connection, which the client sees.
                    return;
                }
            }
            std::future::pending::<()>().await;
        },
    );
    let proxy = Running::start(&enclave.path(), &[]).await;
    let (stream, _) = open(proxy.address, UNFRAMED).await;
    let (mut read, mut write) = stream.into_split();
    write.write_u8(0).await.unwrap();
    let blocked = tokio::spawn(async move { write.write_all(&vec![1; 4 * LARGE]).await.ok() });
    let mut got = vec![0; LARGE];
    read.read_exact(&mut got).await.unwrap();
    assert!(got.iter().all(|byte| *byte == 7));
    assert!(!blocked.is_finished(), "more than any buffer holds");
    blocked.abort();

    let (stream, _) = open(proxy.address, UNFRAMED).await;
    let (read, mut write) = stream.into_split();
    write.write_all(&vec![1; LARGE + 1]).await.unwrap();
    drop((read, write));
}

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [1, 2, 3, 4];
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&key);
    frame.extend(
        payload
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    frame
}

/// Reads one frame of the proxy: its first byte and its payload.
async fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let first = stream.read_u8().await.unwrap();
    let length = match stream.read_u8().await.unwrap() {
        126 => usize::from(stream.read_u16().await.unwrap()),
        127 => usize::try_from(stream.read_u64().await.unwrap()).unwrap(),
        length => usize::from(length),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

#[tokio::test]
async fn pages_send_the_same_bytes_in_websocket_messages() {
    let enclave = enclave(echo);
    let proxy = Running::start(&enclave.path(), &[]).await;
    let (mut stream, head) = open(proxy.address, WEBSOCKET).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{head}"
    );
    // One message in three frames, with a ping in between.
    let parts = [
        masked(0x02, b"abc"),
        masked(0x89, b"there?"),
        masked(0x00, &[b'd'; 1_000]),
        masked(0x80, b"e"),
    ];
    stream.write_all(&parts.concat()).await.unwrap();
    let (mut bytes, mut pongs) = (Vec::new(), 0);
    while bytes.len() < 1_004 || pongs == 0 {
        match frame(&mut stream).await {
            (0x82, payload) => bytes.extend(payload),
            (0x8a, payload) => {
                assert_eq!(payload, b"there?");
                pongs += 1;
            }
            (other, _) => panic!("{other:#x}"),
        }
    }
    assert_eq!(bytes, [&b"abc"[..], &[b'd'; 1_000], b"e"].concat());
    stream
        .write_all(&masked(0x88, &1000_u16.to_be_bytes()))
        .await
        .unwrap();
    assert_eq!(
        frame(&mut stream).await,
        (0x88, 1000_u16.to_be_bytes().to_vec())
    );
    assert!(read_to_end(stream).await.is_empty());
}

#[tokio::test]
async fn a_channel_ends_with_its_enclave_however_often_the_page_pings() {
    let enclave = enclave(|_, mut write| async move {
        write.shutdown().await.ok();
    });
    let proxy = Running::start(&enclave.path(), &[]).await;
    let (mut stream, _) = open(proxy.address, WEBSOCKET).await;
    assert_eq!(frame(&mut stream).await.0, 0x88);
    // Until the proxy closes the connection.
    while stream.write_all(&masked(0x89, b"there?")).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn invalid_frames_end_the_connection() {
    let enclave = enclave(echo);
    let proxy = Running::start(&enclave.path(), &[]).await;
    for (wrong, code) in [
        (b"\x82\x05hello".to_vec(), 1002_u16),
        (masked(0xc2, b"x"), 1002),
        (masked(0x80, b"x"), 1002),
        (masked(0x81, b"text"), 1003),
        ([&[0x89, 0xfe, 1, 0][..], &[0; 260]].concat(), 1002),
    ] {
        let (mut stream, _) = open(proxy.address, WEBSOCKET).await;
        stream.write_all(&wrong).await.unwrap();
        assert_eq!(
            frame(&mut stream).await,
            (0x88, code.to_be_bytes().to_vec())
        );
    }
}

#[tokio::test]
async fn a_missing_or_invalid_upgrade_is_refused() {
    let enclave = enclave(echo);
    let proxy = Running::start(&enclave.path(), &[]).await;
    let answer = proxy.get("/v1/channel").await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (426, "UPGRADE_REQUIRED")
    );
    let answer = proxy.post("/v1/channel", "x").await;
    assert_eq!(answer.problem(), "METHOD_NOT_ALLOWED");
    for fields in [
        "upgrade: h2c",
        "upgrade: websocket",
        "upgrade: websocket\r\nsec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: short",
        // Two base64 texts in one, with padding between them.
        "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIA==c2FtcGxlIG5vbmNl",
    ] {
        let (_, head) = open(proxy.address, fields).await;
        assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
        let head = head.to_lowercase();
        for field in [
            "upgrade: clearseal-channel, websocket\r\n",
            "sec-websocket-version: 13\r\n",
        ] {
            assert!(head.contains(field), "{head}");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_the_enclave_is_relayed_and_an_absent_enclave_is_reported() {
    let refusal = || async {
        let body = r#"{"code":"CHANNELS_BUSY"}"#;
        let headers = [
            ("content-type", "application/problem+json"),
            ("x-inner", "secret"),
        ];
        (StatusCode::SERVICE_UNAVAILABLE, headers, body).into_response() as Response
    };
    let enclave = FakeEnclave::start(Router::new().route("/v1/channel", get(refusal)));
    let proxy = Running::start(&enclave.path(), &[]).await;
    let request = format!(
        "GET /v1/channel HTTP/1.1\r\nhost: p\r\nconnection: upgrade, close\r\n{UNFRAMED}\r\n\r\n"
    );
    let answer = proxy.raw(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with(r#"{"code":"CHANNELS_BUSY"}"#), "{answer}");
    assert!(!answer.contains("x-inner"), "{answer}");
    let proxy = Running::start(&FakeEnclave::absent().path(), &[]).await;
    let answer = proxy.raw(request.as_bytes()).await;
    assert!(answer.contains("ENCLAVE_UNREACHABLE"), "{answer}");
}

#[tokio::test]
async fn one_address_cannot_hold_all_channels() {
    let enclave = enclave(echo);
    let proxy = Running::start(&enclave.path(), &["--max-channels=4"]).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let (stream, head) = open_over(from(2, proxy.address).await, UNFRAMED).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        held.push(stream);
    }
    let request = format!(
        "GET /v1/channel HTTP/1.1\r\nhost: p\r\nconnection: upgrade, close\r\n{UNFRAMED}\r\n\r\n"
    );
    assert!(
        ask_from(2, proxy.address, &request)
            .await
            .contains("SOURCE_BUSY")
    );
    for last in [3, 3] {
        let (stream, head) = open_over(from(last, proxy.address).await, UNFRAMED).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        held.push(stream);
    }
    assert!(
        ask_from(4, proxy.address, &request)
            .await
            .contains("\"BUSY\"")
    );
}

#[tokio::test]
async fn idle_channels_and_those_of_a_stopping_proxy_are_closed() {
    let enclave = enclave(echo);
    let proxy = Running::start(&enclave.path(), &["--idle-timeout=0.2s"]).await;
    let (stream, _) = open(proxy.address, UNFRAMED).await;
    assert!(read_to_end(stream).await.is_empty());

    let mut proxy = Running::start(&enclave.path(), &[]).await;
    let (mut stream, _) = open(proxy.address, UNFRAMED).await;
    stream.write_all(b"x").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    proxy.stop();
    assert!(read_to_end(stream).await.is_empty());
    (&mut proxy.task).await.unwrap();
}
