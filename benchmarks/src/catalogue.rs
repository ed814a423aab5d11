//! Which subjects exist, in which dimension they are measured, and what the interpretation guide says of them.
//!
//! The page gets the same tables: [`crate::typescript`] writes them out.

use serde::Serialize;

use crate::record::{Environment, Measurement, Parameter, Record, Statistics, Unit};

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
    lower("stage.attestation", "Attestation"),
    lower("stage.key_release", "Key release"),
    lower("stage.model_fetch", "Model fetch"),
    lower("stage.model_decrypt", "Model decryption"),
    lower("stage.model_load", "Model load"),
    lower("stage.tokenizer_setup", "Tokenizer"),
    lower("stage.cold_start_total", "Cold start in all"),
    subject(
        "memory.peak_rss",
        "Peak resident memory",
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

/// A field of the published format, and the measurement that it is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublishedField {
    /// Section of the record.
    pub section: &'static str,
    /// Field in the section.
    pub field: &'static str,
    /// Subject of the measurement.
    pub subject: &'static str,
    /// Unit that the field's name carries.
    pub unit: Unit,
    /// Parameter that the field's name carries.
    pub payload_bytes: Option<u32>,
}

const fn field(
    section: &'static str,
    field: &'static str,
    subject: &'static str,
    unit: Unit,
    payload_bytes: Option<u32>,
) -> PublishedField {
    PublishedField {
        section,
        field,
        subject,
        unit,
        payload_bytes,
    }
}

/// The published format as measurements.
pub const PUBLISHED: &[PublishedField] = &[
    field(
        "stages",
        "attestation_ms",
        "stage.attestation",
        Unit::Milliseconds,
        None,
    ),
    field(
        "stages",
        "kms_key_release_ms",
        "stage.key_release",
        Unit::Milliseconds,
        None,
    ),
    field(
        "stages",
        "model_fetch_ms",
        "stage.model_fetch",
        Unit::Milliseconds,
        None,
    ),
    field(
        "stages",
        "model_decrypt_ms",
        "stage.model_decrypt",
        Unit::Milliseconds,
        None,
    ),
    field(
        "stages",
        "model_load_ms",
        "stage.model_load",
        Unit::Milliseconds,
        None,
    ),
    field(
        "stages",
        "tokenizer_setup_ms",
        "stage.tokenizer_setup",
        Unit::Milliseconds,
        None,
    ),
    field(
        "stages",
        "cold_start_total_ms",
        "stage.cold_start_total",
        Unit::Milliseconds,
        None,
    ),
    field(
        "inference",
        "latency_ms",
        "inference.latency",
        Unit::Milliseconds,
        None,
    ),
    field(
        "inference",
        "throughput_inferences_per_sec",
        "inference.throughput",
        Unit::InferencesPerSecond,
        None,
    ),
    field(
        "memory",
        "peak_rss_mb",
        "memory.peak_rss",
        Unit::Megabytes,
        None,
    ),
    field(
        "memory",
        "peak_vmsize_mb",
        "memory.peak_vmsize",
        Unit::Megabytes,
        None,
    ),
    field(
        "memory",
        "model_size_mb",
        "memory.model_size",
        Unit::Megabytes,
        None,
    ),
    field(
        "vsock",
        "rtt_64b_ms",
        "transport.rtt",
        Unit::Milliseconds,
        Some(64),
    ),
    field(
        "vsock",
        "rtt_1kb_ms",
        "transport.rtt",
        Unit::Milliseconds,
        Some(1 << 10),
    ),
    field(
        "vsock",
        "rtt_64kb_ms",
        "transport.rtt",
        Unit::Milliseconds,
        Some(1 << 16),
    ),
    field(
        "vsock",
        "rtt_1mb_ms",
        "transport.rtt",
        Unit::Milliseconds,
        Some(1 << 20),
    ),
    field(
        "vsock",
        "upload_throughput_mbps",
        "transport.throughput",
        Unit::MegabytesPerSecond,
        None,
    ),
    field(
        "vsock",
        "upload_throughput_mb_per_sec",
        "transport.throughput",
        Unit::MegabytesPerSecond,
        None,
    ),
    field(
        "quality",
        "embedding_dim",
        "quality.embedding_dim",
        Unit::Count,
        None,
    ),
];

