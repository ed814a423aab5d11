import type { ComponentType } from "react";
import type { Run, Source } from "../runs";
import { Aggregation } from "./Aggregation";
import { ColdStart, Concurrency, Crypto, Latency, Memory, Transport } from "./Charts";
import { Compare } from "./Compare";
import { Cost } from "./Cost";
import { InputSize } from "./InputSize";
import { Overview } from "./Overview";
import { Platforms } from "./Platforms";
import { Published } from "./Published";

export interface ViewProps {
  /** Runs to show. */
  readonly runs: readonly Run[];
  /** Every run there is. */
  readonly all: readonly Run[];
  readonly sources: readonly Source[];
}

export interface View {
  readonly key: string;
  readonly label: string;
  readonly lead: string;
  /** Subjects that it shows; runs with one of them are offered. Nothing where the view chooses for itself. */
  readonly subjects: RegExp | null;
  readonly Content: ComponentType<ViewProps>;
}

export const VIEWS: readonly View[] = [
  {
    key: "overview",
    label: "Overview",
    lead: "What one text takes on each machine, what others published, and what the guide says of each enclave.",
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
    lead: "From nothing to the first vector, as a stack of stages.",
    subjects: /^stage\./,
    Content: ColdStart,
  },
  {
    key: "concurrency",
    label: "Concurrency",
    lead: "What more clients at once bring, and what they cost each one.",
    subjects: /^concurrency\./,
    Content: Concurrency,
  },
  {
    key: "input-size",
    label: "Input size",
    lead: "Latency against the length of the text, with the straight line that fits best.",
    subjects: /^scaling\.latency$/,
    Content: InputSize,
  },
  {
    key: "memory",
    label: "Memory",
    lead: "The most that a process held at once, as the kernel counts it.",
    subjects: /^memory\./,
    Content: Memory,
  },
  {
    key: "transport",
    label: "Transport",
    lead: "Between host and enclave, and through channels that attest themselves.",
    subjects: /^(transport|frame)\./,
    Content: Transport,
  },
  {
    key: "crypto",
    label: "Cryptography",
    lead: "What sealing, signing and verifying take, alone and within a request.",
    subjects: /^(crypto|cose|request)\./,
    Content: Crypto,
  },
  {
    key: "cost",
    label: "Cost",
    lead: "Money for inferences, with the prices of the day.",
    subjects: /^cost\.(per|inferences)/,
    Content: Cost,
  },
  {
    key: "platforms",
    label: "Other platforms",
    lead: "Overhead of inference in enclaves of other makers, as published. Other models, other machines, other people.",
    subjects: null,
    Content: Platforms,
  },
  {
    key: "aggregation",
    label: "Aggregation",
    lead: "Sums over encrypted and plain records of many devices, a round at a time.",
    subjects: /^aggregation\./,
    Content: Aggregation,
  },
  {
    key: "compare",
    label: "Two runs",
    lead: "Every figure that two runs share, with the difference and its noise.",
    subjects: null,
    Content: Compare,
  },
  {
    key: "published",
    label: "As published",
    lead: "The tables of the reports, cell by cell, with their sources. Where two reports disagree, both stand.",
    subjects: null,
    Content: Published,
  },
];
