//! Which subjects exist, and in which dimension they are measured.
//!
//! The page gets the same tables: [`crate::typescript`] writes them out.

use serde::Serialize;

use crate::record::{Environment, Unit};

/// What kind of quantity a unit counts. Figures of one subject can be compared when they share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Base unit: milliseconds.
    Time,
    /// Base unit: bytes.
    Size,
    /// Base unit: bytes a second.
    Bandwidth,
    /// Base unit: inferences a second.
    Rate,
    /// Hundredths.
    Percent,
    /// How many times.
    Ratio,
    /// United States dollars.
    Money,
    /// A number of things.
    Count,
    /// Whatever the figure is about.
    Any,
}

impl Unit {
    /// Every unit.
    pub const ALL: [Self; 17] = [
        Self::Nanoseconds,
        Self::Microseconds,
        Self::Milliseconds,
        Self::Seconds,
        Self::Bytes,
        Self::Megabytes,
        Self::Mebibytes,
        Self::MegabytesPerSecond,
        Self::GigabytesPerSecond,
        Self::MebibytesPerSecond,
        Self::GibibytesPerSecond,
        Self::TebibytesPerSecond,
        Self::InferencesPerSecond,
        Self::Percent,
        Self::Ratio,
        Self::Dollars,
        Self::Count,
    ];

    /// Its dimension, and how many base units of the dimension it is.
    pub fn scale(self) -> (Dimension, f64) {
        let mebi = f64::from(1 << 20);
        match self {
            Self::Nanoseconds => (Dimension::Time, 1e-6),
            Self::Microseconds => (Dimension::Time, 1e-3),
            Self::Milliseconds => (Dimension::Time, 1.0),
            Self::Seconds => (Dimension::Time, 1e3),
            Self::Bytes => (Dimension::Size, 1.0),
            Self::Megabytes => (Dimension::Size, 1e6),
            Self::Mebibytes => (Dimension::Size, mebi),
            Self::MegabytesPerSecond => (Dimension::Bandwidth, 1e6),
            Self::GigabytesPerSecond => (Dimension::Bandwidth, 1e9),
            Self::MebibytesPerSecond => (Dimension::Bandwidth, mebi),
            Self::GibibytesPerSecond => (Dimension::Bandwidth, mebi * 1024.0),
            Self::TebibytesPerSecond => (Dimension::Bandwidth, mebi * mebi),
            Self::InferencesPerSecond => (Dimension::Rate, 1.0),
            Self::Percent => (Dimension::Percent, 1.0),
            Self::Ratio => (Dimension::Ratio, 1.0),
            Self::Dollars => (Dimension::Money, 1.0),
            Self::Count => (Dimension::Count, 1.0),
        }
    }
}

/// Which way a figure ought to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither.
    Neither,
}

/// Something that can be measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Subject {
    /// Name in records.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Dimension of its figures.
    pub dimension: Dimension,
    /// Which way is better.
    pub better: Better,
}

const fn lower(name: &'static str, title: &'static str) -> Subject {
    subject(name, title, Dimension::Time, Better::Lower)
}

const fn subject(
    name: &'static str,
    title: &'static str,
    dimension: Dimension,
    better: Better,
) -> Subject {
    Subject {
        name,
        title,
        dimension,
        better,
    }
}

