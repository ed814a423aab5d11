import { useMemo, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import "../../ui/choice.css";
import { downloadBlob } from "../../ui/download";
import { count, moment, plural } from "../../ui/format";
import { inSlices, type Sliced } from "../../ui/slices";
import { type Tab, Tabs } from "../../ui/Tabs";
import type { SealStore } from "../attestation/seal-store";
import { toCsv, toJson, toNpy } from "./export";
import { ItemMap } from "./ItemMap";
import type { EmbeddedItem } from "./item";
import { type KeptStore, MAX_KEPT_ITEMS } from "./kept-store";
import { Matrix } from "./Matrix";
import { Neighbours } from "./Neighbours";
import { ReceiptPanel } from "./ReceiptPanel";
import { CutNote } from "./Truncation";
import "./results.css";
import { MAX_SEALED_ITEMS, type Run, tally, type Work, workOf } from "./run";
import { Search } from "./Search";
import type { SearchStore } from "./search-store";
import { VectorsTable } from "./VectorsTable";

interface ResultsProps {
  readonly run: Run;
  /** Texts in the input now, to report when the results belong to other texts. */
  readonly texts: readonly string[];
  readonly store: SealStore;
  readonly searches: SearchStore;
  readonly kept: KeptStore;
  /** Model of the open session; null while nothing can be sent. */
  readonly model: string | null;
  /** Model that scores pairs; null if the service has none. */
  readonly reranker: string | null;
  readonly selected: number;
  readonly onSelect: (place: number) => void;
}

export function Results(props: ResultsProps) {
  const { run, texts, store, searches, kept, model, reranker, selected, onSelect } = props;
  const { fromMs, ownTab } = useSyncExternalStore(kept.subscribe, kept.get);
  const work = workOf(run);
  const items = useShownItems(run);
  if (!work || items.length === 0) return <Empty running={run.at === "running"} />;
  const at = Math.min(selected, items.length - 1);
  const changed = run.at !== "running" && (fromMs === null || ownTab) && !sameTexts(work, texts);
  const views: Tab[] = [
    {
      key: "similarity",
      label: "Similarity",
      content: () => (
        <>
          <Matrix items={items} selected={at} onSelect={onSelect} />
          <Neighbours items={items} selected={at} onSelect={onSelect} />
        </>
      ),
    },
    { key: "map", label: "Map", content: () => <ItemMap items={items} selected={at} onSelect={onSelect} /> },
    { key: "vectors", label: "Vectors", content: () => <VectorsTable items={items} /> },
  ];
  const single = items.length === 1;
  return (
    <>
      {changed && (
        <p className="changed small">
          The text has changed since. These results belong to the text that was sent.
        </p>
      )}
      {fromMs !== null && (
        <p className="changed small">
          Kept in this browser since {moment(fromMs)}.{!ownTab && " This tab has sent none of it."}
        </p>
      )}
      {run.at === "running" && items.length === SHOWN_WHILE_RUNNING && (
        <p className="changed small">
          These are the first {count(items.length)} items. All of them appear when the run ends.
        </p>
      )}
      <CutNote items={items} />
      {!single && (
        <Search
          items={items}
          searches={searches}
          of={work.model}
          model={model}
          reranker={reranker}
          onSelect={onSelect}
        />
      )}
      {single ? <VectorsTable items={items} /> : <Tabs label="Views of the result" tabs={views} />}
      <Export work={work} items={items} />
      {work.items.length <= MAX_KEPT_ITEMS ? (
        <Keep kept={kept} />
      ) : (
        <p className="muted small keep">
          The browser keeps at most {count(MAX_KEPT_ITEMS)} items. Closing this tab discards these: save them
          as a file.
        </p>
      )}
      <ReceiptPanel receipts={work.receipts} store={store} />
    </>
  );
}

/** Items of a large run that are shown before it ends: each further answer would redraw everything. */
const SHOWN_WHILE_RUNNING = MAX_SEALED_ITEMS;

/** Items of a run to show; the same array until they change. */
function useShownItems(run: Run): readonly EmbeddedItem[] {
  const work = workOf(run);
  const part = run.at === "running" && run.work.items.length > SHOWN_WHILE_RUNNING;
  const key = part && work && tally(work).embedded >= SHOWN_WHILE_RUNNING ? run.id : work;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the beginning of a run stays as it is
  return useMemo(() => embeddedItems(work, part ? SHOWN_WHILE_RUNNING : undefined), [key, part]);
}

function Empty({ running }: { running: boolean }) {
  return (
    <div className="empty">
      <EmptyPicture />
      <p>
        {running
          ? "Waiting for the first vectors."
          : "The result shows the similarity of your items, a map of them, their vectors, and the enclave's signed receipt for each request."}
      </p>
    </div>
  );
}

/** Outline of a similarity matrix, without values. */
function EmptyPicture() {
  const cells = Array.from({ length: 36 }, (_, at) => ({ row: Math.floor(at / 6), column: at % 6 }));
  return (
    <svg className="empty-picture" viewBox="0 0 96 96" aria-hidden="true">
      {cells.map(({ row, column }) => (
        <rect
          key={`${row}-${column}`}
          x={column * 16 + 0.5}
          y={row * 16 + 0.5}
          width="15"
          height="15"
          data-diagonal={row === column}
        />
      ))}
    </svg>
  );
}

function Export({ work, items }: { work: Work; items: readonly EmbeddedItem[] }) {
  const [busy, setBusy] = useState<{ readonly name: string; readonly percent: number } | null>(null);
  const save = async (name: string, make: (written: (rows: number) => void) => Sliced<Blob>) => {
    setBusy({ name, percent: 0 });
    const written = (rows: number) => setBusy({ name, percent: Math.floor((rows * 100) / items.length) });
    downloadBlob(`embeddings.${name}`, await inSlices(make(written)));
    setBusy(null);
  };
  const receipts = () => work.receipts.map(({ report }) => report);
  const files: [string, string, (written: (rows: number) => void) => Sliced<Blob>][] = [
    ["JSON", "json", (written) => toJson(work.model, items, receipts(), written)],
    ["CSV", "csv", (written) => toCsv(items, written)],
    [".npy", "npy", (written) => toNpy(items, written)],
  ];
  return (
    <fieldset className="export">
      <legend className="visually-hidden">Export</legend>
      <span className="muted small">Save {plural(items.length, "vector")} as</span>
      {files.map(([label, name, make]) => (
        <Button key={name} icon="download" disabled={busy !== null} onClick={() => void save(name, make)}>
          {label}
        </Button>
      ))}
      <span role="status" className="muted small number">
        {busy && busy.percent < 100 && `Writing embeddings.${busy.name}, ${busy.percent} %`}
      </span>
    </fieldset>
  );
}

function Keep({ kept }: { kept: KeptStore }) {
  const { stored, problem } = useSyncExternalStore(kept.subscribe, kept.get);
  return (
    <>
      <label className="small choice keep">
        <input type="checkbox" checked={stored} onChange={(event) => void kept.store(event.target.checked)} />
        <span>
          Keep these texts and vectors in this browser when the tab closes.{" "}
          <span className="muted">
            Anyone who uses this browser can then read them. Otherwise, closing the tab discards them.
          </span>
        </span>
      </label>
      <p role="alert" className="small keep-problem">
        {problem}
      </p>
    </>
  );
}

function embeddedItems(work: Work | null, most = Number.POSITIVE_INFINITY): EmbeddedItem[] {
  const items: EmbeddedItem[] = [];
  for (const [index, { text, outcome }] of (work?.items ?? []).entries()) {
    if (items.length >= most) break;
    if (outcome.at !== "embedded") continue;
    const { vector, tokens, truncated } = outcome.embedding;
    items.push({ index, text, vector, tokens, truncated });
  }
  return items;
}

function sameTexts(work: Work, texts: readonly string[]): boolean {
  return work.items.length === texts.length && work.items.every(({ text }, index) => text === texts[index]);
}
