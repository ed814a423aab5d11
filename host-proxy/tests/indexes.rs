//! Objects of indexes, as the enclave stores them in the real program: created once, bounded, and whole after a kill.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

const ID: &str = "0123456789abcdef0123456789abcdef";

/// The real program, until it is dropped or killed.
struct Process {
    child: Child,
    enclave: SocketAddr,
    public: SocketAddr,
}

impl Process {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_host-proxy"));
        command.arg("--indexes").arg(folder).args(flags);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .args(["--enclave=unix:/nonexistent", "--listen=127.0.0.1:0"])
            .arg("--parent-listen=tcp:127.0.0.1:0")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut address = |message: &str| {
            let line = lines.find(|line| line.as_ref().unwrap().contains(message));
            let line: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
            let address = line["address"].as_str().unwrap();
            address.trim_start_matches("tcp:").parse().unwrap()
        };
        let public = address("\"listening\"");
        let enclave = address("listening for the enclave");
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            enclave,
            public,
        }
    }

    fn ask(&self, request: &str, body: &[u8]) -> (u16, Vec<u8>) {
        ask(self.enclave, request, body).unwrap()
    }

    /// Status and code of a refusal.
    fn refusal(&self, request: &str, body: &[u8]) -> (u16, String) {
        let (status, body) = self.ask(request, body);
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        (
            status,
            problem["code"].as_str().unwrap_or_default().to_owned(),
        )
    }

    fn names(&self) -> BTreeMap<String, u64> {
        let (status, body) = self.ask(&format!("GET /v1/indexes/{ID}"), b"");
        assert_eq!(status, 200);
        let listing: Value = serde_json::from_slice(&body).unwrap();
        let objects = listing["objects"].as_array().unwrap().iter();
        let object = |one: &Value| {
            let name = one["name"].as_str().unwrap().to_owned();
            (name, one["size"].as_u64().unwrap())
        };
        objects.map(object).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn ask(address: SocketAddr, request: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: parent\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let content = answer.split_off(end + 4);
    let stated = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let stated: Option<usize> = stated.map(|stated| stated.parse().unwrap());
    // A connection that ends early must not look like an answer.
    match stated {
        Some(stated) if stated == content.len() => Ok((status, content)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn state(version: u64) -> String {
    format!("/v1/indexes/{ID}/states/{version:020}")
}

#[test]
fn objects_are_created_once_and_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), &[]);
    assert!(process.names().is_empty());
    let segment = format!("/v1/indexes/{ID}/segments/{}", "ab".repeat(32));
    let create = |path: &str, bytes: &[u8]| process.refusal(&format!("POST {path}"), bytes);
    assert_eq!(create(&state(0), b"first").0, 201);
    assert_eq!(create(&segment, &[7; 100_000]).0, 201);
    let exists = (409, "INDEX_OBJECT_EXISTS".to_owned());
    assert_eq!(create(&state(0), b"second"), exists);
    assert_eq!(process.names().len(), 2);
    drop(process);

    let process = Process::start(folder.path(), &[]);
    assert_eq!(
        process.ask(&format!("GET {}", state(0)), b""),
        (200, b"first".to_vec())
    );
    assert_eq!(
        process.ask(&format!("GET {segment}"), b""),
        (200, vec![7; 100_000])
    );
    for _ in 0..2 {
        assert_eq!(process.ask(&format!("DELETE {segment}"), b"").0, 200);
    }
    let absent = (404, "INDEX_OBJECT_UNKNOWN".to_owned());
    assert_eq!(process.refusal(&format!("GET {segment}"), b""), absent);
    assert_eq!(process.names().len(), 1);
}

#[test]
fn other_names_methods_and_readers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), &[]);
    let long = "a".repeat(64);
    for (path, status, code) in [
        ("/v1/indexes/a".to_owned(), 400, "INDEX_OBJECT_NAME_INVALID"),
        (
            format!("/v1/indexes/{ID}/states/7"),
            400,
            "INDEX_OBJECT_NAME_INVALID",
        ),
        (
            format!("/v1/indexes/{ID}/other/{long}"),
            400,
            "INDEX_OBJECT_NAME_INVALID",
        ),
        (
            format!("/v1/indexes/{ID}/states/..%2f..%2fx"),
            400,
            "INDEX_OBJECT_NAME_INVALID",
        ),
        (
            format!("/v1/indexes/../{ID}/states/1"),
            404,
            "PARENT_ENDPOINT_UNKNOWN",
        ),
        (
            format!("/v1/indexes/{ID}/states"),
            404,
            "PARENT_ENDPOINT_UNKNOWN",
        ),
    ] {
        let refused = process.refusal(&format!("GET {path}"), b"");
        assert_eq!(refused, (status, code.to_owned()), "{path}");
    }
    assert_eq!(process.refusal(&format!("PUT {}", state(0)), b"x").0, 405);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    for path in [state(0), format!("/v1/indexes/{ID}")] {
        for method in ["GET", "POST", "DELETE"] {
            let (status, _) = ask(process.public, &format!("{method} {path}"), b"x").unwrap();
            assert_eq!(status, 404, "{method} {path} of the public address");
        }
    }
}

