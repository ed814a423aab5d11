//! Real processes: an enclave that has its model sealed from host-proxy, and its key from a simulated KMS, before this
//! program's terminal. And hosts that do not give what they should.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = "all-MiniLM-L6-v2";

/// Programs of the workspace are in the same folder as this package's; `cargo test --workspace` builds them all.
fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_clearseal")).with_file_name(name);
    assert!(
        path.is_file(),
        "{} is missing; build it: cargo build -p {name}",
        path.display()
    );
    path
}

/// A simulated key and the model sealed under it, made once for all tests here.
static SEALED: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(program("kms-simulator"))
        .arg("new-key")
        .arg("--out")
        .arg(folder.path())
        .arg("--enclave")
        .arg(program("enclave-server"))
        .args(["--model", MODEL, "--seal"])
        .arg(model())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder
});

/// Where `cargo xtask model` puts it.
pub(crate) fn model() -> PathBuf {
    if let Some(folder) = std::env::var_os("CLEARSEAL_MODEL") {
        return folder.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let cache = cache.map_or_else(
        || std::env::home_dir().unwrap().join(".cache"),
        PathBuf::from,
    );
    cache.join("clearseal/models").join(MODEL)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ends with its owner.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(name: &str, configure: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(program(name));
        configure(&mut command);
        // Ignore the test runner's variables, which are for tests of other packages.
        command
            .env_remove("CLEARSEAL_MODEL")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A host: the simulated KMS, and host-proxy over a folder of models.
struct Host {
    folder: TempDir,
    proxy: Process,
    url: String,
    arn: String,
    _kms: Process,
}

impl Host {
    /// `models` is what host-proxy serves; `with_kms` whether it knows a KMS.
    fn start(models: &Path, with_kms: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut kms = Process::start("kms-simulator", |command| {
            command.args(["serve", "--key"]).arg(SEALED.path());
        });
        let mut line = String::new();
        let output = kms.0.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let (arn, kms_url) = line.trim().split_once(' ').unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = port.unwrap().to_string();
        let path = |name: &str| format!("unix:{}", folder.path().join(name).display());
        let proxy = Process::start("host-proxy", |command| {
            command
                .args(["--listen", &address, "--enclave", &path("enclave.sock")])
                .args(["--parent-listen", &path("parent.sock"), "--models"])
                .arg(models);
            if with_kms {
                command.args(["--simulate-kms", kms_url]);
            }
        });
        Self {
            url: format!("http://{address}"),
            arn: arn.to_owned(),
            folder,
            proxy,
            _kms: kms,
        }
    }

    fn enclave(&self) -> Process {
        let parent = self.folder.path().join("parent.sock");
        enclave(self.folder.path(), &parent, &self.arn, "60s")
    }
}

fn enclave(folder: &Path, parent: &Path, arn: &str, deadline: &str) -> Process {
    Process::start("enclave-server", |command| {
        let path = |path: &Path| format!("unix:{}", path.display());
        command
            .args(["--listen", &path(&folder.join("enclave.sock"))])
            .args(["--simulate-nsm", "--simulated-root"])
            .arg(SEALED.path().join("root.seed"))
            .args(["--parent", &path(parent), "--kms-key", arn])
            .args(["--provision-deadline", deadline, "--log=json"]);
    })
}

/// Returns the error of an enclave that does not start. Its process has to end by itself.
fn startup_error(mut enclave: Process) -> Value {
    let mut output = String::new();
    let mut pipe = enclave.0.stderr.take().unwrap();
    pipe.read_to_string(&mut output).unwrap();
    assert!(!enclave.0.wait().unwrap().success(), "{output}");
    let last = output.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{output}"))
}

fn code_of(enclave: Process) -> String {
    startup_error(enclave)["code"].as_str().unwrap().to_owned()
}

/// The body of `GET path`, once it is answered with 200.
pub(crate) fn get(url: &str, path: &str) -> Vec<u8> {
    let address = url.strip_prefix("http://").unwrap();
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(120), "{path}");
        let ask = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(address)?;
            let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().unwrap_or_default();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end
            && answer.starts_with(b"HTTP/1.1 200")
        {
            return answer[end + 4..].to_vec();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn embed(url: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .args(["embed", "--accept-simulated", "--url", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"a text that only the enclave reads\n")
        .unwrap();
    child.wait_with_output().unwrap()
}

/// Whether any memory that a process can write holds `needle`.
fn memory_holds(process: u32, needle: &[u8]) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut read = 0_u64;
    let found = maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with("rw") {
            return false;
        }
        let (start, end) = range.split_once('-').unwrap();
        let bound = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (bound(start), bound(end));
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        // Some special mappings cannot be read by anyone.
        if memory.read_exact_at(&mut bytes, start).is_err() {
            return false;
        }
        read += end - start;
        bytes.windows(needle.len()).any(|window| window == needle)
    });
    assert!(read > 1 << 20 || found, "only {read} bytes could be read");
    found
}

#[test]
fn a_released_key_opens_the_sealed_model_and_the_host_never_has_it() {
    let host = Host::start(&SEALED.path().join("models"), true);
    let _enclave = host.enclave();
    let ready: Value = serde_json::from_slice(&get(&host.url, "/readyz")).unwrap();
    assert_eq!(ready["key_release"], "simulated KMS", "{ready}");
    assert_eq!(ready["simulated"], true);
    let stages = ready["start_ms"].as_object().unwrap();
    for stage in [
        "recipient_key",
        "attestation",
        "key_release",
        "fetch",
        "decrypt",
        "hash",
        "layout",
        "tokenizer",
        "load",
        "pack",
        "keys",
        "total",
    ] {
        assert!(stages[stage].as_f64().is_some(), "{stage}: {ready}");
    }

    let output = embed(&host.url);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    let vector = row["embedding"].as_array().unwrap();
    let length: f64 = vector
        .iter()
        .map(|value| value.as_f64().unwrap().powi(2))
        .sum();
    assert!(
        vector.len() == 384 && (length - 1.0).abs() < 1e-3,
        "{length}"
    );

    let key = std::fs::read(SEALED.path().join("data-key")).unwrap();
    assert!(
        !memory_holds(host.proxy.id(), &key),
        "the data key is there"
    );
    // The search finds what is there.
    let models = SEALED.path().join("models");
    assert!(memory_holds(
        host.proxy.id(),
        models.to_str().unwrap().as_bytes()
    ));
}

/// A copy of what host-proxy serves, with another file in one's place.
fn altered(file: &str, contents: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (
        SEALED.path().join("models").join(MODEL),
        folder.path().join(MODEL),
    );
    std::fs::create_dir(&to).unwrap();
    for name in ["model.sealed", "data-key.wrapped"] {
        if name == file {
            std::fs::write(to.join(name), contents).unwrap();
        } else {
            std::os::unix::fs::symlink(from.join(name), to.join(name)).unwrap();
        }
    }
    folder
}

fn refused_over(models: &Path, with_kms: bool) -> String {
    let host = Host::start(models, with_kms);
    code_of(host.enclave())
}

/// A container of small files, under a key.
fn sealed_small(key: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::write(dir.join(name), b"{}").unwrap();
    }
    let sealed = Command::new(env!("CARGO_BIN_EXE_clearseal"))
        .current_dir(folder.path())
        .args(["model", "seal", "dir", "--out", "other.sealed"])
        .args(key)
        .output()
        .unwrap();
    assert!(sealed.status.success(), "{}", text(&sealed.stderr));
    std::fs::read(folder.path().join("other.sealed")).unwrap()
}

#[test]
fn a_container_under_another_key_is_refused() {
    let other = altered(
        "model.sealed",
        &sealed_small(&["--key-file", "new", "--new-key"]),
    );
    assert_eq!(refused_over(other.path(), true), "CONTAINER_WRONG_KEY");
}

#[test]
fn other_files_under_the_right_key_are_refused() {
    let key = SEALED.path().join("data-key");
    let small = sealed_small(&["--key-file", key.to_str().unwrap()]);
    let other = altered("model.sealed", &small);
    assert_eq!(refused_over(other.path(), true), "MODEL_SET_NOT_PINNED");
}

#[test]
fn a_truncated_container_is_refused() {
    let path = SEALED
        .path()
        .join("models")
        .join(MODEL)
        .join("model.sealed");
    let mut bytes = std::fs::read(path).unwrap();
    bytes.truncate(bytes.len() - 1);
    let short = altered("model.sealed", &bytes);
    assert_eq!(refused_over(short.path(), true), "MODEL_LENGTH");
}

#[test]
fn a_wrapped_key_that_kms_does_not_know_is_denied() {
    let other = altered("data-key.wrapped", &[7; 100]);
    let host = Host::start(other.path(), true);
    let refusal = startup_error(host.enclave());
    assert_eq!(refusal["code"], "KEY_RELEASE_DENIED");
    let error = refusal["error"].as_str().unwrap();
    assert!(error.contains("InvalidCiphertextException"), "{error}");
}

#[test]
fn a_host_without_a_kms_is_named() {
    let host = Host::start(&SEALED.path().join("models"), false);
    let refusal = startup_error(host.enclave());
    assert_eq!(refusal["code"], "KEY_RELEASE_UNAVAILABLE");
    let error = refusal["error"].as_str().unwrap();
    assert!(error.contains("KMS_NOT_CONFIGURED"), "{error}");
}

#[test]
fn a_parent_that_never_answers_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("parent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let held = std::thread::spawn(move || {
        // Kept open, or the enclave would see an end.
        listener.accept().map(|(stream, _)| stream)
    });
    let arn = "arn:aws:kms:dev-local-1:000000000000:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    let code = code_of(enclave(folder.path(), &socket, arn, "1s"));
    assert_eq!(code, "PARENT_DEADLINE");
    drop(held.join().unwrap());
}

#[test]
fn a_parent_that_answers_with_a_plaintext_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("parent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let arn = "arn:aws:kms:dev-local-1:000000000000:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    let lie = format!(r#"{{"KeyId":"{arn}","Plaintext":"AAAA","CiphertextForRecipient":"AAAA"}}"#);
    std::thread::spawn(move || {
        for body in ["wrapped", &lie] {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(body.as_bytes()).unwrap();
        }
    });
    let code = code_of(enclave(folder.path(), &socket, arn, "60s"));
    assert_eq!(code, "KEY_RELEASE_PLAINTEXT");
}

fn read_request(stream: &mut UnixStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
}

#[test]
fn a_process_of_the_enclave_can_not_be_dumped() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("parent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let arn = "arn:aws:kms:dev-local-1:000000000000:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    let enclave = enclave(folder.path(), &socket, arn, "60s");
    // It asks after it has forbidden dumps.
    let held = listener.accept().unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", enclave.id())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let words: Vec<_> = core.unwrap().split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"]);
    drop(held);
}
