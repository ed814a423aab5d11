//! Starts the service from its configuration, and stops it without losing a request.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attestation::{HashScheme, ModelIdentity};
use engine::{
    Embedder, EngineChoice, LoadError, Pool, PoolLimits, Precision, Tokenizer, TokenizerError,
    Turns,
};
use sealed_model::ModelLock;
use sha2::{Digest, Sha256};
use sockets::ListenAddress;
use tokio::signal::unix::{SignalKind, signal};

use crate::Clock;
use crate::api::budget::Budget;
use crate::api::counters::Counters;
use crate::api::models::{Models, ModelsError, ServedModel, Task, check_names};
use crate::api::state::InnerState;
use crate::api::{self, AnswerSteps, Limits, Service};
use crate::config::{Config, Simulation};
use crate::indexes::Indexes;
use crate::indexes::store::{BlobStore, ParentStore};
use crate::keys::{Description, KeyError, Keyring, Periods};
use crate::listener::{BindError, IDLE_TIMEOUT, Listener};
use crate::maintenance::Maintenance;
use crate::model::{Model, ModelError, pinned, self_test};
use crate::nsm::simulated::{hash_running_binary, read_root};
use crate::nsm::{DeviceNsm, Nsm, NsmError, SimulatedNsm};
use crate::provision::{KeyRelease, Provision, ProvisionError};
use crate::release::ReleaseError;
use crate::serve::{HEAD_TIMEOUT, accept};
use crate::stages::Stages;

/// A service that is bound to its address and ready to answer.
pub struct Server {
    listener: Listener,
    metrics: Option<Listener>,
    service: Arc<Service>,
    drain: Duration,
}

impl Server {
    /// Binds the address, opens the module, loads and verifies the model, makes the first keys.
    ///
    /// # Errors
    /// [`StartError`] with what is missing, and what to do.
    pub async fn start(config: &Config, clock: Clock, stages: Stages) -> Result<Self, StartError> {
        // Checks that fail fast come first: the configuration, the address, the device.
        let periods = Periods::new(config.rotate_every, config.deadline)?;
        // While a request is computed there is no traffic on its connection.
        let idle = IDLE_TIMEOUT.max(config.deadline + 2 * MAX_WAIT + IDLE_TIMEOUT / 2);
        let listener = Listener::bind(&config.listen, config.max_connections.get())
            .await?
            .with_idle_timeout(idle);
        let metrics = match &config.metrics {
            Some(address) => Some(Listener::bind(address, METRICS_CONNECTIONS).await?),
            None => None,
        };
        let device = match config.simulate_nsm {
            Simulation::Whole => None,
            Simulation::Off | Simulation::Sign => Some(DeviceNsm::open()?),
        };
        let locks = pinned::locks(&config.model_lock)?;
        check_lock_names(&locks)?;
        let nsm: Arc<dyn Nsm> = match device {
            Some(device) if config.simulate_nsm == Simulation::Off => Arc::new(device),
            device => Arc::new(simulate(device, config, &locks, clock.clone())?),
        };
        let sources = Provision::begin(config, &*nsm, locks.len())?;
        let mut loader = Loader {
            nsm: &*nsm,
            precision: config.precision,
            engine: Engine::of(config),
            turns: (locks.len() > 1).then(|| Arc::new(Turns::new(config.threads().get()))),
            stages,
        };
        let mut models = Vec::with_capacity(locks.len());
        let mut key_release = KeyRelease::None;
        for (source, lock) in sources.into_iter().zip(&locks) {
            let model;
            (model, key_release) = loader.load(source, lock).await?;
            models.push(model);
        }
        let mut stages = loader.stages;
        let models = Models::new(models)?;
        let mut identities = models.iter().map(|model| (*model.identity).clone());
        let description = Description {
            model: identities.next().ok_or(ModelsError::None)?,
            others: identities.collect(),
            policy_version: config.policy_version.clone(),
            security_mode: config.effective_security_mode(),
        };
        tracing::info!(
            models = locks.len(),
            threads = config.threads().get(),
            security_mode = description.security_mode.as_str(),
            key_release = key_release.as_str(),
            "every model is verified and loaded"
        );
        if config.precision != Precision::F32 {
            tracing::info!(
                code = "PRECISION",
                precision = config.precision.name(),
                least_cosine_to_f32 = config.precision.least_cosine(),
                "embeddings differ from those in f32; the cosine is the least over a thousand texts, measured in advance"
            );
        }
        let keys = stages.time("keys", || {
            Keyring::new(description, periods, &*nsm, clock.now())
        })?;
        let limits = Limits {
            max_request_bytes: config.max_request_bytes,
            max_in_flight: config.max_in_flight.get(),
            max_wait: MAX_WAIT,
            arriving_bytes: config.large_request_bytes / 4,
            opening_bytes: config.large_request_bytes / 8 * 3,
            max_replay_entries: REPLAY_ENTRIES,
        };
        let store = config.indexes.clone().map(ParentStore::new);
        let store = store.map(|store| Arc::new(store) as Arc<dyn BlobStore>);
        let state = InnerState {
            models,
            indexes: Indexes::new(store, config.index_memory, config.threads()),
            answers: Budget::new(config.large_request_bytes / 8 * 3, MAX_WAIT),
            counters: Counters::default(),
        };
        let mut service = Service::new(keys, nsm, state, limits, clock)
            .with_answer_steps(config.answer_steps.map(AnswerSteps::new));
        let stages = stages.end();
        tracing::info!(stages_ms = %stages.to_json(), "started; stages of the load ran at once");
        service.record_start(stages, key_release);
        let service = Arc::new(service);
        Ok(Self {
            listener,
            metrics,
            service,
            drain: config.drain,
        })
    }