#[test]
fn without_a_folder_there_are_no_indexes() {
    let process = Process::spawn(Command::new(env!("CARGO_BIN_EXE_host-proxy")));
    for request in [
        format!("GET /v1/indexes/{ID}"),
        format!("POST {}", state(0)),
    ] {
        let refused = process.refusal(&request, b"");
        assert_eq!(refused, (501, "INDEXES_OFF".to_owned()), "{request}");
    }
}

#[test]
fn all_objects_together_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--indexes-max=1048576"];
    let process = Process::start(folder.path(), &flags);
    let create = |process: &Process, version, length| {
        process.refusal(&format!("POST {}", state(version)), &vec![1; length])
    };
    let full = (507, "INDEXES_FULL".to_owned());
    assert_eq!(create(&process, 0, 600_000).0, 201);
    assert_eq!(create(&process, 1, 600_000), full);
    assert_eq!(create(&process, 0, 600_000).0, 409);
    drop(process);
    // The objects of an earlier process count.
    let process = Process::start(folder.path(), &flags);
    assert_eq!(create(&process, 1, 600_000), full);
    assert_eq!(process.ask(&format!("DELETE {}", state(0)), b"").0, 200);
    assert_eq!(create(&process, 1, 600_000).0, 201);
    assert_eq!(create(&process, 2, (128 << 20) + 1).0, 413);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // With SIGXFSZ ignored, a write beyond the limit on file sizes fails.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""]);
    shell.arg(env!("CARGO_BIN_EXE_host-proxy"));
    shell.arg("--indexes").arg(folder.path());
    let process = Process::spawn(shell);
    let refused = process.refusal(&format!("POST {}", state(0)), &vec![1; 1 << 20]);
    assert_eq!(refused, (503, "INDEXES_UNAVAILABLE".to_owned()));
    assert!(process.names().is_empty());
    let left = std::fs::read_dir(folder.path().join(ID).join("states"));
    assert_eq!(left.unwrap().count(), 0);
    assert_eq!(process.ask(&format!("POST {}", state(0)), b"x").0, 201);
}

/// Contents of a state, of which no prefix is that of another.
fn contents(version: u64) -> Vec<u8> {
    let bytes = (0..400_000_u64).map(|at| (at * 31 + version * 7) as u8);
    version.to_be_bytes().into_iter().chain(bytes).collect()
}

#[test]
fn a_kill_leaves_every_acknowledged_object_and_no_part_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..12_u64 {
        let mut process = Process::start(folder.path(), &[]);
        let names = process.names();
        // One more may exist, whose answer the kill took away.
        for version in 0..=acknowledged {
            let (status, bytes) = process.ask(&format!("GET {}", state(version)), b"");
            let is_whole = status == 200 && bytes == contents(version);
            assert!(is_whole || status == 404, "{version} is a part");
            assert!(is_whole || version >= acknowledged, "{version} is lost");
            assert_eq!(
                names.contains_key(&format!("states/{version:020}")),
                is_whole
            );
        }
        let files = std::fs::read_dir(folder.path().join(ID).join("states"));
        let count = files.map_or(0, Iterator::count);
        assert_eq!(
            count,
            names.len(),
            "temporary files are removed at the start"
        );
        let address = process.enclave;
        let writer = std::thread::spawn(move || {
            let written = (acknowledged..).take_while(|&version| {
                let answer = ask(
                    address,
                    &format!("POST {}", state(version)),
                    &contents(version),
                );
                // 409 for an object of the round before, whose answer was lost.
                matches!(answer, Ok((201 | 409, _)))
            });
            written.last().map_or(acknowledged, |last| last + 1)
        });
        std::thread::sleep(Duration::from_millis(5 + 13 * round));
        process.child.kill().unwrap();
        acknowledged = writer.join().unwrap();
    }
    assert!(acknowledged > 0);
}
