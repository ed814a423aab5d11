import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { type Sliced, useSliced } from "../../ui/slices";
import { SealPanel } from "../attestation/SealPanel";
import { face, open } from "../attestation/seal";
import type { SealStore } from "../attestation/seal-store";
import { History } from "../history/History";
import type { HistoryStore } from "../history/history-store";
import "./embed.css";
import { type Input, itemsOf } from "./input";
import type { KeptStore } from "./kept-store";
import { describeLength } from "./length";
import { ModelChoice } from "./ModelChoice";
import { embeddingModel, type ModelsStore } from "./models-store";
import { Progress } from "./Progress";
import { Results } from "./Results";
import { workOf } from "./run";
import type { RunStore } from "./run-store";
import { blockedBy, Submit } from "./Submit";
import type { SearchStore } from "./search-store";
import { TextInput } from "./TextInput";

export interface EmbedPageProps {
  readonly seal: SealStore;
  readonly models: ModelsStore;
  readonly runs: RunStore;
  readonly history: HistoryStore;
  readonly searches: SearchStore;
  readonly kept: KeptStore;
  readonly input: Input;
  readonly onInput: (change: (input: Input) => Input) => void;
}

export function EmbedPage(props: EmbedPageProps) {
  const { seal: store, models, runs, history, searches, kept, input, onInput } = props;
  const { seal } = useSyncExternalStore(store.subscribe, store.get);
  const run = useSyncExternalStore(runs.subscribe, runs.get);
  useEffect(() => store.begin(), [store]);
  const items = useMemo(() => itemsOf(input), [input]);
  const [selected, setSelected] = useState(0);
  const trust = open(seal);
  const manifest = trust?.report.manifest ?? null;
  const choice = useSyncExternalStore(models.subscribe, models.get);
  const embedding = choice.offered.filter(({ task }) => task === "embedding");
  const reranker = choice.offered.find(({ task }) => task === "reranking")?.id ?? null;
  const ofPolicy = manifest?.modelId ?? null;
  const model = embeddingModel(choice, ofPolicy);
  const described = embedding.find(({ id }) => id === model);
  const maxTokens = described?.maxTokens ?? manifest?.maxTokens ?? null;
  const measure = useCallback(
    () => (maxTokens === null ? nothing() : describeLength(items, maxTokens)),
    [items, maxTokens],
  );
  const length = useSliced(measure);

  const embed = () => {
    if (
      !model ||
      run.at === "running" ||
      blockedBy({ count: items.length, face: face(seal), ready: true }) !== null
    )
      return;
    setSelected(0);
    searches.clear();
    void runs.start(model, items);
  };

  return (
    <>
      <div className="page-head embed-head">
        <h1 tabIndex={-1}>Who will read this, and how do you know?</h1>
        <p className="muted prose">
          An enclave that its operator cannot read embeds your text. This tab verifies it first.
        </p>
      </div>
      <SealPanel store={store} />
      <div className="embed">
        <section className="embed-text" aria-labelledby="text-title">
          <h2 id="text-title">Text</h2>
          <TextInput input={input} count={items.length} onInput={onInput} onSubmit={embed} />
          {model !== null && ofPolicy !== null && embedding.length > 1 && (
            <ModelChoice
              models={embedding}
              model={model}
              ofPolicy={ofPolicy}
              disabled={run.at === "running"}
              onChoose={models.choose}
            />
          )}
          <Submit
            count={items.length}
            noun={nounOf(input)}
            face={face(seal)}
            model={model}
            run={run}
            length={length}
            onEmbed={embed}
          />
          <Progress run={run} sealed={trust !== null} onCancel={runs.cancel} onResume={runs.resume} />
        </section>
        <section className="embed-result" aria-labelledby="result-title">
          <h2 id="result-title">Result</h2>
          <Results
            run={run}
            texts={items}
            store={store}
            searches={searches}
            kept={kept}
            model={store.model(workOf(run)?.model) ?? model}
            reranker={trust ? reranker : null}
            selected={selected}
            onSelect={setSelected}
          />
        </section>
      </div>
      <History history={history} />
    </>
  );
}

// biome-ignore lint/correctness/useYield: there is no step to interrupt
function* nothing(): Sliced<null> {
  return null;
}

function nounOf({ text, files }: Input): string {
  if (files.length === 0) return "line";
  return text.trim() === "" ? "record" : "item";
}
