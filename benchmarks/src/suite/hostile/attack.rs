//! The attacks: bounded in connections and time, and directed only at loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;

use super::super::client::Client;
use super::super::http;
use super::super::system::System;

/// Source address of the attacks, different from the honest client's.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// One kind of attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Whether the honest client requests attestation documents instead of embeddings.
    pub(super) honest_attests: bool,
    connections: usize,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Uploads a body at one byte per second.
    SlowUpload,
    /// Requests a large answer and does not read it.
    SlowReader,
    /// Sends nothing, or half of a request head.
    Idle,
    /// Repeats one recorded request.
    Replay,
    /// Sends new sealed requests that need no inference.
    Cheap,
    /// Requests attestation documents in a loop.
    Attestation,
    /// Sends 3.8 MB of token ids.
    Bomb,
    /// Sends the largest batch.
    Batch,
    /// Sends bytes that are not a sealed request.
    Garbage,
}

const fn attack(name: &'static str, connections: usize, kind: Kind) -> Attack {
    Attack {
        name,
        honest_attests: false,
        connections,
        kind,
    }
}

/// All attacks.
pub(super) const ATTACKS: &[Attack] = &[
    attack("64 uploads of a byte a second", 64, Kind::SlowUpload),
    attack("256 readers that stop", 256, Kind::SlowReader),
    attack("1,000 idle connections", 1_000, Kind::Idle),
    attack("8 replay one request", 8, Kind::Replay),
    attack("8 send cheap sealed requests", 8, Kind::Cheap),
    Attack {
        honest_attests: true,
        ..attack("64 ask for documents", 64, Kind::Attestation)
    },
    attack("32 token bombs of 3.8 MB", 32, Kind::Bomb),
    attack("8 send batches of 2,048", 8, Kind::Batch),
    attack("8 send garbage", 8, Kind::Garbage),
];

impl Attack {
    pub(super) fn honest(&self) -> &'static str {
        match self.honest_attests {
            true => "attestation fetched and verified",
            false => "sealed embedding of 9 tokens",
        }
    }

    /// Starts the attack, which lasts until [`Attackers::end`].
    pub(super) fn begin(&self, system: &System) -> Result<Attackers> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let requests = self.requests(&system.url)?;
        let state = Arc::new(State {
            to: system.address,
            kind: self.kind,
            stopped: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            attempts: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            requests,
        });
        for _ in 0..self.connections {
            runtime.spawn(run_attacker(Arc::clone(&state)));
        }
        Ok(Attackers { runtime, state })
    }

    /// Sealed requests, created before the measurement starts. As many as an attack can send in its time, so that none is refused
    /// as a replay; fewer for token bombs, because of their size: further ones are replays.
    fn requests(&self, url: &str) -> Result<Vec<Vec<u8>>> {
        let several = |count: usize, method: &str, path: &str, content: &[u8]| {
            let mut client = Client::attest(url)?;
            (0..count)
                .map(|_| client.seal_request(method, path, content.to_vec()))
                .collect::<Result<Vec<_>>>()
        };
        let sealed = |count: usize, content: &serde_json::Value| {
            let content = serde_json::to_vec(content)?;
            several(count, "POST", "/v1/embeddings", &content)
        };
        match self.kind {
            Kind::SlowUpload | Kind::Idle | Kind::Attestation => Ok(Vec::new()),
            Kind::Replay => sealed(1, &json!({ "model": MODEL, "input": "once" })),
            Kind::Cheap => several(40_000, "GET", "/v1/models", &[]),
            // As floats, the answer has about 4 MB.
            Kind::SlowReader => sealed(
                256,
                &json!({ "model": MODEL, "input": vec!["a"; 512], "encoding_format": "float" }),
            ),
            Kind::Bomb => sealed(
                96,
                &json!({ "model": MODEL, "input": [vec![1; 1_900_000]] }),
            ),
            // As base64: as floats, the answer would exceed its limit and be refused before inference.
            Kind::Batch => sealed(
                500,
                &json!({ "model": MODEL, "input": vec!["a b c"; 2_048], "encoding_format": "base64" }),
            ),
            Kind::Garbage => Ok(vec![
                vec![0xa5; 2_000],
                vec![0; 40],
                b"\x01\x00\x20".to_vec(),
            ]),
        }
    }
}

const MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";

struct State {
    to: SocketAddr,
    kind: Kind,
    stopped: AtomicBool,
    /// Turn of the next attempt: the attackers share it, so that no two send the same request while there are others.
    next: AtomicUsize,
    attempts: AtomicU64,
    /// Attempts that were answered with status 200.
    answered: AtomicU64,
    requests: Vec<Vec<u8>>,
}

/// A running attack.
pub(super) struct Attackers {
    runtime: Runtime,
    state: Arc<State>,
}

impl Attackers {
    /// Ends the attack; returns the number of requests or connections it made, and how many of them had an answer with status 200.
    pub(super) fn end(self) -> [u64; 2] {
        self.state.stopped.store(true, Ordering::Relaxed);
        self.runtime.shutdown_timeout(Duration::from_secs(2));
        [&self.state.attempts, &self.state.answered].map(|count| count.load(Ordering::Relaxed))
    }
}

