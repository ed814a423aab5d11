import type { Problem, ReceiptReport } from "@clearseal/verifier";
import type { Origin } from "../policy/origin";
import type { Embedding } from "./openai";

export type Outcome =
  | { readonly at: "waiting" }
  | { readonly at: "sending" }
  | { readonly at: "embedded"; readonly embedding: Embedding; readonly exchange: number }
  | { readonly at: "failed"; readonly problem: Problem };

export interface Item {
  readonly text: string;
  readonly outcome: Outcome;
}

/** The receipt of one sealed request, and the items that it covers. */
export interface Receipt {
  readonly exchange: number;
  readonly report: ReceiptReport;
  /** Origin of the policy under which the enclave was verified. */
  readonly origin: Origin | null;
  readonly items: readonly number[];
  /** The whole answer, if it came over a channel; the vectors are views of it. */
  readonly response?: Uint8Array<ArrayBuffer>;
}

export interface Work {
  readonly model: string;
  readonly items: readonly Item[];
  readonly receipts: readonly Receipt[];
}

/** All sealed requests of one press of the button. */
export type Run =
  | { readonly at: "idle" }
  | {
      readonly at: "running";
      readonly id: number;
      readonly work: Work;
      readonly sinceMs: number;
      readonly settledBefore: number;
    }
  /** Ended early: cancelled (`problem` is null), or stopped by `problem`. */
  | { readonly at: "stopped"; readonly id: number; readonly work: Work; readonly problem: Problem | null }
  /** `tookMs` is null for items that an earlier tab embedded. */
  | { readonly at: "finished"; readonly id: number; readonly work: Work; readonly tookMs: number | null };

export type RunEvent =
  | {
      readonly type: "started";
      readonly id: number;
      readonly model: string;
      readonly texts: readonly string[];
      readonly nowMs: number;
    }
  /** Items that an earlier tab embedded, or this one before a reload. Their receipts are stored separately. */
  | { readonly type: "restored"; readonly id: number; readonly kept: RestoredWork }
  /** Continues the same work: sends waiting items, and retries those in `again`. */
  | {
      readonly type: "resumed";
      readonly id: number;
      readonly again: readonly number[];
      readonly nowMs: number;
    }
  | { readonly type: "sent"; readonly id: number; readonly items: readonly number[] }
  | { readonly type: "returned"; readonly id: number; readonly items: readonly number[] }
  | {
      readonly type: "embedded";
      readonly id: number;
      readonly embeddings: readonly Embedding[];
      readonly receipt: Receipt;
    }
  | {
      readonly type: "failed";
      readonly id: number;
      readonly items: readonly number[];
      readonly problem: Problem;
    }
  | { readonly type: "ended"; readonly id: number; readonly problem: Problem | null; readonly nowMs: number };

/** Texts with their vectors; null for an item that was not embedded. */
export interface RestoredWork {
  readonly model: string;
  /** The run had ended before the reload, so that items without a vector had failed, or their vectors had no room. */
  readonly ended?: boolean;
  readonly items: readonly { readonly text: string; readonly embedding: Embedding | null }[];
}

export const IDLE: Run = { at: "idle" };

const RELOADED: Problem = {
  code: "PAGE_RELOADED",
  title: "The page was reloaded",
  detail: "That ended the run. Finished items are still here.",
  remedy: "Send the rest.",
};

const SHORTENED: Problem = {
  code: "RESULT_SHORTENED",
  title: "Part of the result is gone",
  detail: "A reload keeps only as many vectors as the tab has room for, and no failed item.",
  remedy: "Send the rest.",
};

