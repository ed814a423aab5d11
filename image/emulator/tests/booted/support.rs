//! Fixtures: machines, their proxies, and clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Bounds a test that would otherwise hang; nothing is measured with it.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Path of an image that the suite built.
pub(crate) fn image(name: &str) -> PathBuf {
    from_suite("CLEARSEAL_IMAGES")
        .join(name)
        .join("enclave.eif")
}

/// The measurements that the builder printed.
pub(crate) fn measurements(name: &str) -> Value {
    let text = std::fs::read(image(name).with_file_name("measurements.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["pcrs"].clone()
}

fn program(name: &str) -> PathBuf {
    from_suite("CLEARSEAL_BIN_DIR").join(name)
}

fn from_suite(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(
        || panic!("{variable} is not set; run: npm test -- --only emulator"),
        PathBuf::from,
    )
}

/// A booted image. Dropping it ends the machine.
pub(crate) struct Booted {
    child: Child,
    // The emulator ends when this closes, even if the test is killed.
    input: Option<ChildStdin>,
    console: Arc<Console>,
    folder: TempDir,
}

#[derive(Default)]
struct Console {
    text: Mutex<(String, bool)>,
    grown: Condvar,
}

impl Booted {
    pub(crate) fn boot(image: &Path) -> Self {
        Self::boot_in(image, tempfile::tempdir().unwrap())
    }

    fn boot_in(image: &Path, folder: TempDir) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_enclave-emulator"))
            .arg(image)
            .arg("--socket")
            .arg(folder.path().join("vm.vsock"))
            .arg("--end-with-input")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let console = Arc::new(Console::default());
        let (mut output, copy) = (child.stdout.take().unwrap(), Arc::clone(&console));
        std::thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut block) {
                copy.text
                    .lock()
                    .unwrap()
                    .0
                    .push_str(&String::from_utf8_lossy(&block[..count]));
                copy.grown.notify_all();
            }
            copy.text.lock().unwrap().1 = true;
            copy.grown.notify_all();
        });
        Self {
            input: child.stdin.take(),
            child,
            console,
            folder,
        }
    }

    /// Kills the machine while it works, and boots the image again with the same socket.
    pub(crate) fn restart(mut self, image: &Path) -> Self {
        self.kill();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        drop(self);
        Self::boot_in(image, folder)
    }

    pub(crate) fn kill(&mut self) {
        self.input.take();
        self.child.wait().unwrap();
    }

    /// Waits until the console has printed `text`; returns everything it printed.
    pub(crate) fn wait_for_output(&self, text: &str) -> String {
        let console = self.wait(|console, _| console.contains(text));
        assert!(
            console.contains(text),
            "the console never printed {text}:\n{console}"
        );
        console
    }

    /// Waits until the machine has ended by itself; returns everything its console printed.
    pub(crate) fn wait_for_end(&self) -> String {
        self.wait(|_, ended| ended)
    }

    fn wait(&self, done: impl Fn(&str, bool) -> bool) -> String {
        let guard = self.console.text.lock().unwrap();
        let waiting = |state: &mut (String, bool)| !state.1 && !done(&state.0, state.1);
        let (guard, late) = self
            .console
            .grown
            .wait_timeout_while(guard, TIMEOUT, waiting)
            .unwrap();
        assert!(!late.timed_out(), "the console waits:\n{}", guard.0);
        guard.0.clone()
    }

    /// Address of the enclave's port, for host-proxy.
    pub(crate) fn address(&self) -> String {
        format!("hybrid:{}:5005", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("vm.vsock")
    }

    /// Address at which its connections to a port of the parent arrive.
    pub(crate) fn parent(&self, port: u16) -> String {
        format!("unix:{}_{port}", self.socket().display())
    }

    /// Connects to its port directly, as a parent would.
    pub(crate) fn connect(&self) -> UnixStream {
        self.connect_to(5005)
    }

    pub(crate) fn connect_to(&self, port: u16) -> UnixStream {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        // In one write: the monitor closes a connection if its first read returns half of the line.
        stream
            .write_all(format!("CONNECT {port}\n").as_bytes())
            .unwrap();
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        assert!(line.starts_with(b"OK "), "{line:?}");
        stream
    }

    /// Returns the body at a path, requested directly from the machine.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        let (head, body) = exchange(self.connect(), path);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        self.input.take();
        self.child.wait().ok();
    }
}

