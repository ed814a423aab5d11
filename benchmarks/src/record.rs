//! The format of a benchmark file.
//!
//! A file is one [`Record`], a list of them, or a [`RecordFile`] with the report that they come from. The first eleven fields of
//! a record, down to `quality`, are the published JSON format of the reports under `reference/`, so such files can be read here.
//! All other fields are ours and optional.

mod measurement;
mod source;

pub use measurement::{Cite, Measurement, Parameter, Qualifier, Statistics, Turns, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use source::{Reference, Report, Statement, Table, TableKind};
use ts_rs::TS;

/// Records together with the report that published them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct RecordFile {
    /// Version of this layout.
    pub format: Format,
    /// The report that published the figures; absent for your own run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// The report's tables, verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub tables: Vec<Table>,
    /// The figures as data.
    #[schemars(length(max = 20_000))]
    pub records: Vec<Record>,
}

/// Layouts of a [`RecordFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
pub enum Format {
    /// The first.
    #[serde(rename = "clearseal.benchmarks/1")]
    V1,
}

/// One run: what was measured, where, how, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields, rename = "BenchmarkRecord")]
pub struct Record {
    /// Where the code ran.
    pub environment: Environment,
    /// Model by its usual name; absent if no model was involved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub model: Option<String>,
    /// Parameters of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_params: Option<u64>,
    /// Machine, by its provider's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub hardware: Option<String>,
    /// When: RFC 3339, a date, a year and month, or Unix seconds followed by `Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 40),
        regex(
            pattern = r"^([0-9]{1,12}Z|[0-9]{4}-[0-9]{2}(-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))?)?)$"
        )
    )]
    pub timestamp: Option<String>,
    /// Commit of the code that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub commit: Option<String>,
    /// Cold start, stage by stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
    /// Inference, one text at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference: Option<Inference>,
    /// Memory of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Round trips between enclave and host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsock: Option<Vsock>,
    /// Whether the results are correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,

    /// Short name, unique in its file: `[a-z0-9-]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9-]+$"))]
    pub id: Option<String>,
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub title: Option<String>,
    /// Source of the figures; absent for a run of the file's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub source: Option<String>,
    /// Details of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Details of build and process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// Benchmarks that ran, by the names that `--only` takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 100))]
    pub benchmarks: Vec<String>,
    /// Other implementations that took turns with ours in this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 20))]
    pub peers: Vec<Peer>,
    /// Figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 5_000))]
    pub measurements: Vec<Measurement>,
    /// Benchmarks or subjects that were not measured, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub absent: Vec<Absent>,
    /// Notes that a reader needs to interpret the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 50))]
    pub notes: Vec<String>,
}

/// Where code ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// An AWS Nitro Enclave.
    Enclave,
    /// The same kind of machine without an enclave; also called native.
    #[default]
    BareMetal,
    /// The enclave's program as an ordinary process, its hardware simulated.
    Simulated,
    /// An Intel SGX enclave.
    Sgx,
    /// One part outside an enclave, one part inside.
    Hybrid,
    /// A virtual machine with encrypted memory.
    ConfidentialVm,
    /// A developer's machine.
    Development,
    /// Figures of others that a report quotes.
    Literature,
}

/// Cold start in milliseconds, in the published format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Stages {
    /// Attestation document created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub attestation_ms: Option<f64>,
    /// Key released by the KMS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub kms_key_release_ms: Option<f64>,
    /// Model fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub model_fetch_ms: Option<f64>,
    /// Model decrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub model_decrypt_ms: Option<f64>,
    /// Weights loaded into a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub model_load_ms: Option<f64>,
    /// Tokenizer built.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub tokenizer_setup_ms: Option<f64>,
    /// Total. More than the sum of the stages, because it includes the time between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cold_start_total_ms: Option<f64>,
}

/// Inference, one text at a time, in the published format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Inference {
    /// The text that was embedded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 1_000))]
    pub input_texts: Vec<String>,
    /// Measured iterations, without warm-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_iterations: Option<u64>,
    /// Milliseconds per inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Statistics>,
    /// Inferences per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub throughput_inferences_per_sec: Option<f64>,
}

/// Memory in megabytes, in the published format. It divides KiB by 1,024, so a megabyte is a MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Memory {
    /// Peak resident memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub peak_rss_mb: Option<f64>,
    /// The kernel's field: `VmHWM`, or `VmRSS` where that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub peak_rss_source: Option<String>,
    /// Peak mapped memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub peak_vmsize_mb: Option<f64>,
    /// Size of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub model_size_mb: Option<f64>,
}

/// Round trips between enclave and host, in the published format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Vsock {
    /// Milliseconds for 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub rtt_64b_ms: Option<f64>,
    /// Milliseconds for 1 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub rtt_1kb_ms: Option<f64>,
    /// Milliseconds for 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub rtt_64kb_ms: Option<f64>,
    /// Milliseconds for 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub rtt_1mb_ms: Option<f64>,
    /// Megabytes per second, under an older name that reads like megabits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub upload_throughput_mbps: Option<f64>,
    /// Megabytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub upload_throughput_mb_per_sec: Option<f64>,
}

/// Correctness of the results, in the published format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Quality {
    /// The text that was embedded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_000))]
    pub reference_text: Option<String>,
    /// Length of the embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_dim: Option<u64>,
    /// Its first eight components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 8))]
    pub embedding_first_8: Vec<f64>,
    /// SHA-256 of its little-endian float32 bytes, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub embedding_sha256: Option<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Machine {
    /// Processor model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub cpu: Option<String>,
    /// Logical processors available to the measured code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Relevant instruction sets that it supports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 64))]
    pub cpu_features: Vec<String>,
    /// Operating system and kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub os: Option<String>,
    /// Processors that other programs kept busy in the second before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub busy_processors: Option<f64>,
    /// Load average over one minute at the start of the run; older records have it instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub load_average: Option<f64>,
}

/// Details of build and process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Setup {
    /// Compute threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Allocator of the measured process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub allocator: Option<String>,
    /// Compiler and profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub build: Option<String>,
    /// Measured repetitions, unless a measurement states another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u64>,
    /// Warm-up repetitions, which are discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmups: Option<u64>,
    /// Whether the tree had uncommitted changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
}

/// Another implementation, measured in the same run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Value of the `engine` parameter of its measurements.
    #[schemars(length(min = 1, max = 80))]
    pub name: String,
    /// Its version and those of the libraries it uses.
    #[schemars(length(max = 200))]
    pub version: String,
}

/// A benchmark or subject that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// Benchmark or subject.
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9_.-]+$"))]
    pub subject: String,
    /// The reason.
    #[schemars(length(min = 1, max = 400))]
    pub why: String,
}
