//! Stops both programs in either order under two clients: every receipt of a client is in the host's log.
//!
//! Needs the model, like every test that starts the real enclave, and host-proxy in the same folder: `cargo build -p host-proxy`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::process::Client;
use attestation::VerifiedAttestation;
use fixtures::system_time;
use getrandom::SysRng;
use host_proxy::log::Store;
use merkle::Hash;
use merkle::json::hex;
use merkle::tree::receipt_hash;
use protocol::exchange;
use rand_core::UnwrapErr;
use serde_json::json;

const MODEL: &str = "all-MiniLM-L6-v2";
/// Receipts that the clients hold before a stop begins.
const BEFORE_STOP: usize = 6;

/// A program that is stopped when this is dropped.
struct Program(Child);

impl Program {
    /// Starts it, and waits for a line of its log that has all of `words`.
    fn start(command: &mut Command, words: &[&str]) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log_text = String::new();
        loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("it ended early: {log_text}")
            };
            if words.iter().all(|word| line.contains(word)) {
                break;
            }
            log_text.push_str(&line);
            log_text.push('\n');
        }
        // Drains the pipe, which must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    fn terminate(&self) {
        let kill = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(kill.unwrap().success());
    }

    /// Stops it with SIGTERM, if it still runs.
    fn end(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            self.terminate();
            self.wait();
        }
    }

    fn wait(&mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// An enclave, its proxy, and the proxy's log.
struct Pair {
    enclave: Program,
    proxy: Program,
    address: String,
    log: PathBuf,
}

impl Pair {
    fn start(folder: &Path) -> Self {
        let socket = format!("unix:{}", folder.join("enclave.sock").display());
        let binary = Path::new(env!("CARGO_BIN_EXE_enclave-server"));
        let proxy = binary.with_file_name("host-proxy");
        assert!(
            proxy.is_file(),
            "{} is missing; build it: cargo build -p host-proxy",
            proxy.display()
        );
        let enclave = Program::start(
            Command::new(binary).args(["--simulate-nsm", "--listen", &socket]),
            &["ready"],
        );
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = port.unwrap().to_string();
        let log = folder.join("receipts.redb");
        let proxy = Program::start(
            Command::new(proxy)
                .args(["--enclave", &socket, "--listen", &address, "--receipt-log"])
                .arg(&log),
            &["listening", &address],
        );
        Self {
            enclave,
            proxy,
            address,
            log,
        }
    }
}

/// Embeds one text after the other until the service stops. Returns the hashes of its receipts.
fn work(address: &str, attested: &VerifiedAttestation, total: &AtomicUsize) -> Vec<Hash> {
    let mut receipts = Vec::new();
    let mut client = None;
    loop {
        let Some(connected) = client.take().or_else(|| Client::try_connect(address).ok()) else {
            return receipts;
        };
        let mut connected: Client = connected;
        let request =
            fixtures::enclave::embeddings(&json!({"model": MODEL, "input": "a short text"}));
        let (sealed, pending) =
            exchange::begin(attested, request, system_time(), &mut UnwrapErr(SysRng)).unwrap();
        // A connection that the proxy closes while it drains is not a failure; nothing was promised.
        let Ok((status, answer)) = connected.try_ask("POST", "/v1/gateway", &sealed) else {
            continue;
        };
        if status != 200 {
            // The enclave has stopped, and the proxy reports it.
            return receipts;
        }
        let answer = pending.finish(&answer, system_time()).unwrap();
        receipts.push(receipt_hash(&answer.receipt.unwrap().bytes));
        total.fetch_add(1, Ordering::SeqCst);
        client = Some(connected);
    }
}

/// Runs two clients, stops both programs with `stop`, and looks up every receipt in the log.
fn assert_no_receipt_is_lost(name: &str, stop: impl FnOnce(&mut Pair)) {
    let folder = tempfile::tempdir().unwrap();
    let mut pair = Pair::start(folder.path());
    let attested = Client::try_connect(&pair.address).unwrap().attest();
    let total = AtomicUsize::new(0);
    let address = pair.address.clone();
    let receipts: Vec<Hash> = std::thread::scope(|scope| {
        let clients = [0, 1].map(|_| scope.spawn(|| work(&address, &attested, &total)));
        while total.load(Ordering::SeqCst) < BEFORE_STOP {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop(&mut pair);
        // Clients of a proxy that still runs learn from its answers that the enclave has stopped.
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    });
    pair.proxy.end();
    let unlike: HashSet<_> = receipts.iter().collect();
    assert_eq!(unlike.len(), receipts.len());
    Store::check(&pair.log).unwrap();
    let store = Store::open(&pair.log).unwrap();
    let log = *attested.receipt_key().bytes();
    let missing: Vec<_> = receipts
        .iter()
        .filter(|receipt| store.inclusion(&log, receipt).unwrap().is_none())
        .map(hex)
        .collect();
    println!(
        "{name}: {} receipts, {} leaves",
        receipts.len(),
        store.size(&log)
    );
    assert!(
        missing.is_empty(),
        "{name}: of {} receipts {missing:?} are in no log",
        receipts.len()
    );
    assert!(
        store.size(&log) > receipts.len() as u64,
        "the keys are the first leaf"
    );
}

#[test]
fn no_receipt_is_lost_when_the_enclave_stops_first() {
    assert_no_receipt_is_lost("enclave first", |pair| {
        pair.enclave.terminate();
        pair.enclave.wait();
    });
}

#[test]
fn no_receipt_is_lost_when_the_proxy_stops_first() {
    assert_no_receipt_is_lost("proxy first", |pair| {
        pair.proxy.terminate();
        pair.proxy.wait();
        pair.enclave.terminate();
        pair.enclave.wait();
    });
}

#[test]
fn no_receipt_is_lost_when_both_stop_at_once() {
    for enclave_first in [true, false] {
        assert_no_receipt_is_lost("both at once", |pair| {
            let both = [&pair.enclave, &pair.proxy];
            let [first, second] = match enclave_first {
                true => both,
                false => [both[1], both[0]],
            };
            first.terminate();
            second.terminate();
            pair.enclave.wait();
            pair.proxy.wait();
        });
    }
}
