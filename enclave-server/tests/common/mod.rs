//! A whole service in this process, with real routers, keys, seals and receipts, a simulated module, and a small encoder.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use attestation::{
    Evidence, Freshness, HashScheme, ModelIdentity, Policy, SecurityMode, UnixMillis,
    VerifiedAttestation,
};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, StatusCode};
use base64ct::{Base64UrlUnpadded, Encoding};
use enclave_server::api::budget::Budget;
use enclave_server::api::counters::Counters;
use enclave_server::api::models::{Models, ServedModel, Task};
use enclave_server::api::state::InnerState;
use enclave_server::api::{self, AnswerSteps, Limits, Service};
use enclave_server::indexes::Indexes;
use enclave_server::indexes::store::BlobStore;
use enclave_server::keys::{Description, Keyring, Periods};
use enclave_server::nsm::{Nsm, SimulatedNsm};
use enclave_server::{Clock, Moment};
use engine::{Embedder, EncodeError, Encoder, Pool, PoolLimits, Prompts, Tokenizer, Turns};
use getrandom::SysRng;
use merkle::json::{Leaves, Logs, from_json, hex};
use protocol::exchange::{self, Answer, ExchangeError};
use protocol::inner::InnerRequest;
use rand_core::{Rng, UnwrapErr};
use tokio::sync::Notify;
use tower::ServiceExt;

pub use fixtures::enclave::embeddings;

/// A word that the toy model knows. Tests check that it does not appear where it must not.
pub const SECRET: &str = "quokka";
pub const MODEL: &str = "toy";
/// An alias of the model, in the form of the hub's names.
pub const ALIAS: &str = "toys/toy";
pub const START: u64 = 1_795_183_380;

pub struct Rig {
    pub router: Router,
    pub service: Arc<Service>,
    pub time: Arc<Time>,
}

/// Both clocks, in milliseconds.
pub struct Time {
    pub wall: AtomicU64,
    pub steady: AtomicU64,
    /// Ends of the service's waits by the steady clock, in the order of their starts.
    pub waits: Mutex<Vec<Duration>>,
    moved: Notify,
}

impl Time {
    /// The client's time.
    pub fn client(&self) -> UnixMillis {
        self.truth().wall
    }

    /// Waits until a test has advanced the steady clock to `steady`.
    async fn wait_until(&self, steady: Duration) {
        self.waits.lock().unwrap().push(steady);
        loop {
            let moved = self.moved.notified();
            if Duration::from_millis(self.steady.load(Ordering::SeqCst)) >= steady {
                return;
            }
            moved.await;
        }
    }

    fn truth(&self) -> Moment {
        let steady = self.steady.load(Ordering::SeqCst);
        Moment {
            wall: UnixMillis(START * 1000 + steady - STEADY_START),
            steady: Duration::from_millis(steady),
        }
    }
}

/// Not a whole second, and not zero.
const STEADY_START: u64 = 77_700;

/// Verified evidence, and its parts.
pub struct Attested {
    pub verified: VerifiedAttestation,
    pub document: Vec<u8>,
    pub manifest: Vec<u8>,
}

pub type Wrap = dyn FnOnce(Arc<dyn Nsm>) -> Arc<dyn Nsm>;

pub struct Options {
    pub encoder: Arc<dyn Encoder>,
    pub pool: PoolLimits,
    pub limits: Limits,
    /// Wraps the simulated module.
    pub nsm: Box<Wrap>,
    pub periods: Periods,
    pub answer_steps: Option<AnswerSteps>,
    pub prompts: Prompts,
    /// Names and encoders of further models.
    pub others: Vec<(&'static str, Arc<dyn Encoder>)>,
    /// The model scores pairs of texts.
    pub reads_pairs: bool,
    /// Store of indexes.
    pub store: Option<Arc<dyn BlobStore>>,
}

pub const LIMITS: Limits = Limits {
    max_request_bytes: 1 << 20,
    max_in_flight: 8,
    max_wait: Duration::from_millis(10),
    arriving_bytes: 8 << 20,
    opening_bytes: 16 << 20,
    max_replay_entries: 1000,
};

impl Default for Options {
    fn default() -> Self {
        Self {
            encoder: Arc::new(Toy),
            pool: PoolLimits::default(),
            limits: LIMITS,
            nsm: Box::new(|nsm| nsm),
            periods: Periods::new(Duration::from_secs(3600), Duration::from_secs(30)).unwrap(),
            answer_steps: None,
            prompts: Prompts::default(),
            others: Vec::new(),
            reads_pairs: false,
            store: None,
        }
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::build(options, |service| service)
    }

