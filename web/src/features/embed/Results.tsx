import { useMemo, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { download } from "../../ui/download";
import { moment, plural } from "../../ui/format";
import { type Tab, Tabs } from "../../ui/Tabs";
import type { SealStore } from "../attestation/seal-store";
import { CutNote } from "./Cut";
import { toCsv, toJson, toNpy } from "./export";
import { ItemMap } from "./ItemMap";
import type { KeptStore } from "./kept-store";
import { Matrix } from "./Matrix";
import { Neighbours } from "./Neighbours";
import { ReceiptPanel } from "./ReceiptPanel";
import { type Run, type Work, workOf } from "./run";
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
  const items = useMemo(() => embeddedItems(work), [work]);
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
      <CutNote items={items} />
      {!single && <Search items={items} searches={searches} model={model} onSelect={onSelect} />}
      {single ? <VectorsTable items={items} /> : <Tabs label="Views of the result" tabs={views} />}
      <Export work={work} items={items} />
      <Keep kept={kept} />
      <ReceiptPanel receipts={work.receipts} store={store} />
    </>
  );
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
  return (
    <fieldset className="export">
      <legend className="visually-hidden">Export</legend>
      <span className="muted small">Save {plural(items.length, "vector")} as</span>
      <Button
        icon="download"
        onClick={() => {
          const receipts = work.receipts.map(({ report }) => report);
          download("embeddings.json", "application/json", toJson(work.model, items, receipts));
        }}
      >
        JSON
      </Button>
      <Button icon="download" onClick={() => download("embeddings.csv", "text/csv", toCsv(items))}>
        CSV
      </Button>
      <Button
        icon="download"
        onClick={() => download("embeddings.npy", "application/octet-stream", toNpy(items))}
      >
        .npy
      </Button>
    </fieldset>
  );
}

function Keep({ kept }: { kept: KeptStore }) {
  const { stored, problem } = useSyncExternalStore(kept.subscribe, kept.get);
  return (
    <>
      <label className="small bundle-choice keep">
        <input type="checkbox" checked={stored} onChange={(event) => void kept.store(event.target.checked)} />
        <span>
          Keep these texts and vectors in this browser when the tab closes.{" "}
          <span className="muted">
            Anyone who uses this browser can then read them. Otherwise they go with the tab.
          </span>
        </span>
      </label>
      <p role="alert" className="small history-problem">
        {problem}
      </p>
    </>
  );
}

function embeddedItems(work: Work | null): EmbeddedItem[] {
  return (work?.items ?? []).flatMap(({ text, outcome }, index) =>
    outcome.at === "embedded" ? [{ index, text, ...outcome.embedding }] : [],
  );
}

function sameTexts(work: Work, texts: readonly string[]): boolean {
  return work.items.length === texts.length && work.items.every(({ text }, index) => text === texts[index]);
}
