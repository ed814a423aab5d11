//! A simulated enclave behind a host, over real sockets: real evidence, seals and receipts; a model that is a toy.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "each test file uses a part; a fixture that cannot be made is a failed test"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use attestation::cbor::Writer;
use attestation::{
    Evidence, HashScheme, ModelIdentity, Policy, SecurityMode, ServiceManifest, TrustAnchor,
    UnixMillis, manifest_binding,
};
use base64ct::{Base64UrlUnpadded, Encoding};
use forge::{Contents, DevelopmentRoot, Issuer};
use merkle::nonces::NonceTree;
use protocol::candidates;
use protocol::commitment::{request_hash, response_hash};
use protocol::inner::{InnerRequest, InnerResponse, unpadded_len};
use protocol::ohttp::{GatewayKeys, Opened, ResponseSealer};
use protocol::receipt::{Measurements, Platform, ReceiptClaims, ReceiptSigner};
use protocol::terms::{self, Terms};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::json;

mod model;

pub use model::vector;
use model::{answer, error, with_items};

pub const MODEL: &str = "all-MiniLM-L6-v2";
/// What the toy model reads of a text, in words.
pub const MAX_WORDS: usize = 8;

/// How the host behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Relays.
    Honest,
    /// Answers every sealed request with the key problem.
    KeyUnknown,
    /// Answers 503 without a seal.
    Busy,
    /// The same, after half a second.
    BusyLate,
    /// Answers every sealed request with a page of its own, status 422.
    Rewrite,
    /// Relays, and answers nothing until it behaves in another way.
    Held,
    /// Closes the connection in the middle of every answer.
    Cut,
    /// Changes one bit of each sealed answer.
    Tamper,
    /// Serves the evidence of one enclave, and the gateway of another.
    Mixed,
    /// One document for many clients.
    Sharing,
    /// The same, with the place of another client's nonce.
    SharingWrongly,
}

/// What the keys of one start of the enclave sign and open.
struct Life {
    gateway: GatewayKeys,
    signer: ReceiptSigner,
    manifest: Vec<u8>,
    x25519: Vec<u8>,
    documents: Mutex<Vec<[u8; 32]>>,
}

pub struct Host {
    pub url: String,
    pub policy: Policy,
    pub gateway_calls: Arc<AtomicUsize>,
    pub attestations: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

struct Shared {
    issuer: Issuer,
    contents: Mutex<Contents>,
    life: Mutex<Arc<Life>>,
    /// Further enclaves of the same image behind this host, and which of all are down; the first is number 0.
    replicas: Mutex<Vec<Arc<Life>>>,
    down: Mutex<Vec<usize>>,
    turn: AtomicUsize,
    /// Revocation lists that the host serves.
    crls: Mutex<Vec<u8>>,
    mood: Mutex<Mood>,
    validity: AtomicU64,
    seed: AtomicU64,
    root: Vec<u8>,
}

pub fn now() -> UnixMillis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    UnixMillis(u64::try_from(now.as_millis()).unwrap())
}

impl Host {
    pub fn start(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let root = DevelopmentRoot::generate(&mut rng, now().0);
        let issuer = Issuer::new(root, &mut rng, now().0);
        let contents = Contents::example();
        let validity = 3_600;
        let life = Arc::new(Life::begin(seed, validity));
        let pinned: BTreeMap<_, _> = contents
            .pcrs
            .iter()
            .filter(|(index, _)| **index < 3)
            .map(|(index, value)| (*index, *value))
            .collect();
        let manifest = ServiceManifest::decode(&life.manifest).unwrap();
        let anchor = TrustAnchor::development(issuer.root_der()).unwrap();
        let policy = Policy::for_development(anchor, pinned, &manifest).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            root: policy.to_json().into_bytes(),
            issuer,
            contents: Mutex::new(contents),
            life: Mutex::new(life),
            replicas: Mutex::default(),
            down: Mutex::default(),
            turn: AtomicUsize::new(0),
            crls: Mutex::default(),
            mood: Mutex::new(Mood::Honest),
            validity: AtomicU64::new(validity),
            seed: AtomicU64::new(seed),
        });
        let (gateway_calls, attestations) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let host = Self {
            url,
            policy: Policy::chosen_by_hand(policy.to_json().as_bytes()).unwrap(),
            gateway_calls: Arc::clone(&gateway_calls),
            attestations: Arc::clone(&attestations),
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, stream) = (Arc::clone(&shared), stream.unwrap());
                let counts = (Arc::clone(&gateway_calls), Arc::clone(&attestations));
                std::thread::spawn(move || serve(&shared, &counts, stream));
            }
        });
        host
    }

    /// The policy as a client's file.
    pub fn policy_json(&self) -> &[u8] {
        &self.shared.root
    }

    /// The enclave starts again: other keys, which know none of the documents from before.
    pub fn restart(&self) {
        let seed = self.shared.seed.fetch_add(1_000, Ordering::SeqCst) + 1_000;
        let validity = self.shared.validity.load(Ordering::SeqCst);
        *self.shared.life.lock().unwrap() = Arc::new(Life::begin(seed, validity));
    }

    /// One more enclave of the same image behind this host, which then takes turns.
    pub fn add_replica(&self, seed: u64) {
        let validity = self.shared.validity.load(Ordering::SeqCst);
        let life = Arc::new(Life::begin(seed, validity));
        self.shared.replicas.lock().unwrap().push(life);
    }

    /// These are down from now on.
    pub fn take_down(&self, numbers: &[usize]) {
        *self.shared.down.lock().unwrap() = numbers.to_vec();
    }

    /// The host swaps the image for another one, which the policy does not name.
    pub fn swap_image(&self) {
        let mut contents = self.shared.contents.lock().unwrap();
        contents.pcrs.insert(0, [0xab; 48]);
        drop(contents);
        self.restart();
    }

    /// From the next start on, manifests are good for so many seconds.
    pub fn valid_for(&self, seconds: u64) {
        self.shared.validity.store(seconds, Ordering::SeqCst);
        self.restart();
    }

    /// Serves these revocation lists from now on, of the chain that signs the documents.
    pub fn publish(&self, lists: impl FnOnce(&mut forge::Forgery) -> Vec<u8>) {
        let contents = self.shared.contents.lock().unwrap().clone();
        let mut forgery = self.shared.issuer.forge(&contents, now().0);
        *self.shared.crls.lock().unwrap() = lists(&mut forgery);
    }

    pub fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    pub fn sealed_requests(&self) -> usize {
        self.gateway_calls.load(Ordering::SeqCst)
    }
}

