// Generated from benchmarks/src/record.rs: cargo run --package benchmarks -- --types. Do not edit.

/** Records are read-only. */
type Immutable<T> = T extends object ? { readonly [Key in keyof T]: Immutable<T[Key]> } : T;

/**
 * A benchmark or subject that was not measured.
 */
export type Absent = Immutable<{ 
/**
 * Benchmark or subject.
 */
subject: string, 
/**
 * The reason.
 */
why: string, }>;

/**
 * One run: what was measured, where, how, and how often.
 */
export type BenchmarkRecord = Immutable<{ 
/**
 * Where the code ran.
 */
environment: Environment, 
/**
 * Model by its usual name; absent if no model was involved.
 */
model?: string, 
/**
 * Parameters of the model.
 */
model_params?: number, 
/**
 * Machine, by its provider's name.
 */
hardware?: string, 
/**
 * When: RFC 3339, a date, a year and month, or Unix seconds followed by `Z`.
 */
timestamp?: string, 
/**
 * Commit of the code that ran.
 */
commit?: string, 
/**
 * Cold start, stage by stage.
 */
stages?: Stages, 
/**
 * Inference, one text at a time.
 */
inference?: Inference, 
/**
 * Memory of the process.
 */
memory?: Memory, 
/**
 * Round trips between enclave and host.
 */
vsock?: Vsock, 
/**
 * Whether the results are correct.
 */
quality?: Quality, 
/**
 * Short name, unique in its file: `[a-z0-9-]`.
 */
id?: string, 
/**
 * Title for people.
 */
title?: string, 
/**
 * Source of the figures; absent for a run of the file's owner.
 */
source?: string, 
/**
 * Details of the machine.
 */
machine?: Machine, 
/**
 * Details of build and process.
 */
setup?: Setup, 
/**
 * Benchmarks that ran, by the names that `--only` takes.
 */
benchmarks?: Array<string>, 
/**
 * Other implementations that took turns with ours in this run.
 */
peers?: Array<Peer>, 
/**
 * Figures.
 */
measurements?: Array<Measurement>, 
/**
 * Benchmarks or subjects that were not measured, with the reason.
 */
absent?: Array<Absent>, 
/**
 * Notes that a reader needs to interpret the figures.
 */
notes?: Array<string>, }>;

/**
 * The direction in which a figure should move.
 */
export type Better = Immutable<"lower" | "higher" | "neither">;

/**
 * Place of a figure in the report.
 */
export type Cite = Immutable<{ 
/**
 * Identifier of the [`Table`].
 */
table?: string, 
/**
 * Row and column in the table, from 0, for each statistic, and for `said`.
 */
cells?: { [key in string]: [number, number] }, 
/**
 * Index of the [`Statement`], where the figure is in a sentence.
 */
statement?: number, 
/**
 * Number of the [`Reference`] that the report names as its source.
 */
reference?: number, }>;

/**
 * A parameter by its name (`environment` means the record's environment), and the test of its value.
 */
export type Condition = Immutable<[string, Test]>;

/**
 * Kind of quantity that a unit counts. Figures of one subject are comparable when they share it.
 */
export type Dimension = Immutable<"time" | "size" | "bandwidth" | "rate" | "percent" | "ratio" | "money" | "count" | "any">;

/**
 * Where code ran.
 */
export type Environment = Immutable<"enclave" | "bare_metal" | "simulated" | "sgx" | "hybrid" | "confidential_vm" | "development" | "literature">;

/**
 * Layouts of a [`RecordFile`].
 */
export type Format = Immutable<"clearseal.benchmarks/1">;

/**
 * The guide's steps for one figure.
 */
export type Guide = Immutable<{ 
/**
 * Subject that is judged.
 */
subject: string, 
/**
 * For people.
 */
title: string, 
/**
 * Unit of the bounds.
 */
unit: Unit, 
/**
 * Steps, rising.
 */
thresholds: Array<Threshold>, }>;

/**
 * Inference, one text at a time, in the published format.
 */
export type Inference = Immutable<{ 
/**
 * The text that was embedded.
 */
input_texts?: Array<string>, 
/**
 * Measured iterations, without warm-ups.
 */
num_iterations?: number, 
/**
 * Milliseconds per inference.
 */
latency_ms?: Statistics, 
/**
 * Inferences per second.
 */
throughput_inferences_per_sec?: number, }>;

/**
 * A machine.
 */
export type Machine = Immutable<{ 
/**
 * Processor model.
 */
cpu?: string, 
/**
 * Logical processors available to the measured code.
 */
vcpus?: number, 
/**
 * Memory in MiB.
 */
memory_mib?: number, 
/**
 * Relevant instruction sets that it supports.
 */
cpu_features?: Array<string>, 
/**
 * Operating system and kernel.
 */
os?: string, 
/**
 * Processors that other programs kept busy in the second before the run.
 */
busy_processors?: number, 
/**
 * Load average over one minute at the start of the run; older records have it instead.
 */
load_average?: number, }>;

/**
 * One figure, or the statistics of one sample.
 */
export type Measurement = Immutable<{ 
/**
 * Subject, by its name in [`crate::catalogue`]: `inference.latency`. Other names are allowed.
 */
subject: string, 
/**
 * Conditions: `tokens`, `payload_bytes`, `clients`, `engine`.
 */
parameters?: { [key in string]: Parameter }, 
/**
 * Unit of every number in `statistics`; absent where they have none.
 */
unit?: Unit, 
/**
 * The numbers.
 */
statistics?: Statistics, 
/**
 * Qualifies a number that is not an exact figure.
 */
qualifier?: Qualifier, 
/**
 * The source's words where it gives no number.
 */
said?: string, 
/**
 * Place in the report.
 */
cite?: Cite, 
/**
 * Notes that a reader needs to interpret this figure.
 */
note?: string, 
/**
 * The repetitions themselves, where several implementations took turns.
 */
turns?: Turns, }>;

/**
 * Memory in megabytes, in the published format. It divides KiB by 1,024, so a megabyte is a MiB.
 */
