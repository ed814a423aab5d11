//! Counters for Prometheus. The host reads them: they count, and say nothing of any request's content or length.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
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
    /// Sealed answers, whatever is inside them.
    pub answers: Counter,
    /// Tree heads signed.
    pub tree_heads: Counter,
    /// Word pieces admitted and not yet encoded.
    pub pending_tokens: Gauge<u64, AtomicU64>,
    /// Encapsulated keys remembered against replay.
    pub replay_entries: Gauge<u64, AtomicU64>,
    /// Peak resident set in bytes.
    pub memory_peak: Gauge<u64, AtomicU64>,
}

/// Both values come from this program, never from a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Labels {
    /// The route's pattern.
    pub route: String,
    /// HTTP status.
    pub status: u16,
}

impl Metrics {
    /// Everything at zero.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("clearseal_enclave"),
            requests: Family::default(),
            documents: Counter::default(),
            answers: Counter::default(),
            tree_heads: Counter::default(),
            pending_tokens: Gauge::default(),
            replay_entries: Gauge::default(),
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
            "tree_heads",
            "Heads of the log of receipts that were signed",
            metrics.tree_heads.clone(),
        );
        registry.register(
            "pending_tokens",
            "Word pieces that wait for inference",
            metrics.pending_tokens.clone(),
        );
        registry.register(
            "replay_entries",
            "Requests remembered against replay",
            metrics.replay_entries.clone(),
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

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
