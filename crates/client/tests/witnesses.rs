//! Policies that require witnesses, and hosts that show one client another history.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clearseal_client::{Client, ClientBuilder, Clock, State, TrustPolicy};
use fixtures::host::{Host, PATIENCE, now};
use fixtures::http::{Request, listen};
use merkle::Hash;
use merkle::prove::{Nodes, inclusion};
use merkle::tree::{Frontier, Position};
use merkle::verify::Tree;
use serde_json::{Value, json};
use witness::checkpoint::Checkpoint;
use witness::evidence::{join, manifest};
use witness::key::{Signer, Use};
use witness::note::Note;
use witness::proof::TlogProof;
use witness::record::{Kind, entry, write};

const ORIGIN: &str = "log.example/deployment";
const MAX_AGE: u64 = 3600;

fn log_key() -> Signer {
    Signer::from_seed(ORIGIN, Use::Log, &[1; 32]).unwrap()
}

fn witness_key(number: u8) -> Signer {
    let name = format!("witness{number}.example.org/w{number}");
    Signer::from_seed(&name, Use::Witness, &[10 + number; 32]).unwrap()
}

/// A log, its witnesses, and how the host lies about them.
#[derive(Clone)]
struct Log {
    /// Another number is another history.
    history: u8,
    /// Entries before the keys that are asked about.
    size: u32,
    cosigned_by: Vec<u8>,
    /// Unix seconds.
    time: u64,
    signed_by: Arc<Signer>,
    /// Proves these bytes in place of the manifest.
    of: Option<Vec<u8>>,
    /// Sends these bytes in place of a proof.
    raw: Option<Vec<u8>>,
    /// Whether the host answers with proofs at all.
    is_kept: bool,
}

impl Log {
    fn honest() -> Self {
        Self {
            history: 1,
            size: 10_000,
            cosigned_by: vec![1, 3],
            time: now().0 / 1000,
            signed_by: Arc::new(log_key()),
            of: None,
            raw: None,
            is_kept: true,
        }
    }

    fn prove(&self, manifest: &[u8]) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut nodes = BTreeMap::new();
        let mut frontier = Frontier::new();
        for number in 0..self.size {
            let body = format!("{}/{number}", self.history);
            let entry = entry(&write(Kind::Release, body.as_bytes()));
            frontier.append(&entry, |position, hash| {
                nodes.insert(position, hash);
            });
        }
        let bytes = self.of.as_deref().unwrap_or(manifest);
        let keys = entry(&write(Kind::Keys, bytes));
        frontier.append(&keys, |position, hash| {
            nodes.insert(position, hash);
        });
        let tree = Tree {
            size: frontier.size(),
            root: frontier.root(),
        };
        let origin = self.signed_by.verifier().name();
        let checkpoint = Checkpoint::new(origin, tree).unwrap();
        let mut note = Note::new(&checkpoint.to_string()).unwrap();
        note.sign(self.signed_by.sign(note.text(), 0));
        for number in &self.cosigned_by {
            note.sign(witness_key(*number).sign(note.text(), self.time));
        }
        let path = inclusion(&Stored(nodes), tree.size - 1, tree.size).unwrap();
        let index = tree.size - 1;
        TlogProof { index, path, note }.to_string().into_bytes()
    }
}

struct Stored(BTreeMap<Position, Hash>);

impl Nodes for Stored {
    type Error = Infallible;

    fn node(&self, position: Position) -> Result<Hash, Infallible> {
        Ok(self.0[&position])
    }
}

/// host-proxy's part: passes requests to the host, and adds proofs to evidence.
struct Front {
    url: String,
    log: Arc<Mutex<Log>>,
    /// Lengths of the proofs, and queries for evidence.
    proofs: Arc<Mutex<Vec<usize>>>,
    queries: Arc<Mutex<Vec<String>>>,
}

impl Front {
    fn start(host: &Host, log: Log) -> Self {
        let behind = host.url.strip_prefix("http://").unwrap().to_owned();
        let log = Arc::new(Mutex::new(log));
        let proofs = Arc::<Mutex<Vec<usize>>>::default();
        let queries = Arc::<Mutex<Vec<String>>>::default();
        let shared = (Arc::clone(&log), Arc::clone(&proofs), Arc::clone(&queries));
        let address = listen(move |stream| {
            let (behind, shared) = (behind.clone(), shared.clone());
            std::thread::spawn(move || pass(stream, &behind, &shared));
        });
        Self {
            url: format!("http://{address}"),
            log,
            proofs,
            queries,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log.lock().unwrap());
    }
}