    /// Like [`with`](Self::with), with a change of the private router.
    pub fn build(options: Options, inner: impl FnOnce(Router) -> Router) -> Self {
        let time = Arc::new(Time {
            wall: AtomicU64::new(START * 1000),
            steady: AtomicU64::new(STEADY_START),
            waits: Mutex::default(),
            moved: Notify::new(),
        });
        let clock = Clock::new({
            let time = Arc::clone(&time);
            move || Moment {
                wall: UnixMillis(time.wall.load(Ordering::SeqCst)),
                steady: Duration::from_millis(time.steady.load(Ordering::SeqCst)),
            }
        })
        .with_waits(Arc::new({
            let time = Arc::clone(&time);
            move |steady| {
                let time = Arc::clone(&time);
                Box::pin(async move { time.wait_until(steady).await })
            }
        }));
        // The module has a separate clock, which no test sets.
        let module = Clock::new({
            let time = Arc::clone(&time);
            move || time.truth()
        });
        let nsm: Arc<dyn Nsm> = Arc::new(SimulatedNsm::new(&[8; 48], &[7; 32], module).unwrap());
        let nsm = (options.nsm)(nsm);
        let description = Description {
            model: identity_of(MODEL, &*options.encoder),
            others: options
                .others
                .iter()
                .map(|(name, encoder)| identity_of(name, &**encoder))
                .collect(),
            policy_version: "1".to_owned(),
            security_mode: SecurityMode::Evaluation,
        };
        let identity = Arc::new(description.model.clone());
        let others = description.others.clone();
        let keys = Keyring::new(description, options.periods, &*nsm, clock.now()).unwrap();
        let tokenizer =
            Tokenizer::from_json(&tokenizer_json(), options.encoder.max_tokens()).unwrap();
        let tokenizer = match options.reads_pairs {
            true => tokenizer.into_pairs(0, 0).unwrap(),
            false => tokenizer,
        };
        let turns = (!others.is_empty()).then(|| Arc::new(Turns::new(2)));
        let start = |encoder| Pool::start_with_turns(encoder, 2, options.pool, turns.clone());
        let pool = start(options.encoder).unwrap();
        let others = others.into_iter().zip(options.others);
        let others = others.map(|(identity, (_, encoder))| {
            let tokenizer = Tokenizer::from_json(&tokenizer_json(), encoder.max_tokens()).unwrap();
            ServedModel {
                identity: Arc::new(identity),
                aliases: Vec::new(),
                task: Task::of(Embedder::new(tokenizer, start(encoder).unwrap()).unwrap()),
            }
        });
        let model = ServedModel {
            identity,
            aliases: vec![ALIAS.to_owned()],
            task: Task::of(
                Embedder::new(tokenizer, pool)
                    .unwrap()
                    .with_prompts(options.prompts),
            ),
        };
        let state = Arc::new(InnerState {
            models: Models::new(std::iter::once(model).chain(others).collect()).unwrap(),
            indexes: Indexes::new(options.store, 64 << 20, NonZeroUsize::MIN),
            answers: Budget::new(16 << 20, Duration::from_millis(10)),
            counters: Counters::default(),
        });
        let inner = inner(api::inner::router(Arc::clone(&state)));
        let service = Service::with_inner(keys, nsm, state, inner, options.limits, clock);
        let service = Arc::new(service.with_answer_steps(options.answer_steps));
        Self {
            router: api::router(Arc::clone(&service)),
            service,
            time,
        }
    }

    /// The client's time, and the module's.
    pub fn now(&self) -> UnixMillis {
        self.time.truth().wall
    }

    /// Advances both clocks.
    pub fn advance(&self, seconds: u64) {
        self.advance_millis(seconds * 1000);
    }

