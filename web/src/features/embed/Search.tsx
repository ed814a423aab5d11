import { useCallback, useId, useMemo, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { count } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import "../../ui/refusals.css";
import { useSliced } from "../../ui/slices";
import "../../ui/text-box.css";
import "../../ui/choice.css";
import type { EmbeddedItem } from "./item";
import { Ranking } from "./Neighbours";
import { Rescoring } from "./Rescoring";
import { CutBadge } from "./Truncation";
import "./search.css";
import { RESCORED, type SearchStore } from "./search-store";
import { ranked } from "./vectors";

const SHOWN = 10;
const NOTHING = new Float32Array(0);

interface SearchProps {
  readonly items: readonly EmbeddedItem[];
  readonly searches: SearchStore;
  /** Model that embedded the items. */
  readonly of: string;
  /** Model of the open session; null while nothing can be sent. */
  readonly model: string | null;
  /** Model that scores pairs; null if the service has none. */
  readonly reranker: string | null;
  readonly onSelect: (place: number) => void;
}

/** Ranks the embedded items by their similarity to a query. */
export function Search({ items, searches, of, model, reranker, onSelect }: SearchProps) {
  const id = useId();
  const search = useSyncExternalStore(searches.subscribe, searches.get);
  const [query, setQuery] = useState("");
  const [again, setAgain] = useState(false);
  const vectors = useMemo(() => items.map(({ vector }) => vector), [items]);
  const found = search.at === "found" ? search.vector : NOTHING;
  const rank = useCallback(() => ranked(found === NOTHING ? [] : vectors, found, SHOWN), [found, vectors]);
  const closest = useSliced(rank) ?? [];
  const ready = model === of && query.trim() !== "" && search.at !== "asking";
  return (
    <search className="search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!ready) return;
          const texts = items.map(({ text }) => text);
          void searches.ask(
            of,
            query,
            again && reranker !== null ? { model: reranker, texts, vectors } : null,
          );
        }}
      >
        <label className="text-label" htmlFor={id}>
          Search these {count(items.length)} texts by meaning
        </label>
        <div className="search-line">
          <input
            id={id}
            type="search"
            className="search-box"
            dir="auto"
            value={query}
            spellCheck={false}
            autoComplete="off"
            maxLength={4_000}
            aria-describedby={`${id}-note`}
            onChange={(event) => setQuery(event.target.value)}
          />
          <button type="submit" className="button button-plain" disabled={!ready}>
            {search.at === "asking" ? "Searching" : "Search"}
          </button>
        </div>
        {reranker !== null && (
          <label className="small choice">
            <input type="checkbox" checked={again} onChange={(event) => setAgain(event.target.checked)} />
            <span>
              Rerank the nearest {RESCORED} with {reranker}.{" "}
              <span className="muted">It reads the query and each text together, sealed as before.</span>
            </span>
          </label>
        )}
      </form>
      <p id={`${id}-note`} className="muted tiny">
        {describeQuery(of, model)}
      </p>
      <div role="status">
        {search.at === "failed" && (
          <p className="refusal">
            <strong>{search.problem.title}.</strong>{" "}
            <Prose text={`${search.problem.detail} ${search.problem.remedy}`} />{" "}
            <code>{search.problem.code}</code>
          </p>
        )}
        {search.at === "found" && (
          <>
            <p className="search-found small">
              Nearest to “<bdi>{search.query}</bdi>” {search.truncated && <CutBadge />}
              {search.sequence !== null && (
                <span className="muted"> receipt no. {count(search.sequence)}</span>
              )}
              <Button kind="quiet" icon="cross" iconOnly onClick={searches.clear}>
                Clear the search
              </Button>
            </p>
            {search.rescored && <Rescoring rescored={search.rescored} items={items} onSelect={onSelect} />}
            {search.rescored?.at !== "scored" && (
              <Ranking items={items} closest={closest} onSelect={onSelect} />
            )}
          </>
        )}
      </div>
    </search>
  );
}

/** States where a query against vectors of model `of` goes. `model` is that of the open session; null without one. */
export function describeQuery(of: string, model: string | null): string {
  if (model === null) return "Waits for the seal: the query is sealed, as the texts were.";
  if (model === of) return "The query is sealed, as the texts were; this tab ranks the items.";
  return `The model of these vectors is ${of}; the service now runs ${model}. Vectors of two models cannot be compared. Embed the texts again to search them.`;
}
