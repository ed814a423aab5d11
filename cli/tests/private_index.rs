//! A private index from its creation to its end: host-proxy, enclave-server and the program as real processes, over a folder that a host
//! could exchange.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Run, run};
use crate::release::{Process, get, model};

/// A service that can be restarted, with the files of one user.
struct Service {
    folder: TempDir,
    url: String,
    processes: Option<(Process, Process)>,
}

impl Service {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The same root after a restart, so that the policy holds.
        std::fs::write(folder.path().join("root.seed"), "5a".repeat(32)).unwrap();
        let mut service = Self {
            folder,
            url: String::new(),
            processes: None,
        };
        service.restart();
        let policy = get(&service.url, "/v1/development-policy");
        std::fs::write(service.path("policy.json"), policy).unwrap();
        service
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn stop(&mut self) {
        self.processes = None;
        for socket in ["enclave.sock", "parent.sock"] {
            std::fs::remove_file(self.path(socket)).ok();
        }
    }

    fn restart(&mut self) {
        self.stop();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = port.unwrap().to_string();
        let socket = |name: &str| format!("unix:{}", self.path(name).display());
        let proxy = Process::start("host-proxy", |command| {
            command
                .args(["--listen", &address, "--enclave", &socket("enclave.sock")])
                .args(["--parent-listen", &socket("parent.sock"), "--indexes"])
                .arg(self.path("indexes"));
        });
        let enclave = Process::start("enclave-server", |command| {
            command
                .args(["--listen", &socket("enclave.sock")])
                .args(["--indexes", &socket("parent.sock"), "--model"])
                .arg(model())
                .args(["--simulate-nsm", "--simulated-root"])
                .arg(self.path("root.seed"));
        });
        self.url = format!("http://{address}");
        get(&self.url, "/readyz");
        self.processes = Some((proxy, enclave));
    }

    /// `clearseal index`, with the key in `notes.key`.
    fn index(&self, command: &str, more: &[&str]) -> Run {
        let flags = ["--key-file", "notes.key", "--policy", "policy.json"];
        let mut arguments = vec!["index", command];
        arguments.extend(more);
        arguments.extend(flags);
        arguments.extend(["--accept-simulated", "--url", &self.url]);
        run(self.folder.path(), &arguments, b"")
    }

    /// Like [`index`](Self::index), for a command that must succeed.
    fn done(&self, command: &str, more: &[&str]) -> Run {
        let run = self.index(command, more);
        assert_eq!(run.status, 0, "{command}: {}{}", run.out, run.err);
        run
    }

    /// Results, the best first.
    fn query(&self, text: &str, more: &[&str]) -> Vec<Value> {
        let run = self.done("query", &[&[text], more].concat());
        let lines = run.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn verify(&self, file: &str, policy: &str) -> Run {
        let arguments = ["verify", "answer", file, "--policy", policy];
        let arguments = [&arguments[..], &["--accept-simulated", "--json"]].concat();
        run(self.folder.path(), &arguments, b"")
    }

    /// Asserts that the command fails with this code, without a judgement.
    #[track_caller]
    fn assert_refused(&self, command: &str, more: &[&str], code: &str) {
        let run = self.index(command, more);
        assert_eq!(run.status, 2, "{command}: {}{}", run.out, run.err);
        assert!(run.err.contains(code), "{command}: {}", run.err);
    }
}

const TEXTS: [&str; 8] = [
    "The lease of the flat ends on 31 March.",
    "The landlord must be told three months before.",
    "Tomatoes need sun and much water.",
    "A cat sleeps for most of the day.",
    "The train to Vienna leaves at nine.",
    "Bread rises in a warm place.",
    "The rent is paid on the first of the month.",
    "Whales sing under water.",
];

/// A number that an inexact parser reads as its neighbour.
const WEIGHT: f64 = 94.527_069_555_392_23;

fn lines(count: usize) -> String {
    let line = |(number, text): (usize, &&str)| {
        let metadata = json!({"year": 2020 + number, "weight": WEIGHT, "own": number % 2 == 0});
        format!("{}\n", json!({"text": text, "metadata": metadata}))
    };
    TEXTS.iter().enumerate().take(count).map(line).collect()
}

fn ids(results: &[Value]) -> Vec<&str> {
    let ids = results.iter().map(|result| result["id"].as_str());
    ids.map(Option::unwrap).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).ok();
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn an_index_is_created_searched_changed_and_purged() {
    let mut service = Service::start();
    let created = service.done("create", &[]);
    assert!(created.out.contains("all-MiniLM-L6-v2"), "{}", created.out);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let key = std::fs::metadata(service.path("notes.key")).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }
    let key = std::fs::read(service.path("notes.key")).unwrap();
    service.assert_refused("create", &[], "name another file");
    assert_eq!(std::fs::read(service.path("notes.key")).unwrap(), key);

