//! A planned stop: requests finish, and the host gets the rest of the log, before the process ends.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Attested, HeldToy, Options, Rig, code, hello};
use attestation::UnixMillis;
use axum::http::StatusCode;
use enclave_server::config::ListenAddress;
use enclave_server::listener::Listener;
use enclave_server::server::Server;
use getrandom::SysRng;
use merkle::json::{Leaves, Logs, from_json, hex};
use merkle::tree::receipt_hash;
use protocol::exchange;
use rand_core::UnwrapErr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than any of these tests, so that a test that waits for it hangs.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// A rig whose service also answers on a socket, until a test stops it.
struct Running {
    rig: Rig,
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Running {
    async fn start(rig: Rig, drain: Duration) -> Self {
        let listener = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap(), 8)
            .await
            .unwrap();
        let ListenAddress::Tcp(address) = *listener.address() else {
            panic!("not a TCP address")
        };
        let (stop, stopped) = oneshot::channel();
        let server = Server::new(listener, Arc::clone(&rig.service), drain);
        let server = tokio::spawn(server.serve(async { drop(stopped.await) }));
        Self {
            rig,
            address,
            stop: Some(stop),
            server,
        }
    }

    /// Signals it to stop, and waits until it is draining.
    async fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        while self.rig.get("/readyz").await.0 == StatusCode::OK {
            tokio::task::yield_now().await;
        }
    }

    /// Status and body of an answer over a new connection; `None` where it is closed without an answer.
    async fn ask(&self, method: &str, path: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        ask(self.address, method, path, body).await
    }

    async fn issue(&self, attested: &Attested) -> Vec<u8> {
        let answer = self.rig.exchange(attested, hello()).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        answer.receipt.unwrap().bytes
    }

    /// Asks for leaves like a host that has stored `from` of them.
    async fn leaves(&self, from: u64) -> Leaves {
        let (status, body) = self.ask("GET", "/v1/log", b"").await.unwrap();
        assert_eq!(status, 200);
        let log = from_json::<Logs>(&body).unwrap().logs[0];
        let path = format!("/v1/log/leaves?log={}&from={from}", hex(&log));
        let (status, body) = self.ask("GET", &path, b"").await.unwrap();
        assert_eq!(status, 200);
        from_json(&body).unwrap()
    }

    /// Asserts that it still runs once no other task can make progress.
    async fn still_runs(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(self.ask("GET", "/healthz", b"").await.unwrap().0, 200);
        assert!(!self.server.is_finished());
    }
}

async fn ask(
    address: std::net::SocketAddr,
    method: &str,
    path: &str,
    body: &[u8],
) -> Option<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: enclave\r\nconnection: close\r\ncontent-type: message/ohttp-req\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1)?.parse().unwrap();
    Some((status, answer.split_off(end + 4)))
}

