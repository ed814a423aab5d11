import { useMemo, useState, useSyncExternalStore } from "react";
import { SealPanel } from "../attestation/SealPanel";
import { face, open } from "../attestation/seal";
import type { SealStore } from "../attestation/seal-store";
import { History } from "../history/History";
import type { HistoryStore } from "../history/history-store";
import "./embed.css";
import { type Input, itemsOf } from "./input";
import { Progress } from "./Progress";
import { Results } from "./Results";
import type { RunStore } from "./run-store";
import { Submit } from "./Submit";
import { TextInput } from "./TextInput";

export interface EmbedPageProps {
  readonly seal: SealStore;
  readonly runs: RunStore;
  readonly history: HistoryStore;
  readonly input: Input;
  readonly onInput: (change: (input: Input) => Input) => void;
}

export function EmbedPage({ seal: store, runs, history, input, onInput }: EmbedPageProps) {
  const { seal } = useSyncExternalStore(store.subscribe, store.get);
  const run = useSyncExternalStore(runs.subscribe, runs.get);
  const items = useMemo(() => itemsOf(input), [input]);
  const [selected, setSelected] = useState(0);
  const trust = open(seal);
  const model = trust?.report.manifest?.modelId ?? null;

  const embed = () => {
    if (!model) return;
    setSelected(0);
    void runs.start(model, items);
  };

  return (
    <>
      <div className="page-head">
        <h1 tabIndex={-1}>Who will read this, and how do you know?</h1>
        <p className="muted prose">
          Your text is turned into vectors inside a machine that its own operator cannot look into. This tab
          checks that machine first, and sends nothing until it has proven itself.
        </p>
      </div>
      <SealPanel store={store} />
      <div className="embed">
        <section className="embed-text" aria-labelledby="text-title">
          <h2 id="text-title">Text</h2>
          <TextInput input={input} count={items.length} onInput={onInput} />
          <Submit
            count={items.length}
            noun={nounOf(input)}
            face={face(seal)}
            ready={model !== null}
            run={run}
            onEmbed={embed}
          />
          <Progress run={run} sealed={trust !== null} onCancel={runs.cancel} onResume={runs.resume} />
        </section>
        <section className="embed-result" aria-labelledby="result-title">
          <h2 id="result-title">Result</h2>
          <Results run={run} texts={items} store={store} selected={selected} onSelect={setSelected} />
        </section>
      </div>
      <History history={history} />
    </>
  );
}

function nounOf({ text, files }: Input): string {
  if (files.length === 0) return "line";
  return text.trim() === "" ? "record" : "item";
}