export type Memory = Immutable<{ 
/**
 * Peak resident memory.
 */
peak_rss_mb?: number, 
/**
 * The kernel's field: `VmHWM`, or `VmRSS` where that is missing.
 */
peak_rss_source?: string, 
/**
 * Peak mapped memory.
 */
peak_vmsize_mb?: number, 
/**
 * Size of the weights.
 */
model_size_mb?: number, }>;

/**
 * Value of a parameter.
 */
export type Parameter = Immutable<number | string>;

/**
 * Another implementation, measured in the same run.
 */
export type Peer = Immutable<{ 
/**
 * Value of the `engine` parameter of its measurements.
 */
name: string, 
/**
 * Its version and those of the libraries it uses.
 */
version: string, }>;

/**
 * A field of the published format, and the measurement that it represents.
 */
export type PublishedField = Immutable<{ 
/**
 * Section of the record.
 */
section: "stages" | "inference" | "memory" | "vsock" | "quality", 
/**
 * Field in the section.
 */
field: string, 
/**
 * Subject of the measurement.
 */
subject: string, 
/**
 * Unit in the field's name.
 */
unit: Unit, 
/**
 * Payload size in the field's name.
 */
payload_bytes: number | null, }>;

/**
 * Qualifies a number that is not an exact figure.
 */
export type Qualifier = Immutable<"about" | "up_to" | "more_than" | "less_than" | "estimated" | "derived">;

/**
 * Correctness of the results, in the published format.
 */
export type Quality = Immutable<{ 
/**
 * The text that was embedded.
 */
reference_text?: string, 
/**
 * Length of the embedding.
 */
embedding_dim?: number, 
/**
 * Its first eight components.
 */
embedding_first_8?: Array<number>, 
/**
 * SHA-256 of its little-endian float32 bytes, in hexadecimal.
 */
embedding_sha256?: string, }>;

/**
 * Records together with the report that published them.
 */
export type RecordFile = Immutable<{ 
/**
 * Version of this layout.
 */
format: Format, 
/**
 * The report that published the figures; absent for your own run.
 */
report?: Report, 
/**
 * The report's tables, verbatim.
 */
tables?: Array<Table>, 
/**
 * The figures as data.
 */
records: Array<BenchmarkRecord>, }>;

/**
 * A work that a report cites.
 */
export type Reference = Immutable<{ 
/**
 * Number in the report's own list.
 */
number: number, 
/**
 * Author, title, place and date.
 */
work: string, 
/**
 * Where it is found.
 */
url: string, }>;

/**
 * A published report.
 */
export type Report = Immutable<{ 
/**
 * Short name in file names and links: `[a-z0-9-]`.
 */
id: string, 
/**
 * Its own title.
 */
title: string, 
/**
 * Date of the measurement, as the report states it; absent if it does not.
 */
date?: string, 
/**
 * Figures that appear in sentences rather than in tables.
 */
statements?: Array<Statement>, 
/**
 * Works that the report cites.
 */
references?: Array<Reference>, }>;

/**
 * Decides when two figures of one subject do not measure the same thing.
 */
export type Rule = Immutable<{ 
/**
 * Prefixes of the subjects; empty: all subjects.
 */
subjects: Array<string>, 
/**
 * Conditions on our figure.
 */
ours: Array<Condition>, 
/**
 * Conditions on the published figure.
 */
theirs: Array<Condition>, 
/**
 * The difference, for people; absent: nothing differs, whatever later rules say.
 */
reason: string | null, }>;

/**
 * The tables by which figures are compared.
 */
export type Rules = Immutable<{ 
/**
 * Parameters that distinguish published runs and that ours do not have.
 */
theirs_alone: Array<string>, 
/**
 * Their transports that are not available here, and what is measured instead. [`unlike`](Self::unlike) states the
 * difference.
 */
stand_ins: Array<[string, string]>, 
/**
 * How their sessions are attested, and the nearest equivalent of ours.
 */
proofs: Array<[string, string]>, 
/**
 * Decides among figures that fit equally well; the first counts most.
 */
preferences: Array<Condition>, 
/**
 * The first rule that fits decides.
 */
unlike: Array<Rule>, 
/**
 * Why we have no such figure, where the run does not state a reason; the first rule that fits decides.
 */
absent: Array<Rule>, }>;

/**
 * Details of build and process.
 */
export type Setup = Immutable<{ 
/**
 * Compute threads.
 */
threads?: number, 
/**
 * Allocator of the measured process.
 */
allocator?: string, 
/**
 * Compiler and profile.
 */
build?: string, 
/**
 * Measured repetitions, unless a measurement states another number.
 */
repetitions?: number, 
/**
 * Warm-up repetitions, which are discarded.
 */
warmups?: number, 
/**
 * Whether the tree had uncommitted changes.
 */
dirty?: boolean, }>;

/**
 * Cold start in milliseconds, in the published format.
 */
export type Stages = Immutable<{ 
/**
 * Attestation document created.
 */
attestation_ms?: number, 
/**
 * Key released by the KMS.
 */
kms_key_release_ms?: number, 
/**
 * Model fetched.
 */
model_fetch_ms?: number, 
/**
 * Model decrypted.
 */
model_decrypt_ms?: number, 
/**
 * Weights loaded into a model.
 */
model_load_ms?: number, 
/**
 * Tokenizer built.
 */
tokenizer_setup_ms?: number, 
/**
 * Total. More than the sum of the stages, because it includes the time between them.
 */
cold_start_total_ms?: number, }>;

/**
 * A figure in a sentence of a report.
 */
export type Statement = Immutable<{ 
/**
 * Heading above it.
 */
heading: string, 
/**
 * The quoted sentence.
 */
quote: string, }>;

/**
 * Statistics of a sample. Percentiles are by nearest rank.
 */
export type Statistics = Immutable<{ 
/**
 * The figure, where the source does not state which statistic it is, or where it was counted rather than sampled.
 */
value?: number, 
/**
 * Arithmetic mean.
 */
mean?: number, 
/**
 * Median.
 */
p50?: number, 
/**
 * 95th percentile.
 */
p95?: number, 
/**
 * 99th percentile.
 */
p99?: number, 
/**
 * Smallest.
 */
min?: number, 
/**
 * Largest.
 */
max?: number, 
/**
 * Standard deviation of the sample.
 */
stddev?: number, 
/**
 * Bounds of the 95 % confidence interval of the mean.
 */
ci95?: [number, number], 
/**
 * Size of the sample.
 */
samples?: number, }>;