/** Pure. An event of an earlier run changes nothing. */
export function transition(run: Run, event: RunEvent): Run {
  if (event.type === "started") {
    if (run.at === "running") return run;
    const items = event.texts.map((text): Item => ({ text, outcome: { at: "waiting" } }));
    const work = { model: event.model, items, receipts: [] };
    return { at: "running", id: event.id, work, sinceMs: event.nowMs, settledBefore: 0 };
  }
  if (event.type === "restored") {
    if (run.at !== "idle") return run;
    const items = event.kept.items.map(
      ({ text, embedding }): Item => ({
        text,
        outcome: embedding ? { at: "embedded", embedding, exchange: 0 } : { at: "waiting" },
      }),
    );
    const work = { model: event.kept.model, items, receipts: [] };
    if (indicesAt(work, "waiting").length > 0) {
      return { at: "stopped", id: event.id, work, problem: event.kept.ended ? SHORTENED : RELOADED };
    }
    return { at: "finished", id: event.id, work, tookMs: null };
  }
  if (run.at === "idle") return run;
  if (event.type === "resumed") {
    if (run.at === "running") return run;
    const work = withOutcome(run.work, event.again, { at: "waiting" });
    return { at: "running", id: event.id, work, sinceMs: event.nowMs, settledBefore: tally(work).settled };
  }
  if (run.at !== "running" || event.id !== run.id) return run;
  switch (event.type) {
    case "sent":
      return { ...run, work: withOutcome(run.work, event.items, { at: "sending" }) };
    case "returned":
      return { ...run, work: withOutcome(run.work, event.items, { at: "waiting" }) };
    case "failed":
      return { ...run, work: withOutcome(run.work, event.items, { at: "failed", problem: event.problem }) };
    case "embedded":
      return { ...run, work: embedded(run.work, event.embeddings, event.receipt) };
    case "ended": {
      const sending = indicesAt(run.work, "sending");
      const work = sending.length > 0 ? withOutcome(run.work, sending, { at: "waiting" }) : run.work;
      if (event.problem || indicesAt(work, "waiting").length > 0) {
        return { at: "stopped", id: run.id, work, problem: event.problem };
      }
      return { at: "finished", id: run.id, work, tookMs: event.nowMs - run.sinceMs };
    }
  }
}

export interface Tally {
  readonly total: number;
  readonly embedded: number;
  readonly failed: number;
  readonly waiting: number;
  /** Embedded or failed. */
  readonly settled: number;
}

export function tally(work: Work): Tally {
  let embeddedCount = 0;
  let failed = 0;
  for (const { outcome } of work.items) {
    if (outcome.at === "embedded") embeddedCount += 1;
    else if (outcome.at === "failed") failed += 1;
  }
  const settled = embeddedCount + failed;
  return {
    total: work.items.length,
    embedded: embeddedCount,
    failed,
    settled,
    waiting: work.items.length - settled,
  };
}

export interface Pace {
  /** Items per second since this run began; null until the first answer. */
  readonly rate: number | null;
  readonly leftMs: number | null;
}

export function pace(run: Extract<Run, { at: "running" }>, nowMs: number): Pace {
  const { settled, waiting } = tally(run.work);
  const done = settled - run.settledBefore;
  const elapsed = nowMs - run.sinceMs;
  if (done <= 0 || elapsed <= 0) return { rate: null, leftMs: null };
  return { rate: (done * 1000) / elapsed, leftMs: (waiting * elapsed) / done };
}

export function workOf(run: Run): Work | null {
  return run.at === "idle" ? null : run.work;
}

export function indicesAt(work: Work, at: Outcome["at"]): number[] {
  return work.items.flatMap(({ outcome }, index) => (outcome.at === at ? [index] : []));
}

/** Splits items into sealed requests of at most `MAX_BATCH_ITEMS` items and `MAX_BATCH_CHARACTERS`; a longer item is alone. */
export function batches(texts: readonly string[], indices: readonly number[]): number[][] {
  const all: number[][] = [];
  let batch: number[] = [];
  let characters = 0;
  for (const index of indices) {
    const length = texts[index]?.length ?? 0;
    const full = batch.length >= MAX_BATCH_ITEMS || characters + length > MAX_BATCH_CHARACTERS;
    if (full && batch.length > 0) {
      all.push(batch);
      batch = [];
      characters = 0;
    }
    batch.push(index);
    characters += length;
  }
  if (batch.length > 0) all.push(batch);
  return all;
}

/**
 * More items go over a channel. A channel costs two round trips before the first text, where a sealed request costs none. Each
 * of its answers then saves an encapsulation, and saves the page a megabyte of JSON and base64 per 500 vectors. Up to eight
 * sealed requests, the user does not notice the difference.
 */
export const MAX_SEALED_ITEMS = 256;

export const MAX_BATCH_ITEMS = 32;
export const MAX_BATCH_CHARACTERS = 128 * 1024;
/** A longer text is not sent: a request may have no room for it, and an enclave takes 64 KiB of one text. */
export const MAX_ITEM_CHARACTERS = 256 * 1024;

function withOutcome(work: Work, indices: readonly number[], outcome: Outcome): Work {
  const items = work.items.slice();
  for (const index of indices) {
    const item = items[index];
    if (item) items[index] = { ...item, outcome };
  }
  return { ...work, items };
}

function embedded(work: Work, embeddings: readonly Embedding[], receipt: Receipt): Work {
  const items = work.items.slice();
  for (const [place, index] of receipt.items.entries()) {
    const item = items[index];
    const embedding = embeddings[place];
    if (item && embedding) {
      items[index] = { ...item, outcome: { at: "embedded", embedding, exchange: receipt.exchange } };
    }
  }
  return { ...work, items, receipts: [...work.receipts, receipt] };
}