type Shared = (
    Arc<Mutex<Log>>,
    Arc<Mutex<Vec<usize>>>,
    Arc<Mutex<Vec<String>>>,
);

fn pass(mut stream: TcpStream, behind: &str, (log, proofs, queries): &Shared) {
    let Some(request) = Request::read(&mut stream) else {
        return;
    };
    let target = request.target().replace("&witnessed=1", "");
    let is_witnessed = target != request.target();
    if request.path() == "/v1/attestation" {
        queries.lock().unwrap().push(request.query().to_owned());
    }
    let fields = ["content-type", "accept", "clearseal-enclave"];
    let fields = fields.iter().filter_map(|name| {
        let value = request.header(name)?;
        Some(format!("{name}: {value}\r\n"))
    });
    let head = format!(
        "{} {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{}content-length: {}\r\n\r\n",
        request.method(),
        fields.collect::<String>(),
        request.body.len()
    );
    let mut host = TcpStream::connect(behind).unwrap();
    host.write_all(&[head.as_bytes(), &request.body].concat())
        .unwrap();
    // An answer has the form of a request: the status is its second word.
    let Some(answer) = Request::read(&mut host) else {
        return;
    };
    let mut body = answer.body.clone();
    if is_witnessed && log.lock().unwrap().is_kept {
        let proof = log.lock().unwrap().prove(manifest(&body).unwrap());
        proofs.lock().unwrap().push(proof.len());
        body = join(&body, &proof);
    }
    let kind = answer.header("content-type").unwrap_or("text/plain");
    let head = format!(
        "HTTP/1.1 {} ok\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.target(),
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).ok();
}

fn policy(host: &Host) -> TrustPolicy {
    let mut json: Value = serde_json::from_slice(host.policy_json()).unwrap();
    let keys = [1, 2, 3].map(|number| witness_key(number).verifier().to_string());
    json["witnesses"] = json!({
        "log": log_key().verifier().to_string(),
        "keys": keys,
        "threshold": 2,
        "max_age_seconds": MAX_AGE,
    });
    TrustPolicy::chosen_by_hand(json.to_string().as_bytes()).unwrap()
}

fn builder(host: &Host, front: &Front) -> ClientBuilder {
    Client::builder(&front.url)
        .policy(policy(host))
        .accept_simulated(true)
        .timeout(PATIENCE)
}

async fn code(client: &Client) -> String {
    let embedded = client.embed(&["one".to_owned()]).await;
    embedded.map_or_else(|error| error.code().to_owned(), |_| String::new())
}

#[tokio::test]
async fn keys_in_a_cosigned_log_are_accepted_in_one_round_trip() {
    let host = Host::start(71);
    let front = Front::start(&host, Log::honest());
    let client = builder(&host, &front).build().unwrap();
    assert_eq!(code(&client).await, "");
    let session = client.connect().await.unwrap();
    let row = session.report().checks.last().unwrap();
    assert_eq!(
        (row.name.as_str(), row.state),
        ("witnesses", attestation::RowState::Passed)
    );
    assert!(row.observed.contains("10001 entries"), "{}", row.observed);
    let proof = session.witnessed_proof().unwrap();
    assert_eq!(*front.proofs.lock().unwrap(), [proof.len()]);
    assert!(proof.len() <= 2048, "{}", proof.len());
    // The head ends before the keys do.
    let end = front.log.lock().unwrap().time + MAX_AGE;
    // The client counts from its steady clock, which may differ by parts of a second.
    assert!((session.valid_until().0 / 1000).abs_diff(end) <= 1);
    // A client without such a policy asks as before.
    let plain = Client::builder(&front.url)
        .policy(host.policy.clone())
        .accept_simulated(true)
        .build()
        .unwrap();
    assert_eq!(code(&plain).await, "");
    let queries = front.queries.lock().unwrap();
    let asked: Vec<_> = queries
        .iter()
        .map(|query| query.contains("witnessed"))
        .collect();
    assert_eq!(asked, [true, false]);
}