/**
 * A quantity that can be measured.
 */
export type Subject = Immutable<{ 
/**
 * Name in records.
 */
name: string, 
/**
 * Name for people.
 */
title: string, 
/**
 * Dimension of its figures.
 */
dimension: Dimension, 
/**
 * Which way is better.
 */
better: Better, }>;

/**
 * A table as published. A test checks that every cell with a figure is cited by a [`Measurement`] and agrees with it.
 */
export type Table = Immutable<{ 
/**
 * Unique in its file: `[a-z0-9-]`.
 */
id: string, 
/**
 * Heading above it in the report.
 */
heading: string, 
/**
 * Kind of its cells.
 */
kind: TableKind, 
/**
 * Names of its columns.
 */
columns: Array<string>, 
/**
 * Columns, counted from 0, that identify a row and are parameters of its figures.
 */
keys?: Array<number> | null, 
/**
 * Cells, without markup.
 */
rows: Array<Array<string>>, }>;

/**
 * Kind of a [`Table`].
 */
export type TableKind = Immutable<"figures" | "description" | "guide" | "literature">;

/**
 * A test of a parameter's value.
 */
export type Test = Immutable<{ "is": Array<string> } | { "has": string } | { "lacks": string } | { "begins": Array<string> }>;

/**
 * A step of the guide: from `from` up to the next step.
 */
export type Threshold = Immutable<{ 
/**
 * Lower bound, included, in the guide's unit; infinite, and `null` in JSON, means no bound.
 */
from: number | null, 
/**
 * The guide's word, or ours where the guide has a gap.
 */
verdict: string, 
/**
 * The guide's reason, or that it gives none.
 */
why: string, 
/**
 * Severity: 0 fine, 1 look closer, 2 a problem; 3 where the guide is silent.
 */
grade: number, }>;

/**
 * Repetitions in order. Figures with the same `id` and the same number of repetitions were taken turn by turn: disturbances of
 * the machine affected all of them alike, so their differences can be computed pair by pair.
 */
export type Turns = Immutable<{ 
/**
 * Unique per run, benchmark and set of conditions.
 */
id: string, 
/**
 * One figure per turn, in the measurement's unit. Rounded to six significant digits: no clock here is more precise, and a
 * run has a hundred thousand figures.
 */
sample: Array<number>, }>;

/**
 * Units. The published reports mix decimal and binary prefixes; a record keeps what was published.
 */
export type Unit = Immutable<"ns" | "us" | "ms" | "s" | "B" | "MB" | "MiB" | "MB/s" | "GB/s" | "MiB/s" | "GiB/s" | "TiB/s" | "inferences/s" | "percent" | "ratio" | "USD" | "count">;

/**
 * A unit's dimension and factor.
 */
export type UnitEntry = Immutable<{ dimension: Dimension, 
/**
 * Base units of the dimension: milliseconds, bytes, bytes per second.
 */
factor: number, }>;

/**
 * Round trips between enclave and host, in the published format.
 */
export type Vsock = Immutable<{ 
/**
 * Milliseconds for 64 bytes.
 */
rtt_64b_ms?: number, 
/**
 * Milliseconds for 1 KiB.
 */
rtt_1kb_ms?: number, 
/**
 * Milliseconds for 64 KiB.
 */
rtt_64kb_ms?: number, 
/**
 * Milliseconds for 1 MiB.
 */
rtt_1mb_ms?: number, 
/**
 * Megabytes per second, under an older name that reads like megabits.
 */
upload_throughput_mbps?: number, 
/**
 * Megabytes per second.
 */
upload_throughput_mb_per_sec?: number, }>;

export const FIELDS: Readonly<Record<string, readonly string[]>> = {
  "": ["absent","benchmarks","commit","environment","hardware","id","inference","machine","measurements","memory","model","model_params","notes","peers","quality","setup","source","stages","timestamp","title","vsock"],
  "inference": ["input_texts","latency_ms","num_iterations","throughput_inferences_per_sec"],
  "memory": ["model_size_mb","peak_rss_mb","peak_rss_source","peak_vmsize_mb"],
  "quality": ["embedding_dim","embedding_first_8","embedding_sha256","reference_text"],
  "stages": ["attestation_ms","cold_start_total_ms","kms_key_release_ms","model_decrypt_ms","model_fetch_ms","model_load_ms","tokenizer_setup_ms"],
  "vsock": ["rtt_1kb_ms","rtt_1mb_ms","rtt_64b_ms","rtt_64kb_ms","upload_throughput_mb_per_sec","upload_throughput_mbps"],
};

