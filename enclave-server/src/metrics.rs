//! Counters for Prometheus, on a separate listener. They reveal nothing of a request's content or length. There are no sums of
//! bytes, tokens or seconds: on a quiet service, the difference between two readings would be that of one request. Durations are
//! counted by powers of ten.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    /// Requests by route and status.
    pub requests: Family<Labels, Counter>,
    /// Attestation documents issued.
    pub documents: Counter,
    /// Sealed answers, errors included.
    pub answers: Counter,
    /// Channels opened.
    pub channels: Counter,
    /// Tree heads signed.
    pub tree_heads: Counter,
    /// Durations by phase.
    pub times: Times,
    /// Encapsulated keys remembered against replay.
    pub replay_entries: Gauge<u64, AtomicU64>,
    /// Seconds that each stage of the start took.
    pub stages: Family<StageLabels, Gauge<f64, AtomicU64>>,
    /// Peak resident set in bytes.
    pub memory_peak: Gauge<u64, AtomicU64>,
}

/// A stage of the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StageLabels {
    /// Its name, from this program.
    pub stage: &'static str,
}

/// Both values come from this program, never from a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Labels {
    /// The route's pattern.
    pub route: String,
    /// HTTP status.
    pub status: u16,
}

/// Durations by phase and power of ten. Clones share their counters.
#[derive(Clone, Debug, Default)]
pub struct Times(Family<TimeLabels, Counter>);

/// A phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Phase {
    /// Until the first slice of a request is computed.
    Queue,
    /// One batch.
    Compute,
    /// Padding and sealing an answer.
    Seal,
}

/// Both values come from this program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TimeLabels {
    phase: Phase,
    /// Upper bound in seconds.
    upto: &'static str,
}

impl Times {
    /// Counts `took`.
    pub fn record(&self, phase: Phase, took: Duration) {
        let upto = match took.as_millis() {
            0..10 => "0.01",
            10..100 => "0.1",
            100..1_000 => "1",
            1_000..10_000 => "10",
            _ => "+Inf",
        };
        self.0.get_or_create(&TimeLabels { phase, upto }).inc();
    }
}

impl engine::Observer for Times {
    fn queued(&self, time: Duration) {
        self.record(Phase::Queue, time);
    }

    fn computed(&self, time: Duration) {
        self.record(Phase::Compute, time);
    }
}

impl Metrics {
    /// All metrics at zero, with `times`, which other parts count as well.
    pub fn new(times: Times) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("clearseal_enclave"),
            requests: Family::default(),
            documents: Counter::default(),
            answers: Counter::default(),
            channels: Counter::default(),
            tree_heads: Counter::default(),
            times,
            replay_entries: Gauge::default(),
            stages: Family::default(),
            memory_peak: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(
            "requests",
            "Requests outside the seal",
            metrics.requests.clone(),
        );
        registry.register(
            "documents",
            "Attestation documents issued",
            metrics.documents.clone(),
        );
        registry.register(
            "sealed_answers",
            "Sealed answers, errors included",
            metrics.answers.clone(),
        );
        registry.register(
            "channels",
            "Attested channels opened",
            metrics.channels.clone(),
        );
        registry.register(
            "tree_heads",
            "Heads of the log of receipts that were signed",
            metrics.tree_heads.clone(),
        );
        registry.register(
            "times",
            "Requests, batches and answers by phase and by the seconds that they took at most",
            metrics.times.0.clone(),
        );
        registry.register(
            "replay_entries",
            "Requests remembered against replay",
            metrics.replay_entries.clone(),
        );
        registry.register_with_unit(
            "start_stage",
            "What each stage of the start took; some ran at once",
            Unit::Seconds,
            metrics.stages.clone(),
        );
        registry.register_with_unit(
            "memory_peak",
            "Peak resident set",
            Unit::Bytes,
            metrics.memory_peak.clone(),
        );
        metrics
    }

    /// The text exposition format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        prometheus_client::encoding::text::encode(&mut text, &self.registry).ok();
        text
    }
}
