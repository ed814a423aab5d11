//! The service for the enclave, which no client reaches.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use clap::Parser as _;
use host_proxy::{Config, Proxy};
use sockets::ListenAddress;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Two parts and a fraction.
const LENGTH: usize = (2 << 20) + 12_345;

fn contents() -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7 % 251) as u8).collect()
}

struct Running {
    folder: tempfile::TempDir,
    parent: SocketAddr,
    public: SocketAddr,
    _stop: tokio::sync::oneshot::Sender<()>,
}

async fn start() -> Running {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tiny")).unwrap();
    std::fs::write(folder.path().join("tiny/model.sealed"), contents()).unwrap();
    let models = format!("--models={}", folder.path().display());
    let config = Config::parse_from([
        "host-proxy",
        "--enclave=unix:/nonexistent",
        "--listen=127.0.0.1:0",
        "--parent-listen=tcp:127.0.0.1:0",
        &models,
    ]);
    let proxy = Proxy::bind(config).await.unwrap();
    let Some(&ListenAddress::Tcp(parent)) = proxy.parent_address() else {
        panic!("no parent")
    };
    let public = proxy.local_address().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(proxy.run(async {
        stopped.await.unwrap_or(());
    }));
    Running {
        folder,
        parent,
        public,
        _stop: stop,
    }
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .clone()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

async fn ask(address: SocketAddr, request: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let text = format!("{request} HTTP/1.1\r\nhost: parent\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        head,
        body: bytes[end + 4..].to_vec(),
    }
}

const MODEL: &str = "GET /v1/models/tiny/model.sealed";

#[tokio::test]
async fn a_container_is_served_whole_and_in_ranges() {
    let running = start().await;
    let whole = ask(running.parent, MODEL, "").await;
    assert_eq!((whole.status, whole.body == contents()), (200, true));
    let etag = whole.header("etag").unwrap().to_owned();
    for (range, expected) in [
        ("bytes=0-", 0..LENGTH),
        ("bytes=1048575-1048577", 1_048_575..1_048_578),
        ("bytes=2097152-", 2_097_152..LENGTH),
        ("bytes=5-99999999", 5..LENGTH),
    ] {
        let part = ask(
            running.parent,
            MODEL,
            &format!("range: {range}\r\nif-range: {etag}\r\n"),
        )
        .await;
        assert_eq!(
            (part.status, part.header("etag")),
            (206, Some(etag.as_str())),
            "{range}"
        );
        assert!(part.body == contents()[expected.clone()], "{range}");
        let stated = format!("bytes {}-{}/{LENGTH}", expected.start, expected.end - 1);
        assert_eq!(part.header("content-range"), Some(stated.as_str()));
    }
}

#[tokio::test]
async fn a_replaced_container_has_another_tag() {
    let running = start().await;
    let first = ask(running.parent, MODEL, "range: bytes=0-0\r\n").await;
    let etag = first.header("etag").unwrap().to_owned();
    let mut other = contents();
    other[20] ^= 1;
    std::fs::write(running.folder.path().join("tiny/model.sealed"), &other).unwrap();
    let resumed = ask(
        running.parent,
        MODEL,
        &format!("range: bytes=9-\r\nif-range: {etag}\r\n"),
    )
    .await;
    assert_eq!((resumed.status, resumed.body == other), (200, true));
    assert_ne!(resumed.header("etag"), Some(etag.as_str()));
}

#[tokio::test]
async fn a_wrapped_key_is_served_where_its_length_is_valid() {
    let running = start().await;
    const KEY: &str = "GET /v1/models/tiny/data-key.wrapped";
    assert_eq!(ask(running.parent, KEY, "").await.status, 404);
    let file = running.folder.path().join("tiny/data-key.wrapped");
    for (length, status) in [(1, 200), (6144, 200), (6145, 503)] {
        std::fs::write(&file, vec![7; length]).unwrap();
        let answer = ask(running.parent, KEY, "").await;
        assert_eq!(answer.status, status, "{length}");
        assert!(status != 200 || answer.body == vec![7; length], "{length}");
    }
    assert_eq!(ask(running.public, KEY, "").await.status, 404);
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_code() {
    let running = start().await;
    for (request, headers, status, code) in [
        (
            "GET /v1/models/other/model.sealed",
            "",
            404,
            "MODEL_UNKNOWN",
        ),
        ("GET /v1/models/../model.sealed", "", 404, "MODEL_UNKNOWN"),
        (
            "GET /v1/models/..%2ftiny/model.sealed",
            "",
            404,
            "MODEL_UNKNOWN",
        ),
        (
            "GET /v1/models/tiny/other",
            "",
            404,
            "PARENT_ENDPOINT_UNKNOWN",
        ),
        ("GET /v1/gateway", "", 404, "PARENT_ENDPOINT_UNKNOWN"),
        (
            "POST /v1/models/tiny/model.sealed",
            "",
            405,
            "PARENT_METHOD_NOT_ALLOWED",
        ),
        (MODEL, "range: bytes=0-1,5-6\r\n", 416, "RANGE_INVALID"),
        (MODEL, "range: bytes=99999999-\r\n", 416, "RANGE_INVALID"),
    ] {
        let answer = ask(running.parent, request, headers).await;
        let body = String::from_utf8(answer.body).unwrap();
        assert!(
            answer.status == status && body.contains(code),
            "{request} {headers}: {} {body}",
            answer.status
        );
    }
}

#[tokio::test]
async fn a_client_cannot_read_models() {
    let running = start().await;
    let answer = ask(running.public, MODEL, "").await;
    assert_eq!(answer.status, 404);
}
