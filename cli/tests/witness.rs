//! A witness as a process: its answers, kills, and the checkpoint that it cosigned.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/small_log.rs"]
mod small_log;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ::witness::key::{Signer, Use, Verifier};
use ::witness::note::parse_signatures;
use ::witness::proof::TlogProof;
use tempfile::TempDir;

use crate::common::{Run, run};
use small_log::{ORIGIN, SIZE, SmallLog};

/// A folder with the configuration of a witness that was initialized, and its public key.
fn initialized() -> (TempDir, Verifier) {
    let folder = tempfile::tempdir().unwrap();
    let log = SmallLog::key();
    let config = format!(
        "name = \"w1.example\"\nlisten = \"127.0.0.1:0\"\nkey = \"w.key\"\ndatabase = \"w.redb\"\nlogs = [\"{}\"]\n",
        log.verifier()
    );
    std::fs::write(folder.path().join("witness.toml"), config).unwrap();
    let made = command(folder.path(), "init");
    assert_eq!(made.status, 0, "{}", made.err);
    let key = Verifier::parse(made.out.trim_end()).unwrap();
    (folder, key)
}

fn command(folder: &Path, verb: &str) -> Run {
    run(folder, &["witness", verb, "--config", "witness.toml"], b"")
}

struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_clearseal"))
            .args(["witness", "run", "--config", "witness.toml"])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it has ended");
            // Remarks on the sources come first.
            if let Some((_, address)) = line.trim_end().split_once(" witnesses on http://") {
                break address.parse().unwrap();
            }
        };
        // Read to the end, so that later lines do not fill the pipe.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self { child, address }
    }

    fn send(&self, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "POST /add-checkpoint HTTP/1.1\r\nhost: w\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    /// Status, header and body of the answer.
    fn post(&self, body: &str) -> (u16, String, String) {
        let mut answer = String::new();
        self.send(body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL, as in a crash. It fails where the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn answers_have_the_status_of_the_specification() {
    let (folder, key) = initialized();
    let again = command(folder.path(), "init");
    assert_eq!(again.status, 2);
    assert!(again.err.contains("WITNESS_INITIALIZED"), "{}", again.err);

    let witness = Process::start(folder.path());
    let (log, other) = (SmallLog::new(1), SmallLog::new(2));
    let (status, _, line) = witness.post(&log.request(0, 5).to_text());
    assert_eq!(status, 200);
    let mut note = log.note(5);
    for signature in parse_signatures(line.as_bytes()).unwrap() {
        note.sign(signature);
    }
    assert!(key.verify(&note).unwrap() > 1_700_000_000);

    let (status, head, size) = witness.post(&log.request(0, 9).to_text());
    assert_eq!((status, size.as_str()), (409, "5\n"));
    assert!(head.contains("text/x.tlog.size"), "{head}");
    let (status, head, told) = witness.post(&other.request(5, 5).to_text());
    assert_eq!(status, 409, "{told}");
    assert!(!head.contains("text/x.tlog.size"), "{head}");
    assert!(told.contains("WITNESS_INCONSISTENT"), "{told}");
    assert_eq!(witness.post(&other.request(5, 9).to_text()).0, 422);
    assert_eq!(witness.post("old 5\n").0, 400);
    let shrunk = log.request(0, 3).to_text().replacen("old 0", "old 5", 1);
    assert_eq!(witness.post(&shrunk).0, 400);
    let unknown = log.request(5, 9).to_text().replace(ORIGIN, "other.example");
    assert_eq!(witness.post(&unknown).0, 404);
    let mut foreign = log.request(5, 9);
    let stranger = Signer::from_seed(ORIGIN, Use::Log, &[9; 32]).unwrap();
    let signature = stranger.sign(foreign.note.text(), 0);
    foreign.note = ::witness::note::Note::new(foreign.note.text()).unwrap();
    foreign.note.sign(signature);
    assert_eq!(witness.post(&foreign.to_text()).0, 403);
    assert_eq!(witness.post(&log.request(5, 9).to_text()).0, 200);

    drop(witness);
    let forks = command(folder.path(), "forks");
    assert_eq!(forks.status, 0, "{}", forks.err);
    let fork = forks.json();
    assert_eq!(fork["origin"], ORIGIN);
    assert_eq!(fork["first"], log.note(5).to_string());
    assert_eq!(fork["second"], other.note(5).to_string());
}

#[test]
fn a_killed_witness_never_cosigns_a_second_history() {
    let (folder, _) = initialized();
    let (log, other) = (SmallLog::new(1), SmallLog::new(2));
    let first = Process::start(folder.path());
    assert_eq!(first.post(&log.request(0, 1).to_text()).0, 200);
    drop(first);
    let mut known = 1;
    for size in 2..=SIZE {
        let witness = Process::start(folder.path());
        // Killed at any point: before the request is read, before its tree is stored, or before it is cosigned.
        let sent = witness.send(&log.request(known, size).to_text());
        std::thread::sleep(std::time::Duration::from_micros(300 * (size % 10)));
        drop(witness);
        drop(sent);

        let witness = Process::start(folder.path());
        let (status, _, body) = witness.post(&other.request(0, 1).to_text());
        assert_eq!(status, 409, "a second history was cosigned after {known}");
        let stored = body.trim_end().parse().unwrap();
        assert!(stored == known || stored == size, "{stored}");
        known = stored;
        assert_eq!(witness.post(&other.request(known, known).to_text()).0, 409);
        assert_eq!(witness.post(&log.request(known, known).to_text()).0, 200);
    }
}

#[test]
fn a_witness_without_its_database_does_not_start() {
    let (folder, _) = initialized();
    let database = folder.path().join("w.redb");
    std::fs::rename(&database, folder.path().join("away")).unwrap();
    let lost = command(folder.path(), "run");
    assert_eq!(lost.status, 2);
    assert!(lost.err.contains("WITNESS_DATABASE_LOST"), "{}", lost.err);
    assert_eq!(command(folder.path(), "init").status, 2);
    assert!(!database.exists());
    // The database of another witness.
    let (other, _) = initialized();
    std::fs::copy(other.path().join("w.redb"), &database).unwrap();
    let foreign = command(folder.path(), "run");
    assert!(
        foreign.err.contains("WITNESS_DATABASE_LOST"),
        "{}",
        foreign.err
    );
    std::fs::rename(folder.path().join("away"), &database).unwrap();
    drop(Process::start(folder.path()));
}

/// A restored backup is found by a newer cosignature of the witness itself.
#[test]
fn an_older_copy_of_the_database_does_not_start() {
    let (folder, _) = initialized();
    let (database, older) = (folder.path().join("w.redb"), folder.path().join("older"));
    let log = SmallLog::new(1);
    let witness = Process::start(folder.path());
    assert_eq!(witness.post(&log.request(0, 5).to_text()).0, 200);
    drop(witness);
    std::fs::copy(&database, &older).unwrap();
    let witness = Process::start(folder.path());
    let (_, _, line) = witness.post(&log.request(5, 9).to_text());
    drop(witness);
    let mut note = log.note(9);
    for signature in parse_signatures(line.as_bytes()).unwrap() {
        note.sign(signature);
    }

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!(
        "sources = [\"http://{}/v1/deployment\"]\n",
        listener.local_addr().unwrap()
    );
    let config = folder.path().join("witness.toml");
    let text = std::fs::read_to_string(&config).unwrap() + &source;
    std::fs::write(&config, text).unwrap();
    let body = note.to_string();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            assert!(head.starts_with(b"GET /v1/deployment/checkpoint "));
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    drop(Process::start(folder.path()));
    std::fs::rename(&older, &database).unwrap();
    let refused = command(folder.path(), "run");
    assert_eq!(refused.status, 2);
    assert!(
        refused.err.contains("WITNESS_DATABASE_OLD"),
        "{}",
        refused.err
    );
    server.join().unwrap();
    // The listener is closed now.
    let alone = command(folder.path(), "run");
    assert_eq!(alone.status, 2);
    let code = "WITNESS_SOURCES_UNREACHABLE";
    assert!(alone.err.contains(code), "{}", alone.err);
}

/// A wrong address among the sources must not turn off the search for newer cosignatures.
#[test]
fn a_source_that_shows_no_checkpoint_of_the_log_confirms_no_tree() {
    let (folder, _) = initialized();
    let log = SmallLog::new(1);
    let witness = Process::start(folder.path());
    let config = folder.path().join("witness.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let start = |status: &'static str, body: String| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let source = format!(
            "sources = [\"http://{}\"]\n",
            listener.local_addr().unwrap()
        );
        std::fs::write(&config, text.clone() + &source).unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        })
    };
    let assert_refused = |status, body| {
        let server = start(status, body);
        let refused = command(folder.path(), "run");
        server.join().unwrap();
        let code = "WITNESS_SOURCES_UNREACHABLE";
        assert!(refused.err.contains(code), "{}", refused.err);
    };
    let assert_starts = |status, body| {
        let server = start(status, body);
        drop(Process::start(folder.path()));
        server.join().unwrap();
    };
    drop(witness);
    // Before the first entry there is nothing to confirm.
    assert_starts("404 Not Found", String::new());
    std::fs::write(&config, &text).unwrap();
    let witness = Process::start(folder.path());
    assert_eq!(witness.post(&log.request(0, 0).to_text()).0, 200);
    drop(witness);
    assert_starts("404 Not Found", String::new());
    std::fs::write(&config, &text).unwrap();
    let witness = Process::start(folder.path());
    let (_, _, line) = witness.post(&log.request(0, 5).to_text());
    drop(witness);

    let cosigned = |size| {
        let mut note = log.note(size);
        for signature in parse_signatures(line.as_bytes()).unwrap() {
            note.sign(signature);
        }
        note.to_string()
    };
    assert_refused("404 Not Found", String::new());
    assert_refused("200 OK", "a page\n".to_owned());
    // Of another log, although this witness's cosignature were on it.
    assert_refused("200 OK", cosigned(5).replace(ORIGIN, "other.example"));
    // The cosignature is that of another tree.
    assert_refused("200 OK", cosigned(9));
    assert_starts("200 OK", cosigned(5));
    // The log has grown while the witness was away.
    assert_starts("200 OK", log.note(9).to_string());
}