export const SCHEMA: object = {
  "$defs": {"Absent":{"additionalProperties":false,"properties":{"subject":{"maxLength":80,"minLength":1,"pattern":"^[a-z0-9_.-]+$","type":"string"},"why":{"maxLength":400,"minLength":1,"type":"string"}},"required":["subject","why"],"type":"object"},"Cite":{"additionalProperties":false,"properties":{"cells":{"additionalProperties":{"items":{"minimum":0,"type":"integer"},"maxItems":2,"minItems":2,"type":"array"},"maxProperties":16,"type":"object"},"reference":{"minimum":0,"type":"integer"},"statement":{"minimum":0,"type":"integer"},"table":{"maxLength":80,"type":"string"}},"type":"object"},"Environment":{"enum":["enclave","bare_metal","simulated","sgx","hybrid","confidential_vm","development","literature"],"type":"string"},"Format":{"enum":["clearseal.benchmarks/1"],"type":"string"},"Inference":{"properties":{"input_texts":{"items":{"type":"string"},"maxItems":1000,"type":"array"},"latency_ms":{"$ref":"#/$defs/Statistics"},"num_iterations":{"minimum":0,"type":"integer"},"throughput_inferences_per_sec":{"minimum":0,"type":"number"}},"type":"object"},"Machine":{"additionalProperties":false,"properties":{"busy_processors":{"minimum":0,"type":"number"},"cpu":{"maxLength":200,"type":"string"},"cpu_features":{"items":{"type":"string"},"maxItems":64,"type":"array"},"load_average":{"minimum":0,"type":"number"},"memory_mib":{"minimum":0,"type":"integer"},"os":{"maxLength":200,"type":"string"},"vcpus":{"minimum":0,"type":"integer"}},"type":"object"},"Measurement":{"additionalProperties":false,"properties":{"cite":{"$ref":"#/$defs/Cite"},"note":{"maxLength":400,"type":"string"},"parameters":{"additionalProperties":{"$ref":"#/$defs/Parameter"},"maxProperties":16,"type":"object"},"qualifier":{"$ref":"#/$defs/Qualifier"},"said":{"maxLength":400,"type":"string"},"statistics":{"$ref":"#/$defs/Statistics"},"subject":{"maxLength":80,"minLength":1,"pattern":"^[a-z0-9_]+(\\.[a-z0-9_]+)*$","type":"string"},"turns":{"$ref":"#/$defs/Turns"},"unit":{"$ref":"#/$defs/Unit"}},"required":["subject"],"type":"object"},"Memory":{"properties":{"model_size_mb":{"minimum":0,"type":"number"},"peak_rss_mb":{"minimum":0,"type":"number"},"peak_rss_source":{"maxLength":40,"type":"string"},"peak_vmsize_mb":{"minimum":0,"type":"number"}},"type":"object"},"Parameter":{"maxLength":200,"type":["number","string"]},"Peer":{"additionalProperties":false,"properties":{"name":{"maxLength":80,"minLength":1,"type":"string"},"version":{"maxLength":200,"type":"string"}},"required":["name","version"],"type":"object"},"Qualifier":{"enum":["about","up_to","more_than","less_than","estimated","derived"],"type":"string"},"Quality":{"properties":{"embedding_dim":{"minimum":0,"type":"integer"},"embedding_first_8":{"items":{"type":"number"},"maxItems":8,"type":"array"},"embedding_sha256":{"maxLength":128,"type":"string"},"reference_text":{"maxLength":4000,"type":"string"}},"type":"object"},"Record":{"properties":{"absent":{"items":{"$ref":"#/$defs/Absent"},"maxItems":200,"type":"array"},"benchmarks":{"items":{"type":"string"},"maxItems":100,"type":"array"},"commit":{"maxLength":80,"type":"string"},"environment":{"$ref":"#/$defs/Environment"},"hardware":{"maxLength":200,"type":"string"},"id":{"maxLength":80,"minLength":1,"pattern":"^[a-z0-9-]+$","type":"string"},"inference":{"$ref":"#/$defs/Inference"},"machine":{"$ref":"#/$defs/Machine"},"measurements":{"items":{"$ref":"#/$defs/Measurement"},"maxItems":5000,"type":"array"},"memory":{"$ref":"#/$defs/Memory"},"model":{"maxLength":200,"type":"string"},"model_params":{"minimum":0,"type":"integer"},"notes":{"items":{"type":"string"},"maxItems":50,"type":"array"},"peers":{"items":{"$ref":"#/$defs/Peer"},"maxItems":20,"type":"array"},"quality":{"$ref":"#/$defs/Quality"},"setup":{"$ref":"#/$defs/Setup"},"source":{"maxLength":200,"type":"string"},"stages":{"$ref":"#/$defs/Stages"},"timestamp":{"maxLength":40,"pattern":"^([0-9]{1,12}Z|[0-9]{4}-[0-9]{2}(-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))?)?)$","type":"string"},"title":{"maxLength":200,"type":"string"},"vsock":{"$ref":"#/$defs/Vsock"}},"required":["environment"],"type":"object"},"Reference":{"additionalProperties":false,"properties":{"number":{"minimum":0,"type":"integer"},"url":{"maxLength":400,"pattern":"^https://","type":"string"},"work":{"maxLength":400,"type":"string"}},"required":["number","work","url"],"type":"object"},"Report":{"additionalProperties":false,"properties":{"date":{"maxLength":80,"type":"string"},"id":{"maxLength":80,"minLength":1,"pattern":"^[a-z0-9-]+$","type":"string"},"references":{"items":{"$ref":"#/$defs/Reference"},"maxItems":200,"type":"array"},"statements":{"items":{"$ref":"#/$defs/Statement"},"maxItems":200,"type":"array"},"title":{"maxLength":200,"type":"string"}},"required":["id","title"],"type":"object"},"Setup":{"additionalProperties":false,"properties":{"allocator":{"maxLength":80,"type":"string"},"build":{"maxLength":200,"type":"string"},"dirty":{"type":"boolean"},"repetitions":{"minimum":0,"type":"integer"},"threads":{"minimum":0,"type":"integer"},"warmups":{"minimum":0,"type":"integer"}},"type":"object"},"Stages":{"properties":{"attestation_ms":{"minimum":0,"type":"number"},"cold_start_total_ms":{"minimum":0,"type":"number"},"kms_key_release_ms":{"minimum":0,"type":"number"},"model_decrypt_ms":{"minimum":0,"type":"number"},"model_fetch_ms":{"minimum":0,"type":"number"},"model_load_ms":{"minimum":0,"type":"number"},"tokenizer_setup_ms":{"minimum":0,"type":"number"}},"type":"object"},"Statement":{"additionalProperties":false,"properties":{"heading":{"maxLength":200,"type":"string"},"quote":{"maxLength":400,"type":"string"}},"required":["heading","quote"],"type":"object"},"Statistics":{"additionalProperties":false,"properties":{"ci95":{"items":{"type":"number"},"maxItems":2,"minItems":2,"type":"array"},"max":{"type":"number"},"mean":{"type":"number"},"min":{"type":"number"},"p50":{"type":"number"},"p95":{"type":"number"},"p99":{"type":"number"},"samples":{"minimum":0,"type":"integer"},"stddev":{"minimum":0,"type":"number"},"value":{"type":"number"}},"type":"object"},"Table":{"additionalProperties":false,"properties":{"columns":{"items":{"type":"string"},"maxItems":20,"minItems":1,"type":"array"},"heading":{"maxLength":200,"type":"string"},"id":{"maxLength":80,"minLength":1,"pattern":"^[a-z0-9-]+$","type":"string"},"keys":{"items":{"minimum":0,"type":"integer"},"maxItems":20,"type":"array"},"kind":{"$ref":"#/$defs/TableKind"},"rows":{"items":{"items":{"type":"string"},"type":"array"},"maxItems":1000,"type":"array"}},"required":["id","heading","kind","columns","rows"],"type":"object"},"TableKind":{"enum":["figures","description","guide","literature"],"type":"string"},"Turns":{"additionalProperties":false,"properties":{"id":{"maxLength":200,"minLength":1,"type":"string"},"sample":{"items":{"type":"number"},"maxItems":1000,"type":"array"}},"required":["id","sample"],"type":"object"},"Unit":{"enum":["ns","us","ms","s","B","MB","MiB","MB/s","GB/s","MiB/s","GiB/s","TiB/s","inferences/s","percent","ratio","USD","count"],"type":"string"},"Vsock":{"properties":{"rtt_1kb_ms":{"minimum":0,"type":"number"},"rtt_1mb_ms":{"minimum":0,"type":"number"},"rtt_64b_ms":{"minimum":0,"type":"number"},"rtt_64kb_ms":{"minimum":0,"type":"number"},"upload_throughput_mb_per_sec":{"minimum":0,"type":"number"},"upload_throughput_mbps":{"minimum":0,"type":"number"}},"type":"object"}},
  "additionalProperties": false,
  "properties": {"format":{"$ref":"#/$defs/Format"},"records":{"items":{"$ref":"#/$defs/Record"},"maxItems":20000,"type":"array"},"report":{"$ref":"#/$defs/Report"},"tables":{"items":{"$ref":"#/$defs/Table"},"maxItems":200,"type":"array"}},
  "required": ["format","records"],
  "type": "object",
};

