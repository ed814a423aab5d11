//! The deployment's log: files, kills, witnesses, and the proof that comes with evidence.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use host_proxy::deployment::{DeploymentError, DeploymentStore, LogKey, init};
use http::StatusCode;
use merkle::tree::Frontier;
use merkle::verify::Tree;
use tempfile::TempDir;
use witness::checkpoint::Checkpoint;
use witness::evidence::{join, split};
use witness::key::{Signer, Use, Verifier};
use witness::note::Note;
use witness::policy::Policy;
use witness::proof::TlogProof;
use witness::record::{Kind, entry, write};
use witness::request::{AddCheckpoint, Refusal};
use witness::tiles::Tile;

use crate::support::{Answer, FakeEnclave, Running};

const ORIGIN: &str = "log.example/deployment";

/// A new log, its key and their folder.
struct Log {
    folder: TempDir,
    key: Verifier,
}

impl Log {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let [log, key] = ["log.redb", "log.key"].map(|name| folder.path().join(name));
        let key = init(ORIGIN, &log, &key).unwrap();
        std::fs::create_dir(folder.path().join("records")).unwrap();
        Self { folder, key }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn signer(&self) -> Signer {
        let text = std::fs::read_to_string(self.path("log.key")).unwrap();
        Signer::parse(text.lines().next().unwrap()).unwrap()
    }

    fn open(&self) -> Result<DeploymentStore, DeploymentError> {
        let key = LogKey::read(&self.path("log.key"))?;
        DeploymentStore::open(&self.path("log.redb"), &key)
    }

    fn code(&self) -> String {
        self.open()
            .err()
            .map_or_else(String::new, |error| error.code().to_owned())
    }

    /// The flags of a proxy that keeps this log.
    fn flags(&self, witnesses: &[Witness]) -> Vec<String> {
        let mut flags = vec![
            format!("--deployment-log={}", self.path("log.redb").display()),
            format!("--deployment-key={}", self.path("log.key").display()),
            format!("--deployment-records={}", self.path("records").display()),
        ];
        for witness in witnesses {
            flags.push(format!(
                "--witness={} http://{}",
                witness.key(),
                witness.address
            ));
        }
        flags
    }

    /// Adds a record as its operator does.
    fn put(&self, name: &str, bytes: &[u8]) {
        let partial = self.path("partial");
        std::fs::write(&partial, bytes).unwrap();
        std::fs::rename(partial, self.path("records").join(name)).unwrap();
    }
}

fn release(number: u32) -> Vec<u8> {
    write(Kind::Release, format!("release {number}").as_bytes())
}

#[test]
fn appended_records_are_proven_before_and_after_a_restart() {
    let log = Log::new();
    let signer = log.signer();
    let store = log.open().unwrap();
    assert!(store.proof(&entry(&release(0))).unwrap().is_none());
    let mut next = 0;
    for count in [1, 2, 253, 1, 300, 0] {
        let records: Vec<_> = (next..next + count).map(release).collect();
        assert_eq!(store.append(&records, &signer, true).unwrap(), count > 0);
        // The same records again change nothing.
        assert!(!store.append(&records, &signer, true).unwrap());
        next += count;
    }
    let assert_holds = |store: &DeploymentStore| {
        for number in [0, 1, 255, 256, next - 1] {
            let entry = entry(&release(number));
            let proof = store.proof(&entry).unwrap().unwrap();
            log.key.verify(&proof.note).unwrap();
            let tree = Checkpoint::parse(proof.note.text()).unwrap().tree;
            assert_eq!(tree.size, u64::from(next));
            proof.verify(&entry, &tree).unwrap();
        }
        assert_eq!(store.verify().unwrap().entries, u64::from(next));
    };
    assert_holds(&store);
    // Signed, and not published.
    assert!(store.append(&[release(next)], &signer, false).unwrap());
    assert!(store.proof(&entry(&release(next))).unwrap().is_none());
    let too_long = store.append(&[vec![0; 65_536]], &signer, true);
    assert_eq!(too_long.unwrap_err().code(), "DEPLOYMENT_RECORD_TOO_LONG");
    assert_eq!(log.code(), "DEPLOYMENT_LOG_IN_USE");
    drop(store);
    let store = log.open().unwrap();
    assert!(store.proof(&entry(&release(next))).unwrap().is_none());
    assert_eq!(store.verify().unwrap().entries, u64::from(next) + 1);
    assert!(store.append(&[release(next + 1)], &signer, true).unwrap());
    assert!(store.proof(&entry(&release(next))).unwrap().is_some());
}