/// Every figure of `record`: its measurements, and the published sections read as such.
pub fn figures(record: &Record) -> Vec<Measurement> {
    let sections = serde_json::to_value(record).unwrap_or_default();
    let published = PUBLISHED.iter().filter_map(|published| {
        let found = sections.get(published.section)?.get(published.field)?;
        let statistics = match found.as_f64() {
            Some(value) => Statistics {
                value: Some(value),
                ..Statistics::default()
            },
            None => serde_json::from_value(found.clone()).ok()?,
        };
        let mut measurement = Measurement {
            subject: published.subject.to_owned(),
            unit: Some(published.unit),
            statistics,
            ..Measurement::default()
        };
        let mut say =
            |name: &str, value: Parameter| measurement.parameters.insert(name.to_owned(), value);
        if published.section == "vsock" {
            say("transport", Parameter::Text("vsock".to_owned()));
        }
        if let Some(bytes) = published.payload_bytes {
            say("payload_bytes", Parameter::Number(f64::from(bytes)));
        }
        Some(measurement)
    });
    published
        .chain(record.measurements.iter().cloned())
        .collect()
}

/// A step of the interpretation guide: from `from` on, up to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// Lower bound, included, in the guide's unit.
    pub from: f64,
    /// The guide's word, or ours where it leaves a gap.
    pub verdict: &'static str,
    /// The guide's reason, or that it gives none.
    pub why: &'static str,
    /// How bad: 0 fine, 1 look closer, 2 a problem; 3 where the guide is silent.
    pub grade: u8,
}

/// What the interpretation guide says of one figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Guide {
    /// What is judged.
    pub subject: &'static str,
    /// For people.
    pub title: &'static str,
    /// Unit of the bounds.
    pub unit: Unit,
    /// Steps, rising.
    pub thresholds: &'static [Threshold],
}

const fn step(from: f64, verdict: &'static str, why: &'static str, grade: u8) -> Threshold {
    Threshold {
        from,
        verdict,
        why,
        grade,
    }
}

/// The three tables of the guide. Where they leave a gap, the verdict says so instead of guessing.
pub const GUIDES: [Guide; 3] = [
    Guide {
        subject: "inference.latency",
        title: "Inference overhead",
        unit: Unit::Percent,
        thresholds: &[
            step(
                f64::NEG_INFINITY,
                "Excellent",
                "below 5 %: SGX and TDX on one socket do no better",
                0,
            ),
            step(
                5.0,
                "Good",
                "5 to 10 %: what GPU enclaves and other CPU enclaves take",
                0,
            ),
            step(
                10.0,
                "Acceptable",
                "10 to 15 %: on par with BERT under AMD SEV-SNP",
                1,
            ),
            step(
                15.0,
                "Investigate",
                "15 % or more: look at the socket and at memory pressure in the enclave",
                2,
            ),
        ],
    },
    Guide {
        subject: "stage.cold_start_total",
        title: "Cold start",
        unit: Unit::Seconds,
        thresholds: &[
            step(
                f64::NEG_INFINITY,
                "Competitive",
                "below 5 s: containers of library operating systems take minutes",
                0,
            ),
            step(
                5.0,
                "Acceptable",
                "5 to 15 s: fine where sessions are long",
                1,
            ),
            step(
                15.0,
                "No verdict",
                "the guide says nothing between 15 and 30 s",
                3,
            ),
            step(
                30.0,
                "Problem",
                "30 s or more: look at the image's size and at how the model is fetched",
                2,
            ),
        ],
    },
    Guide {
        subject: "memory.peak_rss",
        title: "Memory overhead",
        unit: Unit::Percent,
        thresholds: &[
            step(
                f64::NEG_INFINITY,
                "Normal",
                "below 15 %: the enclave's runtime and its keys",
                0,
            ),
            step(
                15.0,
                "No verdict",
                "the guide says nothing between 15 and 30 %",
                3,
            ),
            step(
                30.0,
                "Investigate",
                "30 % or more: a leak, or the model held twice",
                2,
            ),
        ],
    },
];

impl Guide {
    /// The step that `value` is on. No verdict for what is not a number.
    pub fn judge(&self, value: f64) -> Option<&'static Threshold> {
        self.thresholds.iter().rev().find(|step| value >= step.from)
    }
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

    #[test]
    fn published_fields_have_the_dimension_of_their_subject() {
        for field in PUBLISHED {
            let subject = find(field.subject).unwrap();
            assert_eq!(subject.dimension, field.unit.scale().0, "{}", field.field);
        }
    }

    #[test]
    fn the_guide_judges_its_own_bounds() {
        let table = [
            (0, -3.0, "Excellent"),
            (0, 4.999, "Excellent"),
            (0, 5.0, "Good"),
            (0, 12.6, "Acceptable"),
            (0, 15.0, "Investigate"),
            (1, 4.9, "Competitive"),
            (1, 7.05, "Acceptable"),
            (1, 20.0, "No verdict"),
            (1, 31.0, "Problem"),
            (2, 14.0, "Normal"),
            (2, 29.0, "No verdict"),
            (2, 282.8, "Investigate"),
        ];
        for (guide, value, verdict) in table {
            assert_eq!(
                GUIDES[guide].judge(value).unwrap().verdict,
                verdict,
                "{value}"
            );
        }
        assert_eq!(GUIDES[0].judge(f64::NAN), None);
    }
}