#[tokio::test]
async fn a_stop_waits_until_the_host_has_stored_the_last_leaf() {
    let mut running = Running::start(Rig::new(), FOR_EVER).await;
    let attested = running.rig.attest().await;
    running.leaves(0).await;
    let receipt = running.issue(&attested).await;
    running.stop().await;
    running.still_runs().await;
    // Fetching leaves does not acknowledge them.
    assert_eq!(running.leaves(1).await.leaves, [receipt_hash(&receipt)]);
    running.still_runs().await;
    assert!(running.leaves(2).await.leaves.is_empty());
    running.server.await.unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_where_everything_is_stored() {
    let mut running = Running::start(Rig::new(), FOR_EVER).await;
    let attested = running.rig.attest().await;
    running.issue(&attested).await;
    running.leaves(2).await;
    running.stop.take().unwrap().send(()).unwrap();
    running.server.await.unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_host_that_stores_no_log() {
    let mut running = Running::start(Rig::new(), FOR_EVER).await;
    let attested = running.rig.attest().await;
    running.issue(&attested).await;
    // A host that stores a log has asked by now.
    running.rig.advance(11);
    running.stop.take().unwrap().send(()).unwrap();
    running.server.await.unwrap();

    let mut without_receipts = Running::start(Rig::new(), FOR_EVER).await;
    without_receipts.stop.take().unwrap().send(()).unwrap();
    without_receipts.server.await.unwrap();
}

#[tokio::test]
async fn a_stop_waits_for_a_host_that_could_not_ask_yet() {
    let mut running = Running::start(Rig::new(), FOR_EVER).await;
    let attested = running.rig.attest().await;
    let receipt = running.issue(&attested).await;
    running.stop().await;
    running.still_runs().await;
    assert_eq!(
        running.leaves(0).await.leaves[1..],
        [receipt_hash(&receipt)]
    );
    running.leaves(2).await;
    running.server.await.unwrap();
}

#[tokio::test]
async fn the_wait_for_the_host_is_bounded() {
    let mut running = Running::start(Rig::new(), Duration::from_millis(50)).await;
    running.leaves(0).await;
    running.stop.take().unwrap().send(()).unwrap();
    running.server.await.unwrap();
    assert_eq!(running.rig.service.unstored_logs(), 1);
}

#[tokio::test]
async fn a_stop_waits_for_logs_of_earlier_keys_too() {
    let mut running = Running::start(Rig::new(), FOR_EVER).await;
    let old = running.rig.attest().await;
    running.rig.advance(3600);
    running.rig.service.rotate().unwrap();
    running.leaves(1).await;
    let receipt = running.issue(&old).await;
    running.stop().await;
    running.still_runs().await;
    let log = hex(old.verified.receipt_key().bytes());
    for (from, leaves) in [(1, vec![receipt_hash(&receipt)]), (2, vec![])] {
        let path = format!("/v1/log/leaves?log={log}&from={from}");
        let (_, body) = running.ask("GET", &path, b"").await.unwrap();
        assert_eq!(from_json::<Leaves>(&body).unwrap().leaves, leaves);
    }
    running.server.await.unwrap();
}

#[tokio::test]
async fn a_stopping_service_answers_only_the_log_and_its_state() {
    let mut running = Running::start(Rig::new(), FOR_EVER).await;
    let attested = running.rig.attest().await;
    running.leaves(0).await;
    running.stop().await;
    let (status, problem) = running.ask("GET", "/readyz", b"").await.unwrap();
    assert_eq!((status, code(&problem).as_str()), (503, "DRAINING"));
    let now = running.rig.now();
    let (sealed, _) =
        exchange::begin(&attested.verified, hello(), now, &mut UnwrapErr(SysRng)).unwrap();
    for (method, path, body) in [
        ("POST", "/v1/gateway", &sealed[..]),
        ("GET", "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA", b""),
        ("GET", "/v1/channel", b""),
        ("GET", "/v1/development-policy", b""),
        ("GET", "/v1/other", b""),
    ] {
        assert_eq!(running.ask(method, path, body).await, None, "{path}");
    }
    // None of these requests issued a receipt.
    running.leaves(1).await;
    running.server.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_issued_during_a_stop_reaches_the_host() {
    let held = Arc::new(HeldToy::default());
    let rig = Rig::with(Options {
        encoder: held.clone(),
        ..Options::default()
    });
    let mut running = Running::start(rig, FOR_EVER).await;
    let attested = running.rig.attest().await;
    running.leaves(0).await;
    // Every leaf so far is stored.
    running.leaves(1).await;
    let now: UnixMillis = running.rig.now();
    let (sealed, pending) =
        exchange::begin(&attested.verified, hello(), now, &mut UnwrapErr(SysRng)).unwrap();
    let address = running.address;
    let client = tokio::spawn(async move { ask(address, "POST", "/v1/gateway", &sealed).await });
    held.wait_begun(1).await;
    running.stop().await;
    running.still_runs().await;
    // A pull before the answer finds no new leaf, and does not end the stop.
    assert!(running.leaves(1).await.leaves.is_empty());
    running.still_runs().await;
    held.release(1);
    let (status, answer) = client.await.unwrap().unwrap();
    assert_eq!(status, 200);
    let answer = pending.finish(&answer, now);
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    let receipt = receipt_hash(&answer.receipt.unwrap().bytes);
    assert_eq!(running.leaves(1).await.leaves, [receipt]);
    running.leaves(2).await;
    running.server.await.unwrap();
}