#[test]
fn another_file_of_the_log_is_refused() {
    let log = Log::new();
    log.open()
        .unwrap()
        .append(&[release(1)], &log.signer(), true)
        .unwrap();
    let other = Log::new();
    std::fs::copy(other.path("log.redb"), log.path("other.redb")).unwrap();
    let file = log.path("log.redb");
    std::fs::rename(&file, log.path("away")).unwrap();
    assert_eq!(log.code(), "DEPLOYMENT_LOG_LOST");
    std::fs::write(&file, b"").unwrap();
    assert_eq!(log.code(), "DEPLOYMENT_LOG_LOST");
    std::fs::rename(log.path("other.redb"), &file).unwrap();
    assert_eq!(log.code(), "DEPLOYMENT_LOG_LOST");
    std::fs::rename(log.path("away"), &file).unwrap();
    assert_eq!(log.code(), "");
    let again = init(ORIGIN, &file, &log.path("new.key"));
    assert_eq!(again.unwrap_err().code(), "DEPLOYMENT_LOG_INITIALIZED");
    std::fs::write(log.path("log.key"), "no key\n").unwrap();
    assert_eq!(log.code(), "DEPLOYMENT_KEY_INVALID");
    let spaced = init("a b", &log.path("a"), &log.path("b"));
    assert_eq!(spaced.unwrap_err().code(), "DEPLOYMENT_ORIGIN_INVALID");
}