#[tokio::test]
async fn nothing_is_sent_to_keys_that_witnesses_did_not_see() {
    let host = Host::start(72);
    let front = Front::start(&host, Log::honest());
    let stranger = Signer::from_seed("other.example", Use::Log, &[9; 32]).unwrap();
    let stranger = Arc::new(stranger);
    let forger = Arc::new(Signer::from_seed(ORIGIN, Use::Log, &[9; 32]).unwrap());
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Log));
    let cases: [Case<'_>; 9] = [
        ("WITNESSED_PROOF_MISSING", &|log| log.raw = Some(Vec::new())),
        ("TLOG_PROOF_MALFORMED", &|log| {
            log.raw = Some(b"proof".to_vec());
        }),
        ("ROOT_MISMATCH", &|log| {
            log.of = Some(b"the keys of others".to_vec());
        }),
        ("WITNESSES_TOO_FEW", &|log| log.cosigned_by = vec![2]),
        ("WITNESSES_TOO_FEW", &|log| log.cosigned_by = vec![2, 4, 5]),
        ("WITNESSED_HEAD_STALE", &|log| log.time -= MAX_AGE + 5),
        ("WITNESSED_HEAD_FUTURE", &|log| log.time += 900),
        ("WITNESSED_LOG_UNKNOWN", &|log| {
            log.signed_by = Arc::clone(&stranger);
        }),
        ("WITNESSED_LOG_UNKNOWN", &|log| {
            log.signed_by = Arc::clone(&forger);
        }),
    ];
    for (expected, change) in cases {
        *front.log.lock().unwrap() = Log {
            size: 9,
            ..Log::honest()
        };
        front.change(change);
        let client = builder(&host, &front).build().unwrap();
        assert_eq!(code(&client).await, expected);
        let State::Refused(report) = client.states()[0].1.clone() else {
            panic!("{:?}", client.states());
        };
        assert_eq!(report.code.as_deref(), Some(expected));
        let row = report.checks.last().unwrap();
        assert_eq!(row.code.as_deref(), Some(expected));
        assert!(report.message.is_some() && report.remedy.is_some());
    }
    // A host that keeps no log.
    *front.log.lock().unwrap() = Log {
        is_kept: false,
        ..Log::honest()
    };
    let client = builder(&host, &front).build().unwrap();
    assert_eq!(code(&client).await, "WITNESSED_PROOF_MISSING");
    assert_eq!(host.gateway_calls.load(Ordering::SeqCst), 0);
    // A refusal of the evidence itself is the reason that counts.
    host.swap_image();
    let client = builder(&host, &front).build().unwrap();
    assert_eq!(code(&client).await, "PCR_MISMATCH");
}

/// Two witnesses help the host to show one client another enclave and another history.
#[tokio::test]
async fn a_second_history_is_refused_although_witnesses_signed_both() {
    let host = Host::start(73);
    let front = Front::start(
        &host,
        Log {
            size: 9,
            ..Log::honest()
        },
    );
    let client = builder(&host, &front).build().unwrap();
    assert_eq!(code(&client).await, "");
    host.restart();
    front.change(|log| log.history = 2);
    assert_eq!(code(&client).await, "HISTORY_FORKED");
    // The first history, grown.
    front.change(|log| (log.history, log.size) = (1, 11));
    assert_eq!(code(&client).await, "");
}

#[tokio::test]
async fn clients_go_on_without_witnesses_until_the_head_is_too_old() {
    let host = Host::start(74);
    host.valid_for(86_400);
    let front = Front::start(
        &host,
        Log {
            size: 9,
            ..Log::honest()
        },
    );
    let clock = Clock::new(host.clock());
    let pass = |seconds| host.advance(Duration::from_secs(seconds));
    let client = builder(&host, &front)
        .clock(clock)
        .renew_before(Duration::ZERO)
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    // The witnesses sign nothing more.
    pass(MAX_AGE - 60);
    assert_eq!(code(&client).await, "");
    pass(120);
    assert!(!client.is_ready());
    let sent = host.gateway_calls.load(Ordering::SeqCst);
    assert_eq!(code(&client).await, "WITNESSED_HEAD_STALE");
    assert_eq!(host.gateway_calls.load(Ordering::SeqCst), sent);
    // They sign again.
    front.change(|log| log.time += MAX_AGE + 60);
    assert_eq!(code(&client).await, "");
}

#[tokio::test]
async fn a_later_policy_may_require_witnesses() {
    let host = Host::start(75);
    let front = Front::start(
        &host,
        Log {
            size: 9,
            ..Log::honest()
        },
    );
    let client = builder(&host, &front)
        .policy(host.policy.clone())
        .build()
        .unwrap();
    assert_eq!(code(&client).await, "");
    let change = client.set_policy(policy(&host));
    assert_eq!((change.kept, change.ended), (0, 1));
    let State::Withdrawn(report) = client.states()[0].1.clone() else {
        panic!("{:?}", client.states());
    };
    assert_eq!(report.code.as_deref(), Some("WITNESSED_PROOF_MISSING"));
    // The next request asks for the proof.
    assert_eq!(code(&client).await, "");
    // A session with a proof is judged by it again.
    let change = client.set_policy(policy(&host));
    assert_eq!((change.kept, change.ended), (1, 0));
}
