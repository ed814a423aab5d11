//! The subjects that exist, and the dimension of each.
//!
//! The page gets the same tables: [`crate::typescript`] writes them out.

use Better::{Higher, Lower, Neither};
use Dimension::{Any, Bandwidth, Count, Money, Percent, Rate, Ratio, Size, Time};
use serde::Serialize;
use ts_rs::TS;

use crate::record::{Environment, Unit};

/// Kind of quantity that a unit counts. Figures of one subject are comparable when they share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
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
    /// A factor.
    Ratio,
    /// United States dollars.
    Money,
    /// A number of things.
    Count,
    /// Not fixed: depends on the figure.
    Any,
}

impl Unit {
    /// Returns its dimension, and how many base units of that dimension it is.
    pub fn scale(self) -> (Dimension, f64) {
        let mebi = f64::from(1 << 20);
        match self {
            Self::Nanoseconds => (Time, 1e-6),
            Self::Microseconds => (Time, 1e-3),
            Self::Milliseconds => (Time, 1.0),
            Self::Seconds => (Time, 1e3),
            Self::Bytes => (Size, 1.0),
            Self::Megabytes => (Size, 1e6),
            Self::Mebibytes => (Size, mebi),
            Self::MegabytesPerSecond => (Bandwidth, 1e6),
            Self::GigabytesPerSecond => (Bandwidth, 1e9),
            Self::MebibytesPerSecond => (Bandwidth, mebi),
            Self::GibibytesPerSecond => (Bandwidth, mebi * 1024.0),
            Self::TebibytesPerSecond => (Bandwidth, mebi * mebi),
            Self::InferencesPerSecond => (Rate, 1.0),
            Self::Percent => (Percent, 1.0),
            Self::Ratio => (Ratio, 1.0),
            Self::Dollars => (Money, 1.0),
            Self::Count => (Count, 1.0),
        }
    }
}

/// The direction in which a figure should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither.
    Neither,
}

/// A quantity that can be measured.
#[derive(Clone, Copy, Debug, Serialize, TS)]
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

const fn subject(
    name: &'static str,
    dimension: Dimension,
    better: Better,
    title: &'static str,
) -> Subject {
    Subject {
        name,
        title,
        dimension,
        better,
    }
}