/// Changes the contents of the file with its own library, so that every page is valid.
fn tamper(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = redb::Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

#[test]
fn contents_that_no_checkpoint_covers_are_reported() {
    use redb::TableDefinition;
    const NOTES: TableDefinition<'_, &str, &str> = TableDefinition::new("notes");
    const NODES: TableDefinition<'_, (u8, u64), &[u8; 32]> = TableDefinition::new("nodes");
    const ENTRIES: TableDefinition<'_, u64, &[u8; 32]> = TableDefinition::new("entries");
    const RECORDS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("records");
    let log = Log::new();
    let file = log.path("log.redb");
    let records: Vec<_> = (0..9).map(release).collect();
    log.open()
        .unwrap()
        .append(&records, &log.signer(), true)
        .unwrap();
    std::fs::copy(&file, log.path("good")).unwrap();
    let mut note = Note::new(&format!("{ORIGIN}\n9\n{}=\n", "A".repeat(43))).unwrap();
    note.sign(log.signer().sign(note.text(), 0));
    let other_root = note.to_string();
    let mut unsigned = Note::new(note.text()).unwrap();
    unsigned.sign(
        Signer::from_seed(ORIGIN, Use::Log, &[9; 32])
            .unwrap()
            .sign(note.text(), 0),
    );
    let unsigned = unsigned.to_string();
    let at_start: [&dyn Fn(&redb::WriteTransaction); 5] = [
        &|change| {
            drop(
                change
                    .open_table(NOTES)
                    .unwrap()
                    .insert("signed", &*other_root)
                    .unwrap(),
            );
        },
        &|change| {
            drop(
                change
                    .open_table(NOTES)
                    .unwrap()
                    .insert("signed", &*unsigned)
                    .unwrap(),
            );
        },
        &|change| {
            drop(
                change
                    .open_table(NOTES)
                    .unwrap()
                    .insert("published", &*other_root)
                    .unwrap(),
            );
        },
        &|change| {
            drop(
                change
                    .open_table(ENTRIES)
                    .unwrap()
                    .insert(9, &[1; 32])
                    .unwrap(),
            );
        },
        &|change| {
            drop(
                change
                    .open_table(NODES)
                    .unwrap()
                    .insert((3, 0), &[1; 32])
                    .unwrap(),
            );
        },
    ];
    for change in at_start {
        std::fs::copy(log.path("good"), &file).unwrap();
        tamper(&file, change);
        assert_eq!(log.code(), "DEPLOYMENT_LOG_CORRUPT");
    }
    let first = entry(&release(0));
    let later: [&dyn Fn(&redb::WriteTransaction); 4] = [
        &|change| drop(change.open_table(RECORDS).unwrap().remove(&first).unwrap()),
        &|change| {
            drop(
                change
                    .open_table(RECORDS)
                    .unwrap()
                    .insert(&first, &b"x"[..])
                    .unwrap(),
            );
        },
        &|change| {
            drop(
                change
                    .open_table(NODES)
                    .unwrap()
                    .insert((1, 0), &[1; 32])
                    .unwrap(),
            );
        },
        &|change| {
            drop(
                change
                    .open_table(ENTRIES)
                    .unwrap()
                    .insert(0, &[1; 32])
                    .unwrap(),
            );
        },
    ];
    for change in later {
        std::fs::copy(log.path("good"), &file).unwrap();
        tamper(&file, change);
        let found = log.open().unwrap().verify();
        assert_eq!(found.unwrap_err().code(), "DEPLOYMENT_LOG_CORRUPT");
    }
}

/// The real program without an enclave.
struct Process {
    child: Child,
    address: std::net::SocketAddr,
}

impl Process {
    fn start(log: &Log) -> Self {
        use std::io::{BufRead as _, BufReader};
        let mut child = Command::new(env!("CARGO_BIN_EXE_host-proxy"))
            .args(["--listen=127.0.0.1:0", "--enclave=unix:/nonexistent"])
            .args(log.flags(&[]))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            line["address"].as_str()?.parse().ok()
        });
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.unwrap();
        Self { child, address }
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        let request =
            "GET /v1/deployment/checkpoint HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let note = Note::parse(body.as_bytes()).ok()?;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Some(Checkpoint::parse(note.text()).unwrap())
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn kills_lose_no_checkpoint_that_was_shown() {
    let log = Log::new();
    let mut shown: Vec<Checkpoint> = Vec::new();
    for round in 0..20_u64 {
        for part in 0..5 {
            log.put(
                &format!("{round}-{part}.release"),
                format!("{round}/{part}").as_bytes(),
            );
        }
        let process = Process::start(&log);
        let before = process.checkpoint();
        if let Some(last) = shown.last() {
            assert!(
                before
                    .as_ref()
                    .is_some_and(|now| now.tree.size >= last.tree.size)
            );
        }
        shown.extend(before);
        // Killed before, while and after it writes.
        let end = std::time::Instant::now() + Duration::from_millis(round * 3);
        while std::time::Instant::now() < end {
            shown.extend(process.checkpoint());
        }
        process.kill();
    }
    let process = Process::start(&log);
    let last = loop {
        match process.checkpoint() {
            Some(found) if found.tree.size == 100 => break found,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    shown.push(last);
    process.kill();
    let store = log.open().unwrap();
    assert_eq!(store.verify().unwrap().entries, 100);
    drop(store);
    // One history: every tree that was shown is a prefix of the last one.
    let database = redb::Database::open(log.path("log.redb")).unwrap();
    use redb::{ReadableDatabase as _, ReadableTable as _};
    let entries: redb::TableDefinition<'_, u64, &[u8; 32]> = redb::TableDefinition::new("entries");
    let entries = database.begin_read().unwrap().open_table(entries).unwrap();
    let mut frontier = Frontier::new();
    let mut roots = vec![frontier.root()];
    for found in entries.iter().unwrap() {
        frontier.append(found.unwrap().1.value(), |_, _| ());
        roots.push(frontier.root());
    }
    for checkpoint in shown {
        let size = usize::try_from(checkpoint.tree.size).unwrap();
        assert_eq!(checkpoint.tree.root, roots[size]);
    }
}

/// A witness in memory.
struct Witness {
    signer: Arc<Signer>,
    state: Arc<Mutex<WitnessState>>,
    address: std::net::SocketAddr,
}

#[derive(Default)]
struct WitnessState {
    tree: Option<Tree>,
    is_down: bool,
    conflicts: usize,
    /// Status, content type and body of every answer.
    fixed: Option<(u16, &'static str, &'static str)>,
}

impl Witness {
    async fn start(seed: u8, log: &Verifier) -> Self {
        let name = format!("w{seed}.example");
        let signer = Arc::new(Signer::from_seed(&name, Use::Witness, &[seed; 32]).unwrap());
        let state = Arc::<Mutex<WitnessState>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = (Arc::clone(&signer), Arc::clone(&state), log.clone());
        let router = Router::new()
            .route("/add-checkpoint", post(cosign))
            .with_state(shared);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            signer,
            state,
            address,
        }
    }

    fn key(&self) -> &Verifier {
        self.signer.verifier()
    }

    fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }
}

async fn cosign(
    State((signer, state, log)): State<(Arc<Signer>, Arc<Mutex<WitnessState>>, Verifier)>,
    body: Bytes,
) -> Response {
    let mut state = state.lock().unwrap();
    if state.is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if let Some((status, kind, body)) = state.fixed {
        let status = StatusCode::from_u16(status).unwrap();
        return (status, [("content-type", kind)], body).into_response();
    }
    let request = AddCheckpoint::parse(&body).unwrap();
    assert_eq!(
        request.note.signatures().len(),
        1,
        "other witnesses see no cosignatures"
    );
    let checkpoint = request.authenticate(std::slice::from_ref(&log)).unwrap();
    match request.decide(&checkpoint, state.tree.as_ref()) {
        Ok(()) => {
            state.tree = Some(checkpoint.tree);
            signer
                .sign(request.note.text(), now())
                .to_string()
                .into_response()
        }
        Err(Refusal::Conflict { size }) => {
            state.conflicts += 1;
            let kind = [("content-type", "Text/x.tlog.size; charset=utf-8")];
            (StatusCode::CONFLICT, kind, format!("{size}\n")).into_response()
        }
        Err(_) => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
    }
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// Evidence with this manifest, and the enclave that sends it.
fn evidence(manifest: &str) -> Vec<u8> {
    let pair = join(b"document", manifest.as_bytes());
    // A map of two with keys, in place of an array.
    [&[0xa2, 1][..], &pair[1..10], &[2], &pair[10..]].concat()
}

fn enclave(manifest: &'static str) -> Router {
    let answer = get(move || async move { evidence(manifest) });
    Router::new().route("/v1/attestation", answer)
}

async fn start(log: &Log, witnesses: &[Witness], enclave: &FakeEnclave, more: &[&str]) -> Running {
    let flags = log.flags(witnesses);
    let flags: Vec<_> = flags
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Running::start(&enclave.path(), &flags).await
}

/// Stops the proxy, and waits until nothing of it has the log open.
async fn stop(mut proxy: Running, log: &Log) {
    proxy.stop();
    proxy.task.await.unwrap();
    while log.code() == "DEPLOYMENT_LOG_IN_USE" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const NONCE: &str = "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA";

async fn witnessed(proxy: &Running, more: &str) -> (Vec<u8>, Vec<u8>) {
    let answer = proxy.get(&format!("{NONCE}{more}&witnessed=1")).await;
    assert_eq!(answer.status, StatusCode::OK);
    let (evidence, proof) = split(&answer.body).unwrap();
    (evidence.to_vec(), proof.to_vec())
}

fn two_of(witnesses: &[Witness], log: &Log) -> Policy {
    let keys = witnesses
        .iter()
        .map(|witness| witness.key().clone())
        .collect();
    Policy::with_threshold(log.key.clone(), keys, 2).unwrap()
}

fn assert_proves(proof: &[u8], record: &[u8], policy: &Policy) -> Checkpoint {
    let proof = TlogProof::parse(proof).unwrap();
    let judged = policy.judge(&proof.note, now(), 60).unwrap();
    proof
        .verify(&entry(record), &judged.checkpoint.tree)
        .unwrap();
    judged.checkpoint
}

async fn checkpoint(proxy: &Running) -> Option<Checkpoint> {
    let Answer { status, body, .. } = proxy.get("/v1/deployment/checkpoint").await;
    let note = Note::parse(&body).ok().filter(|_| status.is_success())?;
    Some(Checkpoint::parse(note.text()).unwrap())
}

async fn until_size(proxy: &Running, size: u64) -> Checkpoint {
    loop {
        match checkpoint(proxy).await {
            Some(found) if found.tree.size >= size => return found,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_comes_with_the_proof_that_witnesses_cosigned_its_keys() {
    let log = Log::new();
    let mut witnesses = Vec::new();
    for seed in 1..=3 {
        witnesses.push(Witness::start(seed, &log.key).await);
    }
    let policy = two_of(&witnesses, &log);
    witnesses[2].set_down(true);
    let mut fake = FakeEnclave::start(enclave("first keys"));
    let proxy = start(&log, &witnesses, &fake, &[]).await;
    for more in ["", "&shared=1"] {
        let (evidence, proof) = witnessed(&proxy, more).await;
        assert_eq!(evidence[3..11], *b"document");
        assert_proves(&proof, &write(Kind::Keys, b"first keys"), &policy);
    }
    // Without the word, the answer is the enclave's.
    assert_eq!(proxy.get(NONCE).await.body, evidence("first keys"));

    // Another enclave at this address: its keys are cosigned before its first client has them.
    fake.kill().await;
    fake.restart(enclave("second keys"));
    let (_, proof) = witnessed(&proxy, "").await;
    assert_proves(&proof, &write(Kind::Keys, b"second keys"), &policy);

    // Records of the operator, each proven, and in files.
    for number in 0..300 {
        log.put(
            &format!("{number}.release"),
            format!("release {number}").as_bytes(),
        );
    }
    log.put("page.json", b"not a record");
    let shown = until_size(&proxy, 302).await;
    assert_eq!(shown.tree.size, 302);
    let hex = merkle::json::hex(&entry(&release(7)));
    let proof = proxy.get(&format!("/v1/deployment/proof/{hex}")).await;
    assert_proves(&proof.body, &release(7), &policy);
    let record = proxy.get(&format!("/v1/deployment/record/{hex}")).await;
    assert_eq!(record.body, release(7));
    let mut frontier = Frontier::new();
    for tile in Tile::between(0, 302)
        .into_iter()
        .filter(|tile| tile.level == 0)
    {
        let path = format!("/v1/deployment/{}", tile.entries_path());
        let bundle = proxy.get(&path).await.body;
        let hashes = proxy
            .get(&format!("/v1/deployment/{}", tile.path()))
            .await
            .body;
        assert_eq!(bundle.len(), usize::from(tile.width) * 34);
        for (entry, hash) in bundle.chunks(34).zip(hashes.chunks(32)) {
            let data = entry[2..].try_into().unwrap();
            frontier.append(&data, |position, found| {
                assert!(position.level > 0 || found == hash);
            });
        }
    }
    assert_eq!(frontier.root(), shown.tree.root);
    for nothing in [
        "tile/0/001",
        "tile/2/000",
        "tile/0/1",
        "proof/00",
        "record/zz",
    ] {
        let path = format!("/v1/deployment/{nothing}");
        assert_eq!(proxy.get(&path).await.problem(), "NOT_FOUND", "{nothing}");
    }

    // All witnesses down: what was cosigned stays, and new keys have no proof.
    witnesses.iter().for_each(|witness| witness.set_down(true));
    fake.kill().await;
    fake.restart(enclave("third keys"));
    assert_eq!(witnessed(&proxy, "").await.1, b"");
    assert_eq!(checkpoint(&proxy).await.unwrap(), shown);

    // After a restart they are cosigned, from the size that the witnesses state.
    stop(proxy, &log).await;
    witnesses.iter().for_each(|witness| witness.set_down(false));
    let files = log.path("files");
    let flag = format!("--deployment-files={}", files.display());
    let proxy = start(&log, &witnesses, &fake, &[&flag, "--witness-quorum=3"]).await;
    let shown = until_size(&proxy, 303).await;
    assert!(witnesses[0].state.lock().unwrap().conflicts > 0);
    let (_, proof) = witnessed(&proxy, "").await;
    assert_proves(&proof, &write(Kind::Keys, b"third keys"), &policy);
    // Files are written right after the publication.
    let written = loop {
        match std::fs::read(files.join("checkpoint")) {
            Ok(bytes)
                if Checkpoint::parse(Note::parse(&bytes).unwrap().text()).unwrap() == shown =>
            {
                break bytes;
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(Note::parse(&written).unwrap().signatures().len() >= 3);
    for tile in Tile::between(0, 303) {
        let served = proxy
            .get(&format!("/v1/deployment/{}", tile.path()))
            .await
            .body;
        assert_eq!(std::fs::read(files.join(tile.path())).unwrap(), served);
    }
    let record = files.join("record").join(&hex);
    assert_eq!(std::fs::read(record).unwrap(), release(7));
}

/// An older copy of the file is a second history as soon as it grows.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_log_signs_nothing_more() {
    let log = Log::new();
    let witnesses = [Witness::start(1, &log.key).await];
    let fake = FakeEnclave::absent();
    log.put("1.release", b"one");
    let proxy = start(&log, &witnesses, &fake, &[]).await;
    until_size(&proxy, 1).await;
    stop(proxy, &log).await;
    std::fs::copy(log.path("log.redb"), log.path("older")).unwrap();
    log.put("2.release", b"two");
    let proxy = start(&log, &witnesses, &fake, &[]).await;
    until_size(&proxy, 2).await;
    stop(proxy, &log).await;

    std::fs::rename(log.path("older"), log.path("log.redb")).unwrap();
    std::fs::remove_file(log.path("records").join("2.release")).unwrap();
    log.put("3.release", b"three");
    let proxy = start(&log, &witnesses, &fake, &[]).await;
    until_conflicts(&witnesses[0], 2).await;
    // Twice the time of a batch.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(checkpoint(&proxy).await.unwrap().tree.size, 1);
    stop(proxy, &log).await;
    // The tree of two entries was not signed a second time.
    let store = log.open().unwrap();
    assert_eq!(store.verify().unwrap().entries, 1);
}

/// Starts this many witnesses.
async fn start_witnesses<const COUNT: usize>(log: &Log) -> Vec<Witness> {
    let mut witnesses = Vec::new();
    for number in 0..COUNT {
        let seed = u8::try_from(number).unwrap() + 1;
        witnesses.push(Witness::start(seed, &log.key).await);
    }
    witnesses
}

/// Waits until the witness has stated another size this many times.
async fn until_conflicts(witness: &Witness, count: usize) {
    while witness.state.lock().unwrap().conflicts < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A copy from before the first entry has no tree that a witness could compare.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_copy_of_the_log_signs_nothing() {
    let log = Log::new();
    let witnesses = start_witnesses::<3>(&log).await;
    let fake = FakeEnclave::absent();
    std::fs::copy(log.path("log.redb"), log.path("older")).unwrap();
    log.put("1.release", b"one");
    let proxy = start(&log, &witnesses, &fake, &[]).await;
    // Not only a quorum: also the one that the last round leaves alone.
    for witness in &witnesses {
        let size = || Some(witness.state.lock().unwrap().tree.as_ref()?.size);
        while size() != Some(1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    stop(proxy, &log).await;
    std::fs::rename(log.path("older"), log.path("log.redb")).unwrap();
    // One that has seen nothing would cosign any history.
    *witnesses[2].state.lock().unwrap() = WitnessState::default();
    for is_down in [false, true] {
        // Either two claim another tree, or one claims it and one does not answer.
        witnesses[1].set_down(is_down);
        witnesses[0].state.lock().unwrap().conflicts = 0;
        let proxy = start(&log, &witnesses, &fake, &[]).await;
        until_conflicts(&witnesses[0], 2).await;
        assert_eq!(checkpoint(&proxy).await, None);
        stop(proxy, &log).await;
        assert_eq!(log.open().unwrap().verify().unwrap().entries, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_witness_that_claims_another_tree_stops_nothing() {
    let log = Log::new();
    let witnesses = start_witnesses::<3>(&log).await;
    let fake = FakeEnclave::absent();
    let proxy = start(&log, &witnesses, &fake, &[]).await;
    let mut size = 0;
    let claims = [
        (409, "text/plain", ""),
        (422, "text/plain", ""),
        (409, "text/x.tlog.size", "999999\n"),
    ];
    for (witness, claim) in witnesses.iter().zip(claims) {
        witness.state.lock().unwrap().fixed = Some(claim);
        for _ in 0..2 {
            size += 1;
            log.put(&format!("{size}.release"), size.to_string().as_bytes());
            until_size(&proxy, size).await;
        }
        witness.state.lock().unwrap().fixed = None;
    }
    // Two of three: no quorum is left, until one of them has come round.
    for witness in &witnesses[..2] {
        witness.state.lock().unwrap().fixed = Some(claims[0]);
    }
    log.put("last.release", b"last");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(checkpoint(&proxy).await.unwrap().tree.size, size);
    witnesses[0].state.lock().unwrap().fixed = None;
    until_size(&proxy, size + 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_in_the_folder_of_files_is_compared_with_the_log() {
    let log = Log::new();
    let fake = FakeEnclave::absent();
    let files = log.path("files");
    let flag = format!("--deployment-files={}", files.display());
    let stated = files.join("checkpoint");
    std::fs::create_dir(&files).unwrap();
    let sign = |signer: &Signer, size: u64| {
        let root = [7; 32];
        let text = Checkpoint::new(ORIGIN, Tree { size, root }).unwrap();
        let mut note = Note::new(&text.to_string()).unwrap();
        note.sign(signer.sign(note.text(), 0));
        note.to_string()
    };
    // That of another key says nothing about the files.
    let other = Signer::from_seed(ORIGIN, Use::Log, &[9; 32]).unwrap();
    std::fs::write(&stated, sign(&other, 1)).unwrap();
    log.put("1.release", b"one");
    let proxy = start(&log, &[], &fake, &[&flag]).await;
    until_size(&proxy, 1).await;
    while std::fs::read_to_string(&stated).unwrap() == sign(&other, 1) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop(proxy, &log).await;
    for tile in Tile::between(0, 1) {
        assert_eq!(std::fs::read(files.join(tile.path())).unwrap().len(), 32);
        assert!(files.join(tile.entries_path()).exists());
    }
    // One that the log signed shows a larger tree, or another of a size that this file has.
    for size in [9, 1] {
        let newer = sign(&log.signer(), size);
        std::fs::write(&stated, &newer).unwrap();
        log.put("2.release", b"two");
        let proxy = start(&log, &[], &fake, &[&flag]).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(checkpoint(&proxy).await.unwrap().tree.size, 1);
        stop(proxy, &log).await;
        assert_eq!(log.open().unwrap().verify().unwrap().entries, 1);
        assert_eq!(std::fs::read_to_string(&stated).unwrap(), newer);
    }
}

#[test]
fn a_proof_with_two_cosignatures_is_short() {
    let log = Log::new();
    let store = log.open().unwrap();
    let records: Vec<_> = (0..10_000).map(release).collect();
    store.append(&records, &log.signer(), true).unwrap();
    let mut proof = store.proof(&entry(&records[77])).unwrap().unwrap();
    for seed in 1..=2 {
        let name = format!("witness{seed}.example.org/w{seed}");
        let witness = Signer::from_seed(&name, Use::Witness, &[seed; 32]).unwrap();
        proof.note.sign(witness.sign(proof.note.text(), now()));
    }
    let length = proof.to_string().len();
    assert!(length <= 2048, "{length}");
}