    // A run that ended early, and one that continues it.
    let add = [
        "notes.jsonl",
        "--progress",
        "notes.progress",
        "--batch",
        "3",
    ];
    std::fs::write(service.path("notes.jsonl"), lines(5)).unwrap();
    let added = service.done("add", &add);
    assert!(added.err.contains("5 rows put"), "{}", added.err);
    std::fs::write(service.path("notes.jsonl"), lines(8)).unwrap();
    let added = service.done("add", &add);
    assert!(added.err.contains("3 rows put"), "{}", added.err);
    let others = lines(8).replace("cat", "dog");
    std::fs::write(service.path("others.jsonl"), others).unwrap();
    let others = ["others.jsonl", "--progress", "notes.progress"];
    service.assert_refused("add", &others, "INDEX_PROGRESS_ROWS");

    let asked = "on what day does the lease end";
    let results = service.query(asked, &["-k", "3", "--answer", "answer.json"]);
    assert_eq!(ids(&results)[0], "0", "{results:?}");
    assert_eq!(results[0]["text"], TEXTS[0]);
    let weight = results[0]["metadata"]["weight"].as_f64().unwrap();
    assert_eq!(weight.to_bits(), WEIGHT.to_bits());
    let filter = r#"{"and": [{"field": "year", "gte": 2022}, {"field": "own", "eq": true}]}"#;
    let filtered = service.query(asked, &["--filter", filter]);
    let mut found = ids(&filtered);
    found.sort_unstable();
    assert_eq!(found, ["2", "4", "6"]);

    service.restart();
    assert_eq!(service.query(asked, &["-k", "3"]), results);
    let deleted = service.done("delete-rows", &["0", "absent"]);
    assert!(deleted.err.contains("1 rows deleted"), "{}", deleted.err);
    let after = service.query(asked, &[]);
    assert_eq!(after.len(), 7);
    assert!(!ids(&after).contains(&"0"));
    service.done("compact", &[]);
    assert_eq!(service.query(asked, &[]), after);
    service.restart();
    assert_eq!(service.query(asked, &[]), after);
    let info = service.done("info", &[]);
    assert!(info.out.contains("7"), "{}", info.out);

    service.done("purge", &[]);
    assert!(!service.path("notes.key").exists());
    let left = walk(&service.path("indexes"));
    assert!(left.is_empty(), "{left:?}");
    // The answer outlives the index and its key.
    assert_eq!(service.verify("answer.json", "policy.json").status, 0);

    // A new index has none of the rows that the file of progress counts.
    service.done("create", &[]);
    service.assert_refused("add", &add, "INDEX_PROGRESS_OTHER");
    std::fs::remove_file(service.path("notes.progress")).unwrap();
    let added = service.done("add", &add);
    assert!(added.err.contains("8 rows put"), "{}", added.err);
}

/// Files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => walk(&path),
            false => vec![path],
        })
        .collect()
}

/// Changes the answer inside the file of `--answer`.
fn alter(file: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let response = file["response"].as_str().unwrap();
    let response = Base64UrlUnpadded::decode_vec(response).unwrap();
    let mut response = serde_json::from_slice(&response).unwrap();
    change(&mut response);
    let mut altered = file.clone();
    altered["response"] = Base64UrlUnpadded::encode_string(response.to_string().as_bytes()).into();
    altered
}