    /// Advances both clocks.
    pub fn advance_millis(&self, millis: u64) {
        self.time.wall.fetch_add(millis, Ordering::SeqCst);
        self.time.steady.fetch_add(millis, Ordering::SeqCst);
        self.time.moved.notify_waiters();
    }

    /// Sets the wall clock by `seconds`; no time passes.
    pub fn set_wall(&self, seconds: i64) {
        let wall = self.time.wall.load(Ordering::SeqCst);
        let wall = wall.saturating_add_signed(seconds * 1000);
        self.time.wall.store(wall, Ordering::SeqCst);
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Bytes) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        self.send(request).await
    }

    pub async fn send(&self, request: Request<Body>) -> (StatusCode, Bytes) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        (
            response.status(),
            to_bytes(response.into_body(), 8 << 20).await.unwrap(),
        )
    }

    /// Names of the logs, newest first.
    pub async fn logs(&self) -> Vec<[u8; 32]> {
        let (status, body) = self.get("/v1/log").await;
        assert_eq!(status, StatusCode::OK);
        from_json::<Logs>(&body).unwrap().logs
    }

    /// Leaves of a log, as a host reads them that has stored `from` of them.
    pub async fn leaves(&self, log: &[u8; 32], from: u64) -> Leaves {
        let path = format!("/v1/log/leaves?log={}&from={from}", hex(log));
        let (status, body) = self.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{body:?}");
        from_json(&body).unwrap()
    }

    /// The text of `GET /metrics`.
    pub async fn metrics(&self) -> String {
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        let router = api::metrics_router(Arc::clone(&self.service));
        let response = router.oneshot(request).await.unwrap();
        let text = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    /// Posts to the gateway.
    pub async fn post(&self, sealed: Vec<u8>) -> (StatusCode, Bytes) {
        let request = Request::post("/v1/gateway")
            .header("content-type", "message/ohttp-req")
            .body(sealed.into())
            .unwrap();
        self.send(request).await
    }

    /// Fetches evidence and verifies it like a client.
    pub async fn attest(&self) -> Attested {
        self.attest_with(|_| {}).await
    }

    /// Like [`attest`](Self::attest), by the development policy after this change.
    pub async fn attest_with(&self, change: impl FnOnce(&mut serde_json::Value)) -> Attested {
        let mut nonce = [0; 32];
        UnwrapErr(SysRng).fill_bytes(&mut nonce);
        let (status, evidence) = self
            .get(&format!(
                "/v1/attestation?nonce={}",
                Base64UrlUnpadded::encode_string(&nonce)
            ))
            .await;
        assert_eq!(status, StatusCode::OK, "{evidence:?}");
        let evidence = Evidence::parse(&evidence).unwrap();
        let (status, policy) = self.get("/v1/development-policy").await;
        assert_eq!(status, StatusCode::OK);
        let mut policy = serde_json::from_slice(&policy).unwrap();
        change(&mut policy);
        let policy = Policy::with_evidence(&serde_json::to_vec(&policy).unwrap()).unwrap();
        let (report, verified) = evidence.appraisal().verify(
            &policy,
            Freshness::Live {
                nonce: &nonce,
                now: self.now(),
            },
        );
        assert_eq!(
            report.verdict,
            attestation::Verdict::Simulated,
            "{report:#?}"
        );
        Attested {
            verified: verified.including_simulated().unwrap(),
            document: evidence.document.to_vec(),
            manifest: evidence.manifest.to_vec(),
        }
    }

    /// Sends one sealed request of an honest client.
    pub async fn exchange(
        &self,
        attested: &Attested,
        request: InnerRequest,
    ) -> Result<Answer, ExchangeError> {
        let (sealed, pending) = exchange::begin(
            &attested.verified,
            request,
            self.now(),
            &mut UnwrapErr(SysRng),
        )
        .unwrap();
        let (status, answer) = self.post(sealed).await;
        assert_eq!(status, StatusCode::OK, "{answer:?}");
        pending.finish(&answer, self.now())
    }

    /// Attests and embeds `input` (JSON); returns status and JSON.
    pub async fn embed(&self, body: serde_json::Value) -> (u16, serde_json::Value) {
        let attested = self.attest().await;
        let answer = self
            .exchange(&attested, embeddings(&body))
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        (
            answer.response.status,
            serde_json::from_slice(&answer.response.content).unwrap(),
        )
    }
}