impl State {
    fn is_running(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }
}

/// Runs one attacker: retries after refusals, on a new connection where the server closed the old one.
async fn run_attacker(state: Arc<State>) {
    while state.is_running() {
        let Ok(mut stream) = connect(state.to).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while state.is_running() {
            state.attempts.fetch_add(1, Ordering::Relaxed);
            let turn = state.next.fetch_add(1, Ordering::Relaxed);
            if attempt(&state, &mut stream, turn).await.is_err() {
                break;
            }
        }
    }
}

async fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((ATTACKER, 0).into())?;
    // Head and body are two writes: with Nagle's algorithm the attack would wait 40 ms for each delayed acknowledgement.
    socket.set_nodelay(true)?;
    // A small buffer, so that an unread answer fills the server's memory rather than this socket's.
    socket.set_recv_buffer_size(4096)?;
    socket.connect(to).await
}

/// Makes one attempt; fails if the connection cannot be used again.
async fn attempt(state: &State, stream: &mut TcpStream, turn: usize) -> std::io::Result<()> {
    match state.kind {
        Kind::Idle => {
            if turn.is_multiple_of(2) {
                stream
                    .write_all(b"POST /v1/gateway HTTP/1.1\r\nhost")
                    .await?;
            }
            wait_for_close(state, stream).await
        }
        Kind::SlowUpload => {
            stream.write_all(&head(4_000)).await?;
            while state.is_running() {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        Kind::SlowReader => {
            send(state, stream, turn).await?;
            stream.read_exact(&mut [0]).await?;
            while state.is_running() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(())
        }
        Kind::Attestation => {
            let nonce = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
            let ask = format!("GET /v1/attestation?nonce={nonce} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(ask.as_bytes()).await?;
            answer(state, stream).await
        }
        Kind::Replay | Kind::Cheap | Kind::Bomb | Kind::Batch | Kind::Garbage => {
            send(state, stream, turn).await?;
            answer(state, stream).await
        }
    }
}

async fn send(state: &State, stream: &mut TcpStream, turn: usize) -> std::io::Result<()> {
    let Some(request) = state.requests.get(turn % state.requests.len().max(1)) else {
        return Ok(());
    };
    stream.write_all(&head(request.len())).await?;
    stream.write_all(request).await
}

fn head(length: usize) -> Vec<u8> {
    format!(
        "POST /v1/gateway HTTP/1.1\r\nhost: x\r\ncontent-type: message/ohttp-req\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// Waits until the server closes the connection or the attack ends.
async fn wait_for_close(state: &State, stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    while state.is_running() {
        let read = stream.read(&mut buffer);
        match tokio::time::timeout(Duration::from_millis(100), read).await {
            Err(_) => {}
            Ok(Ok(1..)) => return Ok(()),
            Ok(Ok(0)) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(Err(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Reads one answer by its length and discards it; counts a success.
async fn answer(state: &State, stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(16 << 10);
    // An answer without a length ends with its connection.
    let (body, length) = http::head(stream, &mut buffer).await?;
    let success = buffer.starts_with(b"HTTP/1.1 200");
    let mut left = length.saturating_sub(buffer.len() - body);
    buffer.resize(16 << 10, 0);
    while left > 0 {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(read);
    }
    state
        .answered
        .fetch_add(u64::from(success), Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::net::TcpListener;

    use super::*;

    const REQUESTS: usize = 64;

    /// Answers every request whose body is one byte; the body tells which request it was.
    async fn serve(mut stream: TcpStream, seen: tokio::sync::mpsc::UnboundedSender<u8>) {
        let head = head(1).len();
        let mut request = vec![0; head + 1];
        while stream.read_exact(&mut request).await.is_ok() {
            if seen.send(request[head]).is_err() {
                return;
            }
            let status = if request[head] < 32 {
                "200 OK"
            } else {
                "503 Busy"
            };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    #[test]
    fn attackers_share_the_requests_and_count_successes() {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let to = listener.local_addr().unwrap();
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, sender.clone()));
            }
        });
        let state = Arc::new(State {
            to,
            kind: Kind::Cheap,
            stopped: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            attempts: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            requests: (0..REQUESTS).map(|number| vec![number as u8]).collect(),
        });
        for _ in 0..8 {
            runtime.spawn(run_attacker(Arc::clone(&state)));
        }
        let first: Vec<u8> = (0..REQUESTS)
            .map(|_| runtime.block_on(seen.recv()).unwrap())
            .collect();
        let different: BTreeSet<u8> = first.iter().copied().collect();
        // Each attacker may have sent one of the next round before a slow one sent its last.
        assert!(different.len() > REQUESTS - 8, "{first:?}");
        let attackers = Attackers { runtime, state };
        let [attempts, answered] = attackers.end();
        assert!(
            answered >= 16 && answered < attempts,
            "{answered} of {attempts}"
        );
    }
}
