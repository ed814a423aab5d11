//! The real program, and the heads and receipts that it has acknowledged before a kill.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use merkle::Hash;
use merkle::head::TreeHead;
use merkle::json::{Consistency, Inclusion, SignedHead, from_json, hex};
use merkle::verify;

use crate::support::{self, FakeEnclave};

/// The real program, until it is killed.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: std::net::SocketAddr,
    /// The program's log lines.
    pub(crate) log: Arc<Mutex<String>>,
    /// Reads the log until the program ends.
    reader: std::thread::JoinHandle<()>,
}

impl Process {
    pub(crate) fn start(enclave: &FakeEnclave) -> Self {
        Self::spawn(enclave, Command::new(env!("CARGO_BIN_EXE_host-proxy")))
    }

    /// Starts it with SIGXFSZ ignored, so that a write beyond the limit on file sizes fails, as on a full disk.
    pub(crate) fn start_without_xfsz(enclave: &FakeEnclave) -> Self {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_host-proxy"));
        Self::spawn(enclave, shell)
    }

    pub(crate) fn spawn(enclave: &FakeEnclave, mut command: Command) -> Self {
        let mut child = command
            .args(["--listen=127.0.0.1:0", "--enclave"])
            .arg(format!("unix:{}", enclave.path().display()))
            .args(["--publish-every=0.1s", "--receipt-log"])
            .arg(enclave.path().with_file_name("receipts.redb"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|line| {
                let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
                line["address"].as_str()?.parse().ok()
            })
            .expect("the first lines of the log name the address, or the error");
        let log = Arc::new(Mutex::new(String::new()));
        let writer = Arc::clone(&log);
        // Reads on, so that the pipe does not fill up.
        let reader = std::thread::spawn(move || {
            lines.for_each(|line| writer.lock().unwrap().push_str(&line.unwrap()));
        });
        Self {
            child,
            address,
            log,
            reader,
        }
    }

    /// Sends a sealed request, after which the proxy pulls the log.
    pub(crate) fn traffic(&self) {
        assert!(Self::ask(self.address));
    }

    /// Sends sealed requests until the address refuses one; returns the number of answers.
    pub(crate) fn send_until_refused(address: std::net::SocketAddr) -> usize {
        std::iter::repeat_with(|| Self::ask(address))
            .take_while(|answered| *answered)
            .count()
    }

    /// Sends a sealed request; returns whether it got its answer.
    pub(crate) fn ask(address: std::net::SocketAddr) -> bool {
        use std::io::{Read as _, Write as _};
        let mut answer = Vec::new();
        let asked = std::net::TcpStream::connect(address).and_then(|mut stream| {
            let request = "POST /v1/gateway HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx";
            stream.write_all(request.as_bytes())?;
            stream.read_to_end(&mut answer)
        });
        asked.is_ok() && answer.ends_with(b"sealed")
    }

    /// Sets the largest size of the program's files. Writes beyond it fail.
    pub(crate) fn limit_files(&self, bytes: &str) {
        let limit = Command::new("prlimit")
            .args(["--pid", &self.child.id().to_string()])
            .arg(format!("--fsize={bytes}:"))
            .status();
        assert!(limit.unwrap().success());
    }

    pub(crate) async fn size(&self, name: &str) -> Option<u64> {
        let body = self.get(&format!("/v1/log/{name}/head")).await?;
        let head: SignedHead = from_json(&body).unwrap();
        Some(TreeHead::verify(&head.head).unwrap().size)
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Vec<u8>> {
        use http_body_util::BodyExt as _;
        let uri = format!("http://{}{path}", self.address).parse().unwrap();
        let answer = support::client().get(uri).await.ok()?;
        let found = answer.status().is_success();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        found.then(|| body.to_vec())
    }

    /// Sends SIGTERM: a planned stop.
    pub(crate) fn begin_stop(&self) {
        let kill = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(kill.unwrap().success());
    }

    /// Waits for the program to end and for its last line of log, and returns whether its exit status is 0.
    pub(crate) fn wait(mut self) -> bool {
        let status = self.child.wait().unwrap();
        self.reader.join().unwrap();
        status.success()
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Heads and receipts that any run of the program has acknowledged.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) heads: Vec<TreeHead>,
    receipts: Vec<Hash>,
}

impl Acknowledged {
    pub(crate) async fn note(&mut self, process: &Process, name: &str, leaf: Option<Hash>) {
        let path = format!("/v1/log/{name}/head");
        if let Some(body) = process.get(&path).await {
            let head: SignedHead = from_json(&body).unwrap();
            let head = TreeHead::verify(&head.head).unwrap();
            if self.heads.last() != Some(&head) {
                self.heads.push(head);
            }
        }
        let Some(leaf) = leaf else { return };
        let path = format!("/v1/log/{name}/inclusion?receipt={}", hex(&leaf));
        if process.get(&path).await.is_some() && self.receipts.last() != Some(&leaf) {
            self.receipts.push(leaf);
        }
    }

    /// Checks after a restart that the newest tree extends every acknowledged one, and has every acknowledged receipt.
    pub(crate) async fn assert_kept(&self, process: &Process, name: &str, thorough: bool) {
        let Some(last) = self.heads.last() else {
            return;
        };
        let head = process.get(&format!("/v1/log/{name}/head")).await.unwrap();
        let head = TreeHead::verify(&from_json::<SignedHead>(&head).unwrap().head).unwrap();
        assert!(
            head.size >= last.size,
            "{} leaves were acknowledged, {} are stored",
            last.size,
            head.size
        );
        let recent = if thorough { 0 } else { self.heads.len() - 1 };
        for earlier in &self.heads[recent..] {
            let path = format!(
                "/v1/log/{name}/consistency?from={}&to={}",
                earlier.size, head.size
            );
            let proof: Consistency = from_json(&process.get(&path).await.unwrap()).unwrap();
            verify::consistency(&earlier.tree(), &head.tree(), &proof.path).unwrap();
        }
        let recent = if thorough {
            0
        } else {
            self.receipts.len().saturating_sub(1)
        };
        for leaf in &self.receipts[recent..] {
            let path = format!("/v1/log/{name}/inclusion?receipt={}", hex(leaf));
            let proof: Inclusion = from_json(&process.get(&path).await.unwrap()).unwrap();
            let head = TreeHead::verify(&proof.head).unwrap();
            verify::inclusion(leaf, proof.index, head.size, &proof.path, &head.root).unwrap();
        }
    }
}