impl Life {
    fn begin(seed: u64, validity: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let gateway = GatewayKeys::generate(1, &mut rng);
        let signer = ReceiptSigner::generate(&mut rng);
        let seconds = now().seconds();
        let manifest = ServiceManifest {
            version: 1,
            sealing_keys: gateway.configs(),
            receipt_key: signer.public_key(),
            model: ModelIdentity {
                id: MODEL.into(),
                version: "1".into(),
                sha256: [5; 32],
                hash_scheme: HashScheme::Sha256Manifest,
                dimension: 4,
                max_tokens: 8,
            },
            policy_version: "1".into(),
            security_mode: SecurityMode::Evaluation,
            not_before: seconds - 60,
            not_after: seconds + validity,
        };
        Self {
            x25519: manifest.x25519_key().unwrap().to_vec(),
            manifest: manifest.encode().unwrap(),
            gateway,
            signer,
            documents: Mutex::default(),
        }
    }
}

impl Shared {
    /// The enclave whose turn it is, of those that are up.
    fn next(&self) -> Arc<Life> {
        let all: Vec<_> = std::iter::once(Arc::clone(&self.life.lock().unwrap()))
            .chain(self.replicas.lock().unwrap().iter().cloned())
            .collect();
        let down = self.down.lock().unwrap();
        let up: Vec<_> = (0..all.len())
            .filter(|number| !down.contains(number))
            .collect();
        let turn = self.turn.fetch_add(1, Ordering::SeqCst);
        Arc::clone(&all[up[turn % up.len()]])
    }
}

type Counts = (Arc<AtomicUsize>, Arc<AtomicUsize>);

fn serve(shared: &Shared, (gateway, attestations): &Counts, mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let target = line.split(' ').nth(1).unwrap_or("/").to_owned();
        let mut length = 0;
        let mut several = false;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = header.split_once(':') else {
                break;
            };
            several |= value.trim() == candidates::REQUEST_MEDIA_TYPE;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mood = *shared.mood.lock().unwrap();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let (status, kind, answer) = match path {
            "/v1/attestation" => {
                attestations.fetch_add(1, Ordering::SeqCst);
                (200, "application/cbor", evidence(shared, query, mood))
            }
            "/v1/crls" => {
                let crls = shared.crls.lock().unwrap().clone();
                (200, "application/octet-stream", crls)
            }
            "/v1/development-policy" => (200, "application/json", shared.root.clone()),
            "/v1/gateway" => {
                gateway.fetch_add(1, Ordering::SeqCst);
                while *shared.mood.lock().unwrap() == Mood::Held {
                    std::thread::sleep(Duration::from_millis(10));
                }
                match mood {
                    Mood::KeyUnknown => key_unknown(),
                    Mood::Rewrite => (422, "text/html", b"<h1>Unprocessable</h1>".to_vec()),
                    Mood::Busy | Mood::BusyLate => {
                        if mood == Mood::BusyLate {
                            std::thread::sleep(Duration::from_millis(500));
                        }
                        (
                            503,
                            "application/problem+json",
                            br#"{"code":"BUSY"}"#.to_vec(),
                        )
                    }
                    _ if several => relay_to_candidate(shared, &body),
                    _ => relay(shared, &body, mood),
                }
            }
            _ => (404, "text/plain", b"no\n".to_vec()),
        };
        let head = format!(
            "HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let sent = match mood == Mood::Cut && path == "/v1/gateway" {
            true => &answer[..answer.len() / 2],
            false => &answer[..],
        };
        let written = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(sent));
        if written.is_err() || sent.len() < answer.len() {
            return;
        }
    }
}