export const SUBJECTS: readonly Subject[] = [
  {"better":"lower","dimension":"time","name":"inference.latency","title":"Inference"},
  {"better":"higher","dimension":"rate","name":"inference.throughput","title":"Inferences, one at a time"},
  {"better":"lower","dimension":"time","name":"peers.latency","title":"Inference of other implementations"},
  {"better":"higher","dimension":"percent","name":"peers.of_peak","title":"Arithmetic, of what the processor can do"},
  {"better":"lower","dimension":"percent","name":"overhead","title":"Overhead"},
  {"better":"lower","dimension":"percent","name":"share","title":"Share of a whole"},
  {"better":"lower","dimension":"any","name":"difference","title":"Difference"},
  {"better":"lower","dimension":"time","name":"stage.launch","title":"Process launch"},
  {"better":"lower","dimension":"time","name":"stage.attestation","title":"Attestation"},
  {"better":"lower","dimension":"time","name":"stage.key_release","title":"Key release"},
  {"better":"lower","dimension":"time","name":"stage.model_fetch","title":"Model fetch"},
  {"better":"lower","dimension":"time","name":"stage.model_decrypt","title":"Model decryption"},
  {"better":"lower","dimension":"time","name":"stage.model_load","title":"Model load"},
  {"better":"lower","dimension":"time","name":"stage.tokenizer_setup","title":"Tokenizer"},
  {"better":"lower","dimension":"time","name":"stage.cold_start_total","title":"Cold start in all"},
  {"better":"lower","dimension":"time","name":"load.ready","title":"Sealed model to ready engine"},
  {"better":"lower","dimension":"ratio","name":"load.over_bound","title":"Sealed model to ready engine, of the slower of transport and cipher"},
  {"better":"lower","dimension":"size","name":"memory.start_peak","title":"Peak resident memory at readiness"},
  {"better":"lower","dimension":"ratio","name":"memory.start_ratio","title":"The same above a server without a model, of the weights"},
  {"better":"lower","dimension":"size","name":"memory.peak_rss","title":"Peak resident memory"},
  {"better":"higher","dimension":"count","name":"documents.rate","title":"Clients that get a document, a second"},
  {"better":"higher","dimension":"percent","name":"documents.success","title":"Requests for a document that were answered with one"},
  {"better":"lower","dimension":"time","name":"documents.latency","title":"From asking for a document to having it"},
  {"better":"neither","dimension":"count","name":"documents.sharing","title":"Clients that share a document"},
  {"better":"higher","dimension":"ratio","name":"documents.speedup","title":"Clients a second with shared documents, of those with their own"},
  {"better":"higher","dimension":"percent","name":"hostile.success","title":"Honest requests answered during an attack"},
  {"better":"lower","dimension":"time","name":"hostile.latency","title":"An honest request during an attack"},
  {"better":"lower","dimension":"ratio","name":"hostile.slowdown","title":"Honest median during an attack, relative to without"},
  {"better":"neither","dimension":"count","name":"hostile.attempts","title":"Requests or connections of an attack"},
  {"better":"neither","dimension":"count","name":"hostile.answered","title":"Requests of an attack that were answered with success"},
  {"better":"lower","dimension":"size","name":"hostile.memory","title":"Memory during an attack"},
  {"better":"lower","dimension":"size","name":"memory.peak_vmsize","title":"Peak mapped memory"},
  {"better":"neither","dimension":"size","name":"memory.model_size","title":"Size of the weights"},
  {"better":"neither","dimension":"count","name":"quality.embedding_dim","title":"Length of the embedding"},
  {"better":"higher","dimension":"ratio","name":"quality.cosine","title":"Cosine to the reference"},
  {"better":"lower","dimension":"ratio","name":"quality.max_abs_diff","title":"Largest difference of a component"},
  {"better":"higher","dimension":"percent","name":"quality.identical_runs","title":"Runs with identical bytes"},
  {"better":"lower","dimension":"time","name":"precision.latency","title":"Inference with smaller weights"},
  {"better":"higher","dimension":"ratio","name":"precision.cosine","title":"Least cosine to f32"},
  {"better":"higher","dimension":"ratio","name":"precision.cosine_mean","title":"Mean cosine to f32"},
  {"better":"lower","dimension":"size","name":"precision.weights","title":"Weights in memory"},
  {"better":"lower","dimension":"time","name":"transport.rtt","title":"Round trip"},
  {"better":"higher","dimension":"bandwidth","name":"transport.throughput","title":"Throughput"},
  {"better":"lower","dimension":"time","name":"transport.handshake","title":"Handshake"},
  {"better":"lower","dimension":"time","name":"transport.handshake_amortised","title":"Handshake, spread over requests"},
  {"better":"lower","dimension":"time","name":"transport.handshake_attestation","title":"Attestation within the handshake"},
  {"better":"higher","dimension":"ratio","name":"transport.handshake_ratio","title":"Handshake against TLS 1.3"},
  {"better":"lower","dimension":"time","name":"transport.first_message","title":"Handshake and first message"},
  {"better":"lower","dimension":"time","name":"transport.reconnect","title":"Teardown and reconnect"},
  {"better":"neither","dimension":"ratio","name":"transport.reconnect_ratio","title":"Against a fresh handshake"},
  {"better":"lower","dimension":"time","name":"transport.per_message","title":"Transport of a message"},
  {"better":"lower","dimension":"ratio","name":"transport.rtt_ratio","title":"Round trip against plaintext"},
  {"better":"lower","dimension":"time","name":"transport.steady_state_overhead","title":"Overhead of a request"},
  {"better":"lower","dimension":"time","name":"frame.latency","title":"Frame codec"},
  {"better":"higher","dimension":"bandwidth","name":"frame.throughput","title":"Frame codec, throughput"},
  {"better":"lower","dimension":"time","name":"crypto.hpke_setup","title":"HPKE set-up, both sides"},
  {"better":"lower","dimension":"time","name":"crypto.x25519_keygen","title":"X25519 key pair"},
  {"better":"lower","dimension":"time","name":"crypto.xwing_keygen","title":"X-Wing key pair"},
  {"better":"lower","dimension":"time","name":"crypto.hpke_encrypt","title":"HPKE encrypt"},
  {"better":"lower","dimension":"time","name":"crypto.hpke_decrypt","title":"HPKE decrypt"},
  {"better":"lower","dimension":"time","name":"crypto.ed25519_keygen","title":"Ed25519 key pair"},
  {"better":"lower","dimension":"time","name":"crypto.ed25519_sign","title":"Ed25519 sign"},
  {"better":"lower","dimension":"time","name":"crypto.ed25519_verify","title":"Ed25519 verify"},
  {"better":"lower","dimension":"time","name":"crypto.receipt_sign","title":"Receipt signed"},
  {"better":"lower","dimension":"time","name":"crypto.receipt_verify","title":"Receipt verified"},
  {"better":"lower","dimension":"time","name":"crypto.per_inference_budget","title":"Cryptography of an inference"},
  {"better":"lower","dimension":"time","name":"crypto.aead_seal","title":"AEAD seal"},
  {"better":"lower","dimension":"time","name":"crypto.aead_open","title":"AEAD open"},
  {"better":"higher","dimension":"bandwidth","name":"crypto.aead_throughput","title":"AEAD, throughput"},
  {"better":"lower","dimension":"time","name":"cose.signature","title":"COSE signature"},
  {"better":"lower","dimension":"time","name":"cose.chain","title":"Certificate chain"},
  {"better":"lower","dimension":"time","name":"cose.cbor","title":"CBOR payload"},
  {"better":"lower","dimension":"time","name":"cose.full","title":"Document verified"},
  {"better":"lower","dimension":"time","name":"request.crypto","title":"Cryptography of a request"},
  {"better":"lower","dimension":"time","name":"request.session_setup","title":"Session set-up"},
  {"better":"lower","dimension":"time","name":"request.tcp_handshake","title":"TCP handshake with HPKE"},
  {"better":"lower","dimension":"time","name":"request.end_to_end","title":"Request, end to end"},
  {"better":"lower","dimension":"time","name":"request.tokenization","title":"Text to tokens"},
  {"better":"lower","dimension":"time","name":"request.inference_only","title":"Inference alone"},
  {"better":"lower","dimension":"time","name":"request.crypto_overhead","title":"Request without its inference"},
  {"better":"higher","dimension":"rate","name":"concurrency.throughput","title":"Throughput under load"},
  {"better":"lower","dimension":"time","name":"concurrency.latency","title":"Latency under load"},
  {"better":"higher","dimension":"percent","name":"concurrency.efficiency","title":"Scaling efficiency"},
  {"better":"lower","dimension":"time","name":"scaling.latency","title":"Inference by length"},
  {"better":"lower","dimension":"time","name":"scaling.intercept","title":"Fit: intercept"},
  {"better":"lower","dimension":"time","name":"scaling.slope","title":"Fit: a token"},
  {"better":"lower","dimension":"time","name":"process.cpu_time","title":"Processor time of a request"},
  {"better":"lower","dimension":"count","name":"process.page_faults","title":"Page faults of a request"},
  {"better":"lower","dimension":"count","name":"process.context_switches","title":"Context switches of a request"},
  {"better":"lower","dimension":"money","name":"cost.hourly_price","title":"Price of an hour"},
  {"better":"higher","dimension":"count","name":"cost.inferences_per_hour","title":"Inferences in an hour"},
  {"better":"lower","dimension":"money","name":"cost.per_thousand","title":"A thousand inferences"},
  {"better":"lower","dimension":"money","name":"cost.per_million","title":"A million inferences"},
  {"better":"lower","dimension":"ratio","name":"cost.multiplier","title":"Cost against bare metal"},
  {"better":"lower","dimension":"percent","name":"platform.overhead","title":"Overhead on a platform"},
  {"better":"lower","dimension":"ratio","name":"platform.slowdown","title":"Slowdown on a platform"},
  {"better":"lower","dimension":"ratio","name":"platform.cost_ratio","title":"Cost on a platform"},
  {"better":"lower","dimension":"time","name":"aggregation.setup","title":"Set-up"},
  {"better":"lower","dimension":"time","name":"aggregation.decrypt_sum","title":"Decrypt and sum"},
  {"better":"lower","dimension":"time","name":"aggregation.final","title":"Final"},
  {"better":"lower","dimension":"time","name":"aggregation.read","title":"Read"},
  {"better":"lower","dimension":"time","name":"aggregation.sum","title":"Sum"},
  {"better":"lower","dimension":"time","name":"aggregation.lookup","title":"Lookup"},
  {"better":"lower","dimension":"time","name":"aggregation.total","title":"A round in all"},
  {"better":"neither","dimension":"any","name":"slo.target","title":"Target"},
  {"better":"neither","dimension":"any","name":"claim","title":"Claim"},
];