    /// Serves `service` on `listener`; after the signal to stop for at most `drain`.
    pub fn new(listener: Listener, service: Arc<Service>, drain: Duration) -> Self {
        Self {
            listener,
            metrics: None,
            service,
            drain,
        }
    }

    /// The address it listens on.
    pub fn address(&self) -> &ListenAddress {
        self.listener.address()
    }

    /// Serves until SIGINT or SIGTERM, then finishes requests in flight.
    ///
    /// # Errors
    /// [`StartError::Signals`] where signals cannot be received.
    pub async fn run(self) -> Result<(), StartError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
        self.serve(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await;
        Ok(())
    }

    /// Serves until `stop`. Then finishes requests in flight and lets the host store the rest of the log, both within the
    /// configured time.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) {
        let Self {
            mut listener,
            metrics,
            service,
            drain,
        } = self;
        let maintenance = tokio::spawn(Maintenance::new(Arc::clone(&service)).run());
        tracing::info!(address = %listener.address(), "ready");
        let metrics = metrics.map(|listener| {
            tracing::info!(address = %listener.address(), "metrics");
            let router = api::metrics_router(Arc::clone(&service));
            tokio::spawn(axum::serve(listener, router).into_future())
        });
        let router = api::router(Arc::clone(&service));
        let requests = accept(&mut listener, &router, HEAD_TIMEOUT, stop).await;
        service.drain();
        tracing::info!("stopping: new connections get the log only");
        let end = async {
            let closing = api::closing_router(Arc::clone(&service));
            let stored = async {
                requests.finish().await;
                service.wait_for_channels().await;
                // No receipt is issued any more.
                service.wait_until_log_is_stored().await;
            };
            let log_requests = accept(&mut listener, &closing, HEAD_TIMEOUT, stored).await;
            drop(listener);
            log_requests.finish().await;
        };
        match tokio::time::timeout(drain, end).await {
            Ok(()) => tracing::info!("stopped"),
            Err(_) => tracing::warn!(
                code = "DRAIN_TIMEOUT",
                unstored_logs = service.unstored_logs(),
                "stopped with requests in flight, or with leaves of the log that the host has not stored"
            ),
        }
        maintenance.abort();
        if let Some(metrics) = metrics {
            metrics.abort();
        }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum StartError {
    /// See [`BindError`].
    #[error(transparent)]
    #[coded(transparent)]
    Bind(#[from] BindError),
    /// See [`NsmError`].
    #[error(transparent)]
    #[coded(transparent)]
    Nsm(#[from] NsmError),
    /// See [`ModelError`].
    #[error(transparent)]
    #[coded(transparent)]
    Model(#[from] ModelError),
    /// See [`ModelsError`].
    #[error(transparent)]
    #[coded(transparent)]
    Models(#[from] ModelsError),
    /// See [`ReleaseError`].
    #[error(transparent)]
    #[coded(transparent)]
    Release(#[from] ReleaseError),
    /// See [`ProvisionError`].
    #[error(transparent)]
    #[coded(transparent)]
    Provision(#[from] ProvisionError),
    /// See [`TokenizerError`].
    #[error(transparent)]
    #[coded(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// See [`LoadError`].
    #[error(transparent)]
    #[coded(transparent)]
    Engine(#[from] LoadError),
    /// See [`KeyError`].
    #[error(transparent)]
    #[coded(transparent)]
    Keys(#[from] KeyError),
    /// The system refused a thread.
    #[error("the system refused a thread: {0}")]
    #[coded("THREAD_REFUSED", remedy = "Lower --threads.")]
    Threads(std::io::Error),
    /// Core dumps cannot be forbidden.
    #[error("the system does not let this process forbid core dumps: {0}")]
    #[coded(
        "HARDENING_REFUSED",
        remedy = "Let the process call prctl and setrlimit."
    )]
    Hardening(std::io::Error),
    /// The system refused signal handlers.
    #[error("the system refused signal handlers: {0}")]
    #[coded(
        "SIGNALS_REFUSED",
        remedy = "Check the limits that the system sets for this process."
    )]
    Signals(std::io::Error),
}

/// Two million requests in ten minutes, or nine thousand a second for as long as the flood lasts; 21 to 43 MiB when full.
const REPLAY_ENTRIES: usize = 1 << 21;

/// A scraper needs one connection.
const METRICS_CONNECTIONS: usize = 8;

/// Beyond this time a retry is as good as waiting.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Simulates the module, over the measurements of `device` where there is one.
fn simulate(
    device: Option<DeviceNsm>,
    config: &Config,
    locks: &[ModelLock],
    clock: Clock,
) -> Result<SimulatedNsm, NsmError> {
    tracing::warn!(
        code = "NSM_SIMULATED",
        "attestation is simulated: it proves nothing"
    );
    let root = config
        .simulated_root
        .as_deref()
        .map(read_root)
        .transpose()?;
    let pcrs = match device {
        Some(device) => device.pcrs().clone(),
        None => forge::simulated_registers(&hash_running_binary()?, &digest_of(locks)),
    };
    SimulatedNsm::with_registers(pcrs, root.as_deref(), clock)
}

/// Refuses models that share a name before the first of them is loaded, which takes minutes for a large one.
fn check_lock_names(locks: &[ModelLock]) -> Result<(), ModelsError> {
    let names = locks.iter().flat_map(|lock| {
        let first = std::iter::once(lock.name.to_string());
        first.chain(lock.other_names())
    });
    let names: Vec<_> = names.collect();
    check_names(names.iter().map(String::as_str))
}

/// Digest of the only model, or of the digests of several.
fn digest_of(locks: &[ModelLock]) -> [u8; 32] {
    if let [lock] = locks {
        return lock.files.digest();
    }
    let each = locks.iter().map(|lock| lock.files.digest());
    let hash = each.fold(Sha256::new(), |hash, digest| hash.chain_update(digest));
    hash.finalize().into()
}

/// Loads and tests one model after another.
struct Loader<'a> {
    nsm: &'a dyn Nsm,
    precision: Precision,
    engine: Engine,
    /// Shared by the threads of several models.
    turns: Option<Arc<Turns>>,
    stages: Stages,
}

impl Loader<'_> {
    async fn load(
        &mut self,
        source: Provision<'_>,
        lock: &ModelLock,
    ) -> Result<(ServedModel, KeyRelease), StartError> {
        let (loaded, key_release) = source.load(self.nsm, lock, &mut self.stages)?;
        let sha256 = loaded.model.artifact_sha256;
        let (model, tokenizer) = (loaded.model, loaded.side_result?);
        let (engine, turns) = (self.engine, self.turns.clone());
        let embedder = self
            .stages
            .time("pack", || build_embedder(model, tokenizer, engine, turns))?;
        let begun = Instant::now();
        let failures = self_test::failures(&embedder, self.precision, &lock.self_test).await;
        self.stages.add("self_test", begun.elapsed());
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure.into());
        }
        if lock.self_test.is_empty() {
            tracing::warn!(
                code = "MODEL_WITHOUT_SELF_TEST",
                model = %lock.name,
                "the lock has no self-test: a wrong vector would not be noticed; `enclave-server check-model --print-self-test` makes one"
            );
        }
        tracing::info!(
            model = %lock.name,
            sha256 = base16ct::lower::encode_string(&sha256),
            engine = embedder.engine(),
            "model verified and loaded"
        );
        let identity = ModelIdentity {
            id: lock.name.to_string(),
            version: embedder.engine().to_owned(),
            sha256,
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: u32::try_from(embedder.dimension()).unwrap_or(u32::MAX),
            max_tokens: u32::try_from(embedder.max_tokens()).unwrap_or(u32::MAX),
            normalised: embedder.is_normalised(),
        };
        let model = ServedModel {
            identity: Arc::new(identity),
            aliases: lock.other_names(),
            task: Task::of(embedder),
        };
        Ok((model, key_release))
    }
}

/// How a model is computed.
#[derive(Clone, Copy)]
pub(crate) struct Engine {
    pub(crate) choice: EngineChoice,
    pub(crate) precision: Precision,
    pub(crate) threads: NonZeroUsize,
    pub(crate) limits: PoolLimits,
}

impl Engine {
    fn of(config: &Config) -> Self {
        Self {
            choice: config.engine,
            precision: config.precision,
            threads: config.threads(),
            limits: PoolLimits {
                queue_tokens: config.queue_tokens.get(),
                deadline: config.deadline,
                ..PoolLimits::default()
            },
        }
    }
}

pub(crate) fn build_embedder(
    model: Model,
    tokenizer: Tokenizer,
    engine: Engine,
    turns: Option<Arc<Turns>>,
) -> Result<Embedder, StartError> {
    let threads = engine.threads;
    // Candle uses rayon's global pool for matrix products. A second start in one process (in tests) keeps the first pool.
    if rayon::ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .thread_name(|number| format!("gemm-{number}"))
        .build_global()
        .is_err()
    {
        tracing::debug!("the thread pool of this process exists already");
    }
    let prompts = model.recipe.prompts().clone();
    let encoder = model.build_encoder(engine.choice, engine.precision, threads)?;
    let pool = Pool::start_with_turns(encoder, threads.get(), engine.limits, turns)
        .map_err(StartError::Threads)?;
    Ok(Embedder::new(tokenizer, pool)?.with_prompts(prompts))
}