fn evidence(shared: &Shared, query: &str, mood: Mood) -> Vec<u8> {
    let life = shared.next();
    let nonce = query.strip_prefix("nonce=").unwrap();
    let nonce = nonce.strip_suffix("&shared=1").unwrap();
    let nonce = Base64UrlUnpadded::decode_vec(nonce).unwrap();
    let tree = NonceTree::over([&[1; 32][..], &nonce, &[2; 32]]).unwrap();
    let place = match mood {
        Mood::Sharing => tree.proof(1),
        Mood::SharingWrongly => tree.proof(2),
        _ => None,
    };
    let contents = Contents {
        nonce: Some(match &place {
            Some(_) => tree.document_nonce().to_vec(),
            None => nonce,
        }),
        user_data: Some(manifest_binding(&life.manifest).to_vec()),
        public_key: Some(life.x25519.clone()),
        ..shared.contents.lock().unwrap().clone()
    };
    let document = shared.issuer.forge(&contents, now().0).build();
    let hash = protocol::commitment::request_hash(&document);
    life.documents.lock().unwrap().push(hash);
    let evidence = Evidence {
        document: &document,
        manifest: &life.manifest,
    };
    let Some(place) = place else {
        return evidence.encode();
    };
    let mut writer = Writer::new();
    let two = writer.map(3).uint(1).bytes(&document);
    two.uint(2).bytes(&life.manifest);
    writer.uint(3).bytes(&place.encode());
    writer.finish()
}

type Reply = (u16, &'static str, Vec<u8>);

fn key_unknown() -> Reply {
    let body = json!({"type": protocol::ohttp::KEY_PROBLEM_TYPE, "code": "KEY_UNKNOWN"});
    (
        400,
        "application/problem+json",
        body.to_string().into_bytes(),
    )
}

fn relay(shared: &Shared, sealed: &[u8], mood: Mood) -> Reply {
    let life = match mood {
        Mood::Mixed => Arc::new(Life::begin(99, 3_600)),
        _ => shared.next(),
    };
    let Ok(opened) = life.gateway.open(sealed) else {
        return key_unknown();
    };
    let mut sealed = reply(shared, &life, opened);
    if mood == Mood::Tamper {
        *sealed.last_mut().unwrap() ^= 1;
    }
    (200, protocol::ohttp::RESPONSE_MEDIA_TYPE, sealed)
}

/// A request to several: only the enclave whose turn it is may open it.
fn relay_to_candidate(shared: &Shared, body: &[u8]) -> Reply {
    let life = shared.next();
    let name: candidates::Name = request_hash(&life.manifest)[..8].try_into().unwrap();
    let sealed = candidates::Sealed::parse(body).unwrap();
    let Ok(opened) = sealed.open(&name, &life.gateway) else {
        return key_unknown();
    };
    let answer = candidates::answer(&name, &reply(shared, &life, opened));
    (200, candidates::RESPONSE_MEDIA_TYPE, answer)
}

fn reply(shared: &Shared, life: &Life, (opened, sealer): (Opened, ResponseSealer)) -> Vec<u8> {
    let request = InnerRequest::decode(&opened.inner).unwrap();
    let terms = Terms::read(&request).unwrap();
    let known = life.documents.lock().unwrap().contains(&terms.document);
    let (status, content) = match known {
        true => answer(&request),
        false => (400, error("DOCUMENT_UNKNOWN")),
    };
    let mut response = InnerResponse {
        status,
        headers: vec![("content-type".into(), "application/json".into())],
        content: match content["data"][0]["embedding"].is_null() {
            true => content.to_string().into_bytes(),
            false => with_items(&terms.salt, &request, &content),
        },
    };
    if status == 200 && request.method == "POST" {
        let unpadded = &opened.inner[..unpadded_len(&opened.inner).unwrap()];
        let pcrs = shared.contents.lock().unwrap().pcrs.clone();
        let claims = ReceiptClaims {
            issuer: "clearseal".into(),
            issued_at: terms.date.seconds(),
            id: [1; 16],
            nonce: Some(terms.nonce.clone()),
            model_id: MODEL.into(),
            model_version: "1".into(),
            model_hash: [5; 32],
            model_hash_scheme: Some(HashScheme::Sha256Manifest),
            request_hash: request_hash(unpadded),
            response_hash: response_hash(&terms.salt, &response.content),
            document_hash: terms.document,
            measurements: Measurements {
                platform: Platform::NitroPcr,
                pcr0: pcrs[&0],
                pcr1: pcrs[&1],
                pcr2: pcrs[&2],
                pcr3: None,
                pcr4: None,
                pcr8: None,
            },
            policy_version: "1".into(),
            sequence_number: 1,
            execution_time_ms: 5,
            memory_peak_mb: 300,
            security_mode: SecurityMode::Evaluation,
        };
        let receipt = Base64UrlUnpadded::encode_string(&life.signer.sign(&claims));
        response.headers.push((terms::RECEIPT.into(), receipt));
    }
    let mut rng = ChaCha20Rng::seed_from_u64(now().0);
    sealer
        .seal(&response.encode_padded().unwrap(), &mut rng)
        .unwrap()
}

/// Long enough for a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