/// Identity of an encoder in a manifest. The digest is different for each name.
pub fn identity_of(name: &str, encoder: &dyn Encoder) -> ModelIdentity {
    ModelIdentity {
        id: name.to_owned(),
        version: encoder.name().to_owned(),
        sha256: [u8::try_from(name.len()).unwrap(); 32],
        hash_scheme: HashScheme::Sha256Manifest,
        dimension: u32::try_from(encoder.dimension()).unwrap(),
        max_tokens: u32::try_from(encoder.max_tokens()).unwrap(),
        normalised: encoder.is_normalised(),
    }
}

/// Two words that the toy model knows.
pub fn hello() -> InnerRequest {
    embeddings(&serde_json::json!({"model": MODEL, "input": "hello world"}))
}

pub fn code(answer: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(answer).unwrap();
    json["code"]
        .as_str()
        .or(json["error"]["code"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// Four numbers that depend on the tokens; panics on the token of "panic".
pub struct Toy;

impl Encoder for Toy {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        Ok(sequences
            .iter()
            .flat_map(|sequence| {
                assert!(!sequence.contains(&PANIC), "{SECRET}: deliberate");
                let sum = sequence.iter().map(|id| *id as f32).sum::<f32>();
                let row = [1.0, sequence.len() as f32, sum, 0.5];
                let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
                row.map(|value| value / length)
            })
            .collect())
    }
    fn dimension(&self) -> usize {
        4
    }
    fn is_normalised(&self) -> bool {
        true
    }
    fn max_tokens(&self) -> usize {
        16
    }
    fn vocabulary(&self) -> usize {
        64
    }
    fn name(&self) -> &'static str {
        "toy-f32"
    }
}

/// The toy model with rows of twice the unit length.
pub struct LongToy;

impl Encoder for LongToy {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        let rows = Toy.encode(sequences)?;
        Ok(rows.into_iter().map(|value| value * 2.0).collect())
    }
    fn dimension(&self) -> usize {
        Toy.dimension()
    }
    fn is_normalised(&self) -> bool {
        false
    }
    fn max_tokens(&self) -> usize {
        Toy.max_tokens()
    }
    fn vocabulary(&self) -> usize {
        Toy.vocabulary()
    }
    fn name(&self) -> &'static str {
        Toy.name()
    }
}

/// The toy model, which computes one batch for each release.
#[derive(Default)]
pub struct HeldToy {
    begun: AtomicUsize,
    released: Mutex<usize>,
    changed: Condvar,
}

impl HeldToy {
    /// Lets so many batches be computed.
    pub fn release(&self, batches: usize) {
        let mut released = self.released.lock().unwrap();
        *released = released.saturating_add(batches);
        self.changed.notify_all();
    }

    /// Waits until so many batches have begun.
    pub async fn wait_begun(&self, batches: usize) {
        while self.begun.load(Ordering::SeqCst) < batches {
            tokio::task::yield_now().await;
        }
    }
}

impl Encoder for HeldToy {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let released = self.released.lock().unwrap();
        let mut released = self
            .changed
            .wait_while(released, |batches| *batches == 0)
            .unwrap();
        *released -= 1;
        drop(released);
        Toy.encode(sequences)
    }
    fn dimension(&self) -> usize {
        Toy.dimension()
    }
    fn is_normalised(&self) -> bool {
        Toy.is_normalised()
    }
    fn max_tokens(&self) -> usize {
        Toy.max_tokens()
    }
    fn vocabulary(&self) -> usize {
        Toy.vocabulary()
    }
    fn name(&self) -> &'static str {
        Toy.name()
    }
}

/// After five special tokens and three words.
const PANIC: u32 = 8;

/// BERT's tokenizer over letters and a few words.
pub fn tokenizer_json() -> Vec<u8> {
    let words = ["hello", "world", SECRET, "panic"].map(str::to_owned);
    let letters = ('a'..='z').flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    fixtures::tokenizer::tokenizer_json(words.into_iter().chain(letters))
}
