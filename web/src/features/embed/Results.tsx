import { useMemo, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import "../../ui/choice.css";
import { downloadBlob } from "../../ui/download";
import { count, moment, plural } from "../../ui/format";
import { inSlices, type Sliced } from "../../ui/slices";
import { type Tab, Tabs } from "../../ui/Tabs";
import type { SealStore } from "../attestation/seal-store";
import { CutNote } from "./Cut";
import { toCsv, toJson, toNpy } from "./export";
import { ItemMap } from "./ItemMap";
import { type KeptStore, MOST_KEPT_ITEMS } from "./kept-store";
import { Matrix } from "./Matrix";
import { Neighbours } from "./Neighbours";
import { ReceiptPanel } from "./ReceiptPanel";
import "./results.css";
import { MAX_SEALED_ITEMS, type Run, tally, type Work, workOf } from "./run";
import { Search } from "./Search";
import type { SearchStore } from "./search-store";
import { VectorsTable } from "./VectorsTable";

export interface EmbeddedItem {
  /** Place among all items of the run, from 0. */
  readonly index: number;
  readonly text: string;
  readonly vector: Float32Array;
  readonly tokens: number | null;
  readonly truncated: boolean | null;
}

interface ResultsProps {
  readonly run: Run;
  /** What the text box holds now, to say when the results are of something else. */
  readonly texts: readonly string[];
  readonly store: SealStore;
  readonly searches: SearchStore;
  readonly kept: KeptStore;
  /** Model of the open session; null while nothing can be sent. */
  readonly model: string | null;
  readonly selected: number;
  readonly onSelect: (place: number) => void;
}

export function Results(props: ResultsProps) {
  const { run, texts, store, searches, kept, model, selected, onSelect } = props;
  const { fromMs } = useSyncExternalStore(kept.subscribe, kept.get);
  const work = workOf(run);
  const items = useShown(run);
  if (!work || items.length === 0) return <Empty running={run.at === "running"} />;
  const at = Math.min(selected, items.length - 1);
  const changed = run.at !== "running" && fromMs === null && !sameTexts(work, texts);
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
          The text has changed since. These results are of what was sent before.
        </p>
      )}
      {fromMs !== null && (
        <p className="changed small">
          Kept in this browser since {moment(fromMs)}. Nothing of it was sent now.
        </p>
      )}
      {run.at === "running" && items.length === SHOWN_WHILE_RUNNING && (
        <p className="changed small">
          The first {count(items.length)} items. All of them are here when the run ends.
        </p>
      )}
      <CutNote items={items} />
      {!single && (
        <Search items={items} searches={searches} of={work.model} model={model} onSelect={onSelect} />
      )}
      {single ? <VectorsTable items={items} /> : <Tabs label="Views of the result" tabs={views} />}
      <Export work={work} items={items} />
      {work.items.length <= MOST_KEPT_ITEMS ? (
        <Keep kept={kept} />
      ) : (
        <p className="muted small keep">
          More than {count(MOST_KEPT_ITEMS)} items are never kept in the browser: they go with the tab. Save
          them as a file.
        </p>
      )}
      <ReceiptPanel receipts={work.receipts} store={store} />
    </>
  );
}

/** So many items of a large run are shown before it ends: each answer more would draw everything again. */
const SHOWN_WHILE_RUNNING = MAX_SEALED_ITEMS;

/** What is shown of a run; the same array until that changes. */
function useShown(run: Run): readonly EmbeddedItem[] {
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
          ? "The first vectors are on their way."
          : "Here you will see how alike your items are, a map of them, the vectors themselves, and the enclave's signed receipt for each request."}
      </p>
    </div>
  );
}

/** The outline of a similarity picture: what will be here, without pretending to be data. */
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
            Anyone who uses this browser can then read them. Otherwise they go with the tab.
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