#[test]
fn a_cosigned_record_is_verified_offline() {
    let (folder, key) = initialized();
    let log = SmallLog::new(1);
    let witness = Process::start(folder.path());
    let (_, _, line) = witness.post(&log.request(0, 20).to_text());
    let mut note = log.note(20);
    let alone = note.to_string();
    for signature in parse_signatures(line.as_bytes()).unwrap() {
        note.sign(signature);
    }
    let proof = TlogProof {
        index: 7,
        path: log.path(7, 20),
        note: note.clone(),
    };
    let log_key = SmallLog::key();
    let policy = format!("log {}\nwitness w1 {key}\nquorum w1\n", log_key.verifier());
    let forked = SmallLog::new(2).note(20).to_string();
    let foreign = forked.replace(ORIGIN, "other.example");
    for (name, contents) in [
        ("policy.txt", policy.into_bytes()),
        ("checkpoint.txt", note.to_string().into_bytes()),
        ("alone.txt", alone.into_bytes()),
        ("forked.txt", forked.into_bytes()),
        ("foreign.txt", foreign.into_bytes()),
        ("7.tlog-proof", proof.to_string().into_bytes()),
        ("7.record", log.record(7)),
        ("8.record", log.record(8)),
    ] {
        std::fs::write(folder.path().join(name), contents).unwrap();
    }
    let verify = |arguments: &[&str]| {
        let fixed = ["verify", "witnessed", "--policy", "policy.txt", "--json"];
        run(folder.path(), &[&fixed, arguments].concat(), b"")
    };
    let good = verify(&["7.tlog-proof", "--record", "7.record"]);
    assert_eq!(
        (good.status, &good.json()["index"]),
        (0, &7.into()),
        "{}",
        good.err
    );
    assert_eq!(good.json()["witnesses"][0]["name"], "w1");
    assert_eq!(verify(&["checkpoint.txt"]).status, 0);
    assert_eq!(
        verify(&["checkpoint.txt", "--earlier", "alone.txt"]).status,
        0
    );
    for (arguments, code) in [
        (
            &["7.tlog-proof", "--record", "8.record"][..],
            "ROOT_MISMATCH",
        ),
        (&["alone.txt"], "WITNESSES_TOO_FEW"),
        (&["forked.txt"], "WITNESSES_TOO_FEW"),
        (
            &["checkpoint.txt", "--earlier", "forked.txt"],
            "HISTORY_FORKED",
        ),
        (
            &["checkpoint.txt", "--earlier", "foreign.txt"],
            "WITNESSED_EARLIER_OTHER_LOG",
        ),
        (
            &["checkpoint.txt", "--at", "2100-01-01T00:00:00Z"],
            "WITNESSED_HEAD_STALE",
        ),
        (
            &["checkpoint.txt", "--at", "2020-01-01T00:00:00Z"],
            "WITNESSED_HEAD_FUTURE",
        ),
        (&["policy.txt"], "NOTE_MALFORMED"),
    ] {
        let refused = verify(arguments);
        assert_eq!((refused.status, &refused.json()["code"]), (1, &code.into()));
    }
    assert_eq!(
        verify(&["checkpoint.txt", "--record", "7.record"]).status,
        2
    );
    assert_eq!(verify(&["7.tlog-proof"]).status, 2);
}