export const UNITS: Readonly<Record<Unit, UnitEntry>> = {
  "B": {"dimension":"size","factor":1.0},
  "GB/s": {"dimension":"bandwidth","factor":1000000000.0},
  "GiB/s": {"dimension":"bandwidth","factor":1073741824.0},
  "MB": {"dimension":"size","factor":1000000.0},
  "MB/s": {"dimension":"bandwidth","factor":1000000.0},
  "MiB": {"dimension":"size","factor":1048576.0},
  "MiB/s": {"dimension":"bandwidth","factor":1048576.0},
  "TiB/s": {"dimension":"bandwidth","factor":1099511627776.0},
  "USD": {"dimension":"money","factor":1.0},
  "count": {"dimension":"count","factor":1.0},
  "inferences/s": {"dimension":"rate","factor":1.0},
  "ms": {"dimension":"time","factor":1.0},
  "ns": {"dimension":"time","factor":1e-6},
  "percent": {"dimension":"percent","factor":1.0},
  "ratio": {"dimension":"ratio","factor":1.0},
  "s": {"dimension":"time","factor":1000.0},
  "us": {"dimension":"time","factor":0.001},
};

export const PUBLISHED: readonly PublishedField[] = [
  {"field":"attestation_ms","payload_bytes":null,"section":"stages","subject":"stage.attestation","unit":"ms"},
  {"field":"kms_key_release_ms","payload_bytes":null,"section":"stages","subject":"stage.key_release","unit":"ms"},
  {"field":"model_fetch_ms","payload_bytes":null,"section":"stages","subject":"stage.model_fetch","unit":"ms"},
  {"field":"model_decrypt_ms","payload_bytes":null,"section":"stages","subject":"stage.model_decrypt","unit":"ms"},
  {"field":"model_load_ms","payload_bytes":null,"section":"stages","subject":"stage.model_load","unit":"ms"},
  {"field":"tokenizer_setup_ms","payload_bytes":null,"section":"stages","subject":"stage.tokenizer_setup","unit":"ms"},
  {"field":"cold_start_total_ms","payload_bytes":null,"section":"stages","subject":"stage.cold_start_total","unit":"ms"},
  {"field":"latency_ms","payload_bytes":null,"section":"inference","subject":"inference.latency","unit":"ms"},
  {"field":"throughput_inferences_per_sec","payload_bytes":null,"section":"inference","subject":"inference.throughput","unit":"inferences/s"},
  {"field":"peak_rss_mb","payload_bytes":null,"section":"memory","subject":"memory.peak_rss","unit":"MB"},
  {"field":"peak_vmsize_mb","payload_bytes":null,"section":"memory","subject":"memory.peak_vmsize","unit":"MB"},
  {"field":"model_size_mb","payload_bytes":null,"section":"memory","subject":"memory.model_size","unit":"MB"},
  {"field":"rtt_64b_ms","payload_bytes":64,"section":"vsock","subject":"transport.rtt","unit":"ms"},
  {"field":"rtt_1kb_ms","payload_bytes":1024,"section":"vsock","subject":"transport.rtt","unit":"ms"},
  {"field":"rtt_64kb_ms","payload_bytes":65536,"section":"vsock","subject":"transport.rtt","unit":"ms"},
  {"field":"rtt_1mb_ms","payload_bytes":1048576,"section":"vsock","subject":"transport.rtt","unit":"ms"},
  {"field":"upload_throughput_mbps","payload_bytes":null,"section":"vsock","subject":"transport.throughput","unit":"MB/s"},
  {"field":"upload_throughput_mb_per_sec","payload_bytes":null,"section":"vsock","subject":"transport.throughput","unit":"MB/s"},
  {"field":"embedding_dim","payload_bytes":null,"section":"quality","subject":"quality.embedding_dim","unit":"count"},
];