/// All subjects, in the order in which a report shows them.
pub const SUBJECTS: &[Subject] = table! { subject:
    "inference.latency",               Time,      Lower,   "Inference";
    "inference.throughput",            Rate,      Higher,  "Inferences, one at a time";
    "peers.latency",                   Time,      Lower,   "Inference of other implementations";
    "peers.of_peak",                   Percent,   Higher,  "Arithmetic, of what the processor can do";
    "overhead",                        Percent,   Lower,   "Overhead";
    "share",                           Percent,   Lower,   "Share of a whole";
    "difference",                      Any,       Lower,   "Difference";
    "stage.launch",                    Time,      Lower,   "Process launch";
    "stage.attestation",               Time,      Lower,   "Attestation";
    "stage.key_release",               Time,      Lower,   "Key release";
    "stage.model_fetch",               Time,      Lower,   "Model fetch";
    "stage.model_decrypt",             Time,      Lower,   "Model decryption";
    "stage.model_load",                Time,      Lower,   "Model load";
    "stage.tokenizer_setup",           Time,      Lower,   "Tokenizer";
    "stage.cold_start_total",          Time,      Lower,   "Cold start in all";
    "load.ready",                      Time,      Lower,   "Sealed model to ready engine";
    "load.over_bound",                 Ratio,     Lower,   "Sealed model to ready engine, of the slower of transport and cipher";
    "memory.start_peak",               Size,      Lower,   "Peak resident memory at readiness";
    "memory.start_ratio",              Ratio,     Lower,   "The same above a server without a model, of the weights";
    "memory.peak_rss",                 Size,      Lower,   "Peak resident memory";
    "documents.rate",                  Count,     Higher,  "Clients that get a document, a second";
    "documents.success",               Percent,   Higher,  "Requests for a document that were answered with one";
    "documents.latency",               Time,      Lower,   "From asking for a document to having it";
    "documents.sharing",               Count,     Neither, "Clients that share a document";
    "documents.speedup",               Ratio,     Higher,  "Clients a second with shared documents, of those with their own";
    "hostile.success",                 Percent,   Higher,  "Honest requests answered during an attack";
    "hostile.latency",                 Time,      Lower,   "An honest request during an attack";
    "hostile.slowdown",                Ratio,     Lower,   "Honest median during an attack, relative to without";
    "hostile.attempts",                Count,     Neither, "Requests or connections of an attack";
    "hostile.answered",                Count,     Neither, "Requests of an attack that were answered with success";
    "hostile.memory",                  Size,      Lower,   "Memory during an attack";
    "memory.peak_vmsize",              Size,      Lower,   "Peak mapped memory";
    "memory.model_size",               Size,      Neither, "Size of the weights";
    "quality.embedding_dim",           Count,     Neither, "Length of the embedding";
    "quality.cosine",                  Ratio,     Higher,  "Cosine to the reference";
    "quality.max_abs_diff",            Ratio,     Lower,   "Largest difference of a component";
    "quality.identical_runs",          Percent,   Higher,  "Runs with identical bytes";
    "precision.latency",               Time,      Lower,   "Inference with smaller weights";
    "precision.cosine",                Ratio,     Higher,  "Least cosine to f32";
    "precision.cosine_mean",           Ratio,     Higher,  "Mean cosine to f32";
    "precision.weights",               Size,      Lower,   "Weights in memory";
    "transport.rtt",                   Time,      Lower,   "Round trip";
    "transport.throughput",            Bandwidth, Higher,  "Throughput";
    "transport.handshake",             Time,      Lower,   "Handshake";
    "transport.handshake_amortised",   Time,      Lower,   "Handshake, spread over requests";
    "transport.handshake_attestation", Time,      Lower,   "Attestation within the handshake";
    "transport.handshake_ratio",       Ratio,     Higher,  "Handshake against TLS 1.3";
    "transport.first_message",         Time,      Lower,   "Handshake and first message";
    "transport.reconnect",             Time,      Lower,   "Teardown and reconnect";
    "transport.reconnect_ratio",       Ratio,     Neither, "Against a fresh handshake";
    "transport.per_message",           Time,      Lower,   "Transport of a message";
    "transport.rtt_ratio",             Ratio,     Lower,   "Round trip against plaintext";
    "transport.steady_state_overhead", Time,      Lower,   "Overhead of a request";
    "frame.latency",                   Time,      Lower,   "Frame codec";
    "frame.throughput",                Bandwidth, Higher,  "Frame codec, throughput";
    "crypto.hpke_setup",               Time,      Lower,   "HPKE set-up, both sides";
    "crypto.x25519_keygen",            Time,      Lower,   "X25519 key pair";
    "crypto.xwing_keygen",             Time,      Lower,   "X-Wing key pair";
    "crypto.hpke_encrypt",             Time,      Lower,   "HPKE encrypt";
    "crypto.hpke_decrypt",             Time,      Lower,   "HPKE decrypt";
    "crypto.ed25519_keygen",           Time,      Lower,   "Ed25519 key pair";
    "crypto.ed25519_sign",             Time,      Lower,   "Ed25519 sign";
    "crypto.ed25519_verify",           Time,      Lower,   "Ed25519 verify";
    "crypto.receipt_sign",             Time,      Lower,   "Receipt signed";
    "crypto.receipt_verify",           Time,      Lower,   "Receipt verified";
    "crypto.per_inference_budget",     Time,      Lower,   "Cryptography of an inference";
    "crypto.aead_seal",                Time,      Lower,   "AEAD seal";
    "crypto.aead_open",                Time,      Lower,   "AEAD open";
    "crypto.aead_throughput",          Bandwidth, Higher,  "AEAD, throughput";
    "cose.signature",                  Time,      Lower,   "COSE signature";
    "cose.chain",                      Time,      Lower,   "Certificate chain";
    "cose.cbor",                       Time,      Lower,   "CBOR payload";
    "cose.full",                       Time,      Lower,   "Document verified";
    "request.crypto",                  Time,      Lower,   "Cryptography of a request";
    "request.session_setup",           Time,      Lower,   "Session set-up";
    "request.tcp_handshake",           Time,      Lower,   "TCP handshake with HPKE";
    "request.end_to_end",              Time,      Lower,   "Request, end to end";
    "request.tokenization",            Time,      Lower,   "Text to tokens";
    "request.inference_only",          Time,      Lower,   "Inference alone";
    "request.crypto_overhead",         Time,      Lower,   "Request without its inference";
    "concurrency.throughput",          Rate,      Higher,  "Throughput under load";
    "concurrency.latency",             Time,      Lower,   "Latency under load";
    "concurrency.efficiency",          Percent,   Higher,  "Scaling efficiency";
    "scaling.latency",                 Time,      Lower,   "Inference by length";
    "scaling.intercept",               Time,      Lower,   "Fit: intercept";
    "scaling.slope",                   Time,      Lower,   "Fit: a token";
    "process.cpu_time",                Time,      Lower,   "Processor time of a request";
    "process.page_faults",             Count,     Lower,   "Page faults of a request";
    "process.context_switches",        Count,     Lower,   "Context switches of a request";
    "cost.hourly_price",               Money,     Lower,   "Price of an hour";
    "cost.inferences_per_hour",        Count,     Higher,  "Inferences in an hour";
    "cost.per_thousand",               Money,     Lower,   "A thousand inferences";
    "cost.per_million",                Money,     Lower,   "A million inferences";
    "cost.multiplier",                 Ratio,     Lower,   "Cost against bare metal";
    "platform.overhead",               Percent,   Lower,   "Overhead on a platform";
    "platform.slowdown",               Ratio,     Lower,   "Slowdown on a platform";
    "platform.cost_ratio",             Ratio,     Lower,   "Cost on a platform";
    "aggregation.setup",               Time,      Lower,   "Set-up";
    "aggregation.decrypt_sum",         Time,      Lower,   "Decrypt and sum";
    "aggregation.final",               Time,      Lower,   "Final";
    "aggregation.read",                Time,      Lower,   "Read";
    "aggregation.sum",                 Time,      Lower,   "Sum";
    "aggregation.lookup",              Time,      Lower,   "Lookup";
    "aggregation.total",               Time,      Lower,   "A round in all";
    "slo.target",                      Any,       Neither, "Target";
    "claim",                           Any,       Neither, "Claim";
};

/// Finds a subject by its name.
pub fn find(name: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.name == name)
}

/// Name of an environment, for people.
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