#[test]
fn a_written_answer_is_verified_without_the_key() {
    let service = Service::start();
    service.done("create", &[]);
    std::fs::write(service.path("notes.jsonl"), lines(8)).unwrap();
    service.done("add", &["notes.jsonl"]);
    service.query("water", &["-k", "2", "--answer", "answer.json"]);
    let verified = service.verify("answer.json", "policy.json");
    assert_eq!(verified.status, 0, "{}{}", verified.out, verified.err);
    assert_eq!(verified.json()["answer"], "proved");
    let written = std::fs::read_to_string(service.path("answer.json")).unwrap();
    let key = std::fs::read_to_string(service.path("notes.key")).unwrap();
    assert!(!written.contains(key.trim()));

    let written: Value = serde_json::from_str(&written).unwrap();
    let altered: [(&str, Value); 5] = [
        ("k", alter(&written, |answer| answer["k"] = json!(1))),
        (
            "searched",
            alter(&written, |answer| answer["searched"] = json!(7)),
        ),
        (
            "score",
            alter(&written, |answer| {
                answer["results"][0]["score"] = json!(0.99);
            }),
        ),
        (
            "a result",
            alter(&written, |answer| {
                answer["results"].as_array_mut().unwrap().pop();
            }),
        ),
        (
            "a proof",
            alter(&written, |answer| {
                let proofs = answer["results"].as_array_mut().unwrap();
                let proof = proofs[1]["proof"].take();
                proofs[0]["proof"] = proof;
            }),
        ),
    ];
    for (name, file) in altered {
        std::fs::write(service.path("altered.json"), file.to_string()).unwrap();
        let refused = service.verify("altered.json", "policy.json");
        assert_eq!(refused.status, 1, "{name}: {}", refused.err);
        let report = refused.json();
        assert_eq!(report["answer"], "refused", "{name}");
        assert_eq!(report["code"], "INDEX_ANSWER_ALTERED", "{name}");
    }

    let policy = std::fs::read_to_string(service.path("policy.json")).unwrap();
    let mut policy: Value = serde_json::from_str(&policy).unwrap();
    policy["releases"][0]["pcrs"]["0"] = "ab".repeat(48).into();
    std::fs::write(service.path("other.json"), policy.to_string()).unwrap();
    let refused = service.verify("answer.json", "other.json");
    assert_eq!(refused.status, 1, "{}", refused.err);
    assert_eq!(refused.json()["answer"], "refused");
    // Nor is anything sent to an enclave that the policy does not accept, and no key is left of an index that cannot exist.
    let arguments = ["index", "create", "--key-file", "new.key", "--policy"];
    let arguments = [&arguments[..], &["other.json", "--url", &service.url]].concat();
    let refused = run(service.folder.path(), &arguments, b"");
    assert_eq!(refused.status, 1, "{}", refused.err);
    assert!(!service.path("new.key").exists());
}

#[test]
fn a_folder_that_was_copied_back_is_noticed() {
    let mut service = Service::start();
    service.done("create", &[]);
    std::fs::write(service.path("notes.jsonl"), lines(8)).unwrap();
    service.done("add", &["notes.jsonl"]);
    service.stop();
    copy(&service.path("indexes"), &service.path("copy"));
    service.restart();
    service.done("delete-rows", &["3"]);
    service.stop();
    copy(&service.path("copy"), &service.path("indexes"));
    service.restart();
    for (command, more) in [
        ("query", &["cats"][..]),
        ("info", &[]),
        ("delete-rows", &["4"]),
        ("add", &["notes.jsonl"]),
        ("compact", &[]),
    ] {
        service.assert_refused(command, more, "INDEX_ROLLED_BACK");
    }
    // A program without memory of the index accepts the old state, and continues it: another history for the first.
    let forget = ["--state", "other.heads"];
    service.done("delete-rows", &[&["5"], &forget[..]].concat());
    service.assert_refused("query", &["cats"], "INDEX_FORKED");
}