/// All of them, in the order in which a report shows them.
pub const SUBJECTS: &[Subject] = &[
    lower("inference.latency", "Inference"),
    subject(
        "inference.throughput",
        "Inferences, one at a time",
        Dimension::Rate,
        Better::Higher,
    ),
    lower("peers.latency", "Inference beside others"),
    subject(
        "peers.of_peak",
        "Arithmetic, of what the processor can do",
        Dimension::Percent,
        Better::Higher,
    ),
    subject("overhead", "Overhead", Dimension::Percent, Better::Lower),
    subject(
        "share",
        "Share of a whole",
        Dimension::Percent,
        Better::Lower,
    ),
    subject("difference", "Difference", Dimension::Any, Better::Lower),
    lower("stage.launch", "Process launch"),
    lower("stage.attestation", "Attestation"),
    lower("stage.key_release", "Key release"),
    lower("stage.model_fetch", "Model fetch"),
    lower("stage.model_decrypt", "Model decryption"),
    lower("stage.model_load", "Model load"),
    lower("stage.tokenizer_setup", "Tokenizer"),
    lower("stage.cold_start_total", "Cold start in all"),
    lower("load.ready", "Sealed model to ready engine"),
    subject(
        "load.over_bound",
        "Sealed model to ready engine, of the slower of transport and cipher",
        Dimension::Ratio,
        Better::Lower,
    ),
    subject(
        "memory.start_peak",
        "Peak resident memory at readiness",
        Dimension::Size,
        Better::Lower,
    ),
    subject(
        "memory.start_ratio",
        "The same above a server without a model, of the weights",
        Dimension::Ratio,
        Better::Lower,
    ),
    subject(
        "memory.peak_rss",
        "Peak resident memory",
        Dimension::Size,
        Better::Lower,
    ),
    subject(
        "documents.rate",
        "Clients that get a document, a second",
        Dimension::Count,
        Better::Higher,
    ),
    lower(
        "documents.latency",
        "From asking for a document to having it",
    ),
    subject(
        "documents.sharing",
        "Clients that share a document",
        Dimension::Count,
        Better::Neither,
    ),
    subject(
        "documents.speedup",
        "Clients a second with shared documents, of those with their own",
        Dimension::Ratio,
        Better::Higher,
    ),
    subject(
        "hostile.success",
        "Honest requests answered beside an attack",
        Dimension::Percent,
        Better::Higher,
    ),
    lower("hostile.latency", "An honest request beside an attack"),
    subject(
        "hostile.slowdown",
        "Honest median beside an attack, of that without",
        Dimension::Ratio,
        Better::Lower,
    ),
    subject(
        "hostile.attempts",
        "Requests or connections of an attack",
        Dimension::Count,
        Better::Neither,
    ),
    subject(
        "hostile.memory",
        "Memory beside an attack",
        Dimension::Size,
        Better::Lower,
    ),
    subject(
        "memory.peak_vmsize",
        "Peak mapped memory",
        Dimension::Size,
        Better::Lower,
    ),
    subject(
        "memory.model_size",
        "Size of the weights",
        Dimension::Size,
        Better::Neither,
    ),
    subject(
        "quality.embedding_dim",
        "Length of the embedding",
        Dimension::Count,
        Better::Neither,
    ),
    subject(
        "quality.cosine",
        "Cosine to the reference",
        Dimension::Ratio,
        Better::Higher,
    ),
    subject(
        "quality.max_abs_diff",
        "Largest difference of a component",
        Dimension::Ratio,
        Better::Lower,
    ),
    subject(
        "quality.identical_runs",
        "Runs with identical bytes",
        Dimension::Percent,
        Better::Higher,
    ),
    lower("precision.latency", "Inference with smaller weights"),
    subject(
        "precision.cosine",
        "Least cosine to f32",
        Dimension::Ratio,
        Better::Higher,
    ),
    subject(
        "precision.cosine_mean",
        "Mean cosine to f32",
        Dimension::Ratio,
        Better::Higher,
    ),
    subject(
        "precision.weights",
        "Weights in memory",
        Dimension::Size,
        Better::Lower,
    ),
    lower("transport.rtt", "Round trip"),
    subject(
        "transport.throughput",
        "Throughput",
        Dimension::Bandwidth,
        Better::Higher,
    ),
    lower("transport.handshake", "Handshake"),
    lower(
        "transport.handshake_amortised",
        "Handshake, spread over requests",
    ),
    lower(
        "transport.handshake_attestation",
        "Attestation within the handshake",
    ),
    subject(
        "transport.handshake_ratio",
        "Handshake against TLS 1.3",
        Dimension::Ratio,
        Better::Higher,
    ),
    lower("transport.first_message", "Handshake and first message"),
    lower("transport.reconnect", "Teardown and reconnect"),
    subject(
        "transport.reconnect_ratio",
        "Against a fresh handshake",
        Dimension::Ratio,
        Better::Neither,
    ),
    lower("transport.per_message", "Transport of a message"),
    subject(
        "transport.rtt_ratio",
        "Round trip against plaintext",
        Dimension::Ratio,
        Better::Lower,
    ),
    lower("transport.steady_state_overhead", "Overhead of a request"),
    lower("frame.latency", "Frame codec"),
    subject(
        "frame.throughput",
        "Frame codec, throughput",
        Dimension::Bandwidth,
        Better::Higher,
    ),
    lower("crypto.hpke_setup", "HPKE set-up, both sides"),
    lower("crypto.x25519_keygen", "X25519 key pair"),
    lower("crypto.xwing_keygen", "X-Wing key pair"),
    lower("crypto.hpke_encrypt", "HPKE encrypt"),
    lower("crypto.hpke_decrypt", "HPKE decrypt"),
    lower("crypto.ed25519_keygen", "Ed25519 key pair"),
    lower("crypto.ed25519_sign", "Ed25519 sign"),
    lower("crypto.ed25519_verify", "Ed25519 verify"),
    lower("crypto.receipt_sign", "Receipt signed"),
    lower("crypto.receipt_verify", "Receipt verified"),
    lower(
        "crypto.per_inference_budget",
        "Cryptography of an inference",
    ),
    lower("crypto.aead_seal", "AEAD seal"),
    lower("crypto.aead_open", "AEAD open"),
    subject(
        "crypto.aead_throughput",
        "AEAD, throughput",
        Dimension::Bandwidth,
        Better::Higher,
    ),
    lower("cose.signature", "COSE signature"),
    lower("cose.chain", "Certificate chain"),
    lower("cose.cbor", "CBOR payload"),
    lower("cose.full", "Document verified"),
    lower("request.crypto", "Cryptography of a request"),
    lower("request.session_setup", "Session set-up"),
    lower("request.tcp_handshake", "TCP handshake with HPKE"),
    lower("request.end_to_end", "Request, end to end"),
    lower("request.tokenization", "Text to word pieces"),
    lower("request.inference_only", "Inference alone"),
    lower("request.crypto_overhead", "Request without its inference"),
    subject(
        "concurrency.throughput",
        "Throughput under load",
        Dimension::Rate,
        Better::Higher,
    ),
    lower("concurrency.latency", "Latency under load"),
    subject(
        "concurrency.efficiency",
        "Scaling efficiency",
        Dimension::Percent,
        Better::Higher,
    ),
    lower("scaling.latency", "Inference by length"),
    lower("scaling.intercept", "Fit: intercept"),
    lower("scaling.slope", "Fit: a token"),
    lower("process.cpu_time", "Processor time of a request"),
    subject(
        "process.page_faults",
        "Page faults of a request",
        Dimension::Count,
        Better::Lower,
    ),
    subject(
        "process.context_switches",
        "Context switches of a request",
        Dimension::Count,
        Better::Lower,
    ),
    subject(
        "cost.hourly_price",
        "Price of an hour",
        Dimension::Money,
        Better::Lower,
    ),
    subject(
        "cost.inferences_per_hour",
        "Inferences in an hour",
        Dimension::Count,
        Better::Higher,
    ),
    subject(
        "cost.per_thousand",
        "A thousand inferences",
        Dimension::Money,
        Better::Lower,
    ),
    subject(
        "cost.per_million",
        "A million inferences",
        Dimension::Money,
        Better::Lower,
    ),
    subject(
        "cost.multiplier",
        "Cost against bare metal",
        Dimension::Ratio,
        Better::Lower,
    ),
    subject(
        "platform.overhead",
        "Overhead on a platform",
        Dimension::Percent,
        Better::Lower,
    ),
    subject(
        "platform.slowdown",
        "Slowdown on a platform",
        Dimension::Ratio,
        Better::Lower,
    ),
    subject(
        "platform.cost_ratio",
        "Cost on a platform",
        Dimension::Ratio,
        Better::Lower,
    ),
    lower("aggregation.setup", "Set-up"),
    lower("aggregation.decrypt_sum", "Decrypt and sum"),
    lower("aggregation.final", "Final"),
    lower("aggregation.read", "Read"),
    lower("aggregation.sum", "Sum"),
    lower("aggregation.lookup", "Lookup"),
    lower("aggregation.total", "A round in all"),
    subject("slo.target", "Target", Dimension::Any, Better::Neither),
    subject("claim", "Claim", Dimension::Any, Better::Neither),
];

/// A subject by its name.
pub fn find(name: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.name == name)
}

/// Name of an environment for people.
pub fn environment_title(environment: Environment) -> &'static str {
    match environment {
        Environment::Enclave => "Nitro enclave",
        Environment::BareMetal => "bare metal",
        Environment::Simulated => "simulated enclave",
        Environment::Sgx => "Intel SGX",
        Environment::Hybrid => "hybrid",
        Environment::ConfidentialVm => "confidential VM",
        Environment::Development => "development machine",
        Environment::Literature => "literature",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SUBJECTS.len());
    }
}