fn exchange(mut stream: impl Read + Write, path: &str) -> (String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: enclave\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .expect("an answer has a head");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

/// The released host-proxy. Dropping it ends it.
pub(crate) struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    pub(crate) fn start(enclave: &str) -> Self {
        Self::start_with(enclave, &[])
    }

    pub(crate) fn start_with(enclave: &str, options: &[&str]) -> Self {
        let mut child = Command::new(program("host-proxy"))
            .args(["--listen=127.0.0.1:0", "--log=json", "--enclave", enclave])
            // Emulated inference is slow.
            .args(["--first-byte-timeout=600", "--total-timeout=600"])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let line: Value = serde_json::from_str(&line).ok()?;
                ["/address", "/fields/address"]
                    .iter()
                    .find_map(|at| line.pointer(at)?.as_str().map(str::to_owned))
                    // It also prints the address at which it listens for the enclave.
                    .filter(|address| address.starts_with("127.0.0.1:"))
            })
            .expect("host-proxy says where it listens");
        // Unread output would fill the pipe and block the process.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns head and body at a path.
    pub(crate) fn get(&self, path: &str) -> (String, Vec<u8>) {
        exchange(TcpStream::connect(&self.address).unwrap(), path)
    }

    /// Waits until the enclave accepts requests.
    pub(crate) fn wait_until_ready(&self) {
        let begun = std::time::Instant::now();
        while !self.get("/readyz").0.starts_with("HTTP/1.1 200") {
            assert!(begun.elapsed() < TIMEOUT, "the enclave never got ready");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A policy with this service's root and model, and these measurements.
    pub(crate) fn policy(&self, pcrs: &Value) -> Value {
        let (_, body) = self.get("/v1/development-policy");
        let mut policy: Value = serde_json::from_slice(&body).unwrap();
        policy["name"] = json!("of the builder's measurements");
        policy["releases"] = json!([{ "name": "built", "pcrs": pcrs }]);
        policy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A simulated KMS with the suite's key and a policy for one image. Dropping it ends it.
pub(crate) struct Kms {
    child: Child,
    url: String,
}

impl Kms {
    /// A KMS that releases the key to the image `name`.
    pub(crate) fn releasing_to(name: &str) -> Self {
        let key = image("sealed").with_file_name("kms");
        let put = Command::new(program("kms-simulator"))
            .args(["put-policy", "--key"])
            .arg(&key)
            .arg("--measurements")
            .arg(image(name).with_file_name("measurements.json"))
            .status()
            .unwrap();
        assert!(put.success());
        let mut child = Command::new(program("kms-simulator"))
            .args(["serve", "--key"])
            .arg(key)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let url = line.split_whitespace().nth(1).unwrap().to_owned();
        Self { child, url }
    }

    /// A host-proxy that serves key and model to the machine.
    pub(crate) fn proxy(&self, machine: &Booted) -> Proxy {
        let models = image("sealed").with_file_name("kms").join("models");
        let options = [
            "--parent-listen",
            &machine.parent(5006),
            "--simulate-kms",
            &self.url,
            "--models",
            models.to_str().unwrap(),
        ];
        Proxy::start_with(&machine.address(), &options)
    }
}

impl Drop for Kms {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The released command-line client.
pub(crate) struct Client {
    folder: TempDir,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(program("clearseal"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Starts to embed one line under a policy.
    pub(crate) fn embed(&self, url: &str, policy: &Value, line: &str) -> Child {
        let policy = self.file("policy.json", policy.to_string().as_bytes());
        let mut child = Command::new(program("clearseal"))
            .args(["embed", "--accept-simulated", "--url", url, "--policy"])
            .arg(policy)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        child
    }
}

/// Standard error of a program.
pub(crate) fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
