import { Aggregation } from "./Aggregation";
import { ColdStart, Concurrency, Crypto, Latency, Memory, Transport } from "./Charts";
import { Compare } from "./Compare";
import { Cost } from "./Cost";
import { InputSize } from "./InputSize";
import { Overview } from "./Overview";
import { Platforms } from "./Platforms";
import { Published } from "./Published";
import type { View } from "./view";

export const VIEWS: readonly View[] = [
  {
    key: "overview",
    label: "Overview",
    lead: "Speed of one text against other implementations in the same run, the cost over time, and the guide's verdict on each enclave.",
    subjects: /^(inference\.latency|stage\.cold_start_total|memory\.peak_rss)$/,
    Content: Overview,
  },
  {
    key: "latency",
    label: "Latency",
    lead: "One text at a time. The published system pads every text to 128 tokens.",
    subjects: /^(inference\.(latency|throughput)|request\.end_to_end)$/,
    Content: Latency,
  },
  {
    key: "cold-start",
    label: "Cold start",
    lead: "Time from start to the first vector, by stage.",
    subjects: /^stage\./,
    Content: ColdStart,
  },
  {
    key: "concurrency",
    label: "Concurrency",
    lead: "Throughput and latency with several concurrent clients.",
    subjects: /^concurrency\./,
    Content: Concurrency,
  },
  {
    key: "input-size",
    label: "Input size",
    lead: "Latency by the length of the text, with a linear fit.",
    subjects: /^scaling\.latency$/,
    Content: InputSize,
  },
  {
    key: "memory",
    label: "Memory",
    lead: "Peak memory of a process, as the kernel counts it.",
    subjects: /^memory\./,
    Content: Memory,
  },
  {
    key: "transport",
    label: "Transport",
    lead: "Between host and enclave, and through attested channels.",
    subjects: /^(transport|frame)\./,
    Content: Transport,
  },
  {
    key: "crypto",
    label: "Cryptography",
    lead: "Time to seal, sign and verify, alone and within a request.",
    subjects: /^(crypto|cose|request)\./,
    Content: Crypto,
  },
  {
    key: "cost",
    label: "Cost",
    lead: "Cost of inferences, at the prices of the stated day.",
    subjects: /^cost\.(per|inferences)/,
    Content: Cost,
  },
  {
    key: "platforms",
    label: "Other platforms",
    lead: "Published overhead of inference in enclaves of other manufacturers, measured by others with other models and machines.",
    subjects: null,
    Content: Platforms,
  },
  {
    key: "aggregation",
    label: "Aggregation",
    lead: "Sums over encrypted and plain records of many devices, one round at a time.",
    subjects: /^aggregation\./,
    Content: Aggregation,
  },
  {
    key: "compare",
    label: "Compare runs",
    lead: "Every figure that two runs share, with the difference and its noise.",
    subjects: null,
    Content: Compare,
  },
  {
    key: "published",
    label: "As published",
    lead: "The tables of the reports, cell by cell, with their sources. If two reports disagree, both are listed.",
    subjects: null,
    Content: Published,
  },
];