export const GUIDES: readonly Guide[] = [
  {"subject":"inference.latency","thresholds":[{"from":null,"grade":0,"verdict":"Excellent","why":"below 5 %: SGX and TDX on one socket do no better"},{"from":5.0,"grade":0,"verdict":"Good","why":"5 to 10 %: what GPU enclaves and other CPU enclaves take"},{"from":10.0,"grade":1,"verdict":"Acceptable","why":"10 to 15 %: on par with BERT under AMD SEV-SNP"},{"from":15.0,"grade":2,"verdict":"Investigate","why":"15 % or more: look at the socket and at memory pressure in the enclave"}],"title":"Inference overhead","unit":"percent"},
  {"subject":"stage.cold_start_total","thresholds":[{"from":null,"grade":0,"verdict":"Competitive","why":"below 5 s: containers of library operating systems take minutes"},{"from":5.0,"grade":1,"verdict":"Acceptable","why":"5 to 15 s: fine where sessions are long"},{"from":15.0,"grade":3,"verdict":"No verdict","why":"the guide says nothing between 15 and 30 s"},{"from":30.0,"grade":2,"verdict":"Problem","why":"30 s or more: look at the image's size and at how the model is fetched"}],"title":"Cold start","unit":"s"},
  {"subject":"memory.peak_rss","thresholds":[{"from":null,"grade":0,"verdict":"Normal","why":"below 15 %: the enclave's runtime and its keys"},{"from":15.0,"grade":3,"verdict":"No verdict","why":"the guide says nothing between 15 and 30 %"},{"from":30.0,"grade":2,"verdict":"Investigate","why":"30 % or more: a leak, or the model held twice"}],"title":"Memory overhead","unit":"percent"},
];

