//! What a benchmark file holds.
//!
//! A file is one [`Record`], a list of them, or a [`RecordFile`] with the report that they come from. The first eleven
//! fields of a record, down to `quality`, are the published JSON format of the reports under `reference/`; whoever has
//! such a file can read it here. Everything else is ours and optional.

mod measurement;
mod source;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

pub use measurement::{Cite, Measurement, Parameter, Qualifier, Statistics, Turns, Unit};
pub use source::{Reference, Report, Statement, Table, TableKind};

/// Records together with the report that published them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct RecordFile {
    /// Version of this layout.
    pub format: Format,
    /// Where the figures were published; absent for a run of one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// The report's tables as they stand there.
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

/// One run: what was measured, where, with what, how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields, rename = "BenchmarkRecord")]
pub struct Record {
    /// Where the code ran.
    pub environment: Environment,
    /// Model, by its usual name; absent where none was involved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub model: Option<String>,
    /// Parameters of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_params: Option<u64>,
    /// Machine by the name under which one rents it.
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
    /// Inference of one text at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference: Option<Inference>,
    /// What the process took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Between enclave and host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsock: Option<Vsock>,
    /// Whether the numbers that come out are right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,

    /// Short name, unique in its file: `[a-z0-9-]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9-]+$"))]
    pub id: Option<String>,
    /// What a reader should call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub title: Option<String>,
    /// Whose figures these are; absent for a run of the file's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub source: Option<String>,
    /// The machine in more words than its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Build and process.
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
    /// What was meant to be measured and could not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 200))]
    pub absent: Vec<Absent>,
    /// What a reader must know to judge the figures.
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
    /// A machine on a developer's desk.
    Development,
    /// Figures of others that a report collects.
    Literature,
}

/// Cold start in milliseconds, as the published format has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Stages {
    /// Attestation document made.
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
    /// Weights made into a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub model_load_ms: Option<f64>,
    /// Tokenizer built.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub tokenizer_setup_ms: Option<f64>,
    /// All of it; more than the sum, because what lies between the stages counts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cold_start_total_ms: Option<f64>,
}

/// Inference of one text at a time, as the published format has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Inference {
    /// What was embedded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 1_000))]
    pub input_texts: Vec<String>,
    /// Measured iterations, warm-ups left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_iterations: Option<u64>,
    /// Milliseconds an inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Statistics>,
    /// Inferences a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub throughput_inferences_per_sec: Option<f64>,
}

/// Memory in megabytes, as the published format has it. It divides KiB by 1,024, so a megabyte is a MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Memory {
    /// Most that was resident.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub peak_rss_mb: Option<f64>,
    /// Where the kernel says so: `VmHWM`, or `VmRSS` where that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub peak_rss_source: Option<String>,
    /// Most that was mapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub peak_vmsize_mb: Option<f64>,
    /// The weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub model_size_mb: Option<f64>,
}

/// Round trips between enclave and host, as the published format has it.
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
    /// Megabytes a second, by an older name that reads like megabits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub upload_throughput_mbps: Option<f64>,
    /// Megabytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub upload_throughput_mb_per_sec: Option<f64>,
}

/// Whether what comes out is right, as the published format has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(optional_fields)]
pub struct Quality {
    /// What was embedded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_000))]
    pub reference_text: Option<String>,
    /// Length of the embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_dim: Option<u64>,
    /// Its first eight numbers.
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
    /// Processor, as it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub cpu: Option<String>,
    /// Logical processors that the measured code could use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Instruction sets that matter here and that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[ts(as = "Option<_>")]
    #[schemars(length(max = 64))]
    pub cpu_features: Vec<String>,
    /// Operating system and kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub os: Option<String>,
    /// Processors that others kept busy in the second before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub busy_processors: Option<f64>,
    /// Load average over a minute when the run began, which records of before have instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub load_average: Option<f64>,
}

/// Build and process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
#[ts(optional_fields)]
pub struct Setup {
    /// Threads that compute.
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
    /// Measured repetitions unless a measurement says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u64>,
    /// Repetitions before them that were thrown away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmups: Option<u64>,
    /// The tree had changes that no commit holds.
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
    /// Its version and those of what it stands on.
    #[schemars(length(max = 200))]
    pub version: String,
}

/// What was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// Benchmark or subject.
    #[schemars(length(min = 1, max = 80), regex(pattern = r"^[a-z0-9_.-]+$"))]
    pub subject: String,
    /// Why not.
    #[schemars(length(min = 1, max = 400))]
    pub why: String,
}