export const RULES: Rules = {
  "absent": [{"ours":[],"reason":"the security module is simulated","subjects":["stage.attestation"],"theirs":[]},{"ours":[],"reason":"AWS's key service is simulated, and its time says nothing of a network","subjects":["stage.key_release"],"theirs":[]},{"ours":[],"reason":"a request is sealed by itself, without a handshake","subjects":["request.tcp_handshake"],"theirs":[]},{"ours":[],"reason":"follows from a round trip over vsock, and from inference in a real enclave","subjects":["overhead"],"theirs":[["of",{"is":["transport.per_message"]}]]},{"ours":[],"reason":"only --contenders measures TLS 1.3, and this run has no such figure","subjects":["transport."],"theirs":[["transport",{"has":"TLS"}]]},{"ours":[],"reason":"the benchmark `transport` measures such figures, and this run has none of this kind","subjects":["transport."],"theirs":[]},{"ours":[],"reason":"the run has no comparable process outside an enclave","subjects":["memory."],"theirs":[]},{"ours":[],"reason":"what it follows from was not measured","subjects":["overhead","share","difference","slo."],"theirs":[]},{"ours":[],"reason":"it compares an enclave with bare metal, and no enclave was rented","subjects":["cost.multiplier"],"theirs":[]},{"ours":[],"reason":"the run has no price (--price; the page's view Cost takes one too), or no throughput at 128 tokens","subjects":["cost."],"theirs":[]},{"ours":[],"reason":"a claim, whose figures are in the tables below","subjects":["claim"],"theirs":[]},{"ours":[],"reason":"it needs hardware that is not available here","subjects":["platform."],"theirs":[]},{"ours":[],"reason":"not part of this run","subjects":[],"theirs":[]}],
  "preferences": [["tokens",{"is":["128"]}],["engine",{"begins":["fused-f32","clearseal"]}],["process",{"begins":["enclave-server"]}],["codec",{"begins":["channel"]}],["against",{"lacks":""}],["kind",{"lacks":"X-Wing"}],["threads",{"is":["2"]}],["attestation",{"lacks":"document"}],["curve",{"lacks":"P-384"}],["certificates",{"is":["3"]}],["certificates",{"is":["4"]}],["mode",{"lacks":"sound"}]],
  "proofs": [["mock","endorsed key"],["nitro","document, simulated"]],
  "stand_ins": [["vsock","unix"],["secure channel over vsock","secure channel over unix"]],
  "theirs_alone": ["padded","attestation","study","platform"],
  "unlike": [{"ours":[["transport",{"lacks":"vsock"}]],"reason":"theirs crosses vsock between a host and a real enclave, ours stays on one machine","subjects":[],"theirs":[["transport",{"has":"vsock"}]]},{"ours":[],"reason":"theirs follows from a real enclave behind vsock, ours from a Unix socket","subjects":["transport.per_message","transport.handshake_amortised"],"theirs":[]},{"ours":[["attestation",{"has":"endorsed key"}]],"reason":"theirs verifies no signature (mock attestation), ours that of an endorsed key","subjects":["transport.handshake","transport.first_message","transport.reconnect"],"theirs":[]},{"ours":[["codec",{"has":"Binary HTTP"}]],"reason":"theirs is a frame, ours an HTTP message with its padding","subjects":["frame.latency","frame.throughput"],"theirs":[]},{"ours":[],"reason":"ours starts processes on a running machine and reads the model from its disk; theirs boots an enclave and fetches the model from storage through the host","subjects":["stage."],"theirs":[["environment",{"lacks":"bare_metal"}]]},{"ours":[["process",{"has":"sealed model"}]],"reason":"ours opens a sealed model in stages that overlap, with a key from a simulated KMS; theirs runs one stage after the other","subjects":["stage."],"theirs":[]},{"ours":[],"reason":"ours reads a model in the clear from its disk and checks its hashes; theirs reads an encrypted one","subjects":["stage."],"theirs":[]},{"ours":[],"reason":"ours makes keys; theirs attests and sets a channel up","subjects":["request.session_setup"],"theirs":[]},{"ours":[],"reason":"ours is the cryptography of one sealed request; theirs is what was measured around a channel that stays open","subjects":["request.crypto"],"theirs":[]},{"ours":[["certificates",{"lacks":"3"}]],"reason":"theirs checks a chain of three certificates, ours a longer one","subjects":["cose.chain","cose.full"],"theirs":[]},{"ours":[],"reason":"ours is an ordinary process, theirs the process of an enclave with another engine","subjects":["memory.peak"],"theirs":[]},{"ours":[],"reason":"a price is that of one machine on one day","subjects":["cost.hourly_price","cost.per_thousand","cost.per_million"],"theirs":[]},{"ours":[],"reason":null,"subjects":["quality.","memory.model_size"],"theirs":[]},{"ours":[["environment",{"is":["simulated"]}]],"reason":"one ran in an enclave, the other is simulated: an ordinary process","subjects":[],"theirs":[["environment",{"is":["enclave","sgx","hybrid","confidential_vm"]}]]},{"ours":[["environment",{"is":["enclave","sgx","hybrid","confidential_vm"]}]],"reason":"one ran in an enclave, the other is simulated: an ordinary process","subjects":[],"theirs":[["environment",{"is":["simulated"]}]]}],
};

export const STUDENT: readonly number[] = [
  12.706,
  4.303,
  3.182,
  2.776,
  2.571,
  2.447,
  2.365,
  2.306,
  2.262,
  2.228,
  2.201,
  2.179,
  2.16,
  2.145,
  2.131,
  2.12,
  2.11,
  2.101,
  2.093,
  2.086,
  2.08,
  2.074,
  2.069,
  2.064,
  2.06,
  2.056,
  2.052,
  2.048,
  2.045,
  2.042,
];

export const ENVIRONMENTS: Readonly<Record<Environment, string>> = {
  "bare_metal": "bare metal",
  "confidential_vm": "confidential VM",
  "development": "development machine",
  "enclave": "Nitro enclave",
  "hybrid": "hybrid",
  "literature": "literature",
  "sgx": "Intel SGX",
  "simulated": "simulated enclave",
};

