import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { ELSEWHERE } from "./app/service";
import { SealStore } from "./features/attestation/seal-store";
import { KeptStore } from "./features/embed/kept-store";
import { ModelsStore } from "./features/embed/models-store";
import { RunStore } from "./features/embed/run-store";
import { loadRun, saveRun } from "./features/embed/saved-run";
import { SearchStore } from "./features/embed/search-store";
import { HistoryStore } from "./features/history/history-store";

// On the Embed page, verification starts before React renders: the worker loads wasm and requests the document meanwhile. Other
// pages need neither.
const seal = new SealStore(ELSEWHERE ?? location.origin);
const models = new ModelsStore(seal);
const runs = new RunStore(seal);
const history = new HistoryStore();
const searches = new SearchStore(seal);
const kept = new KeptStore(runs);
if (location.pathname === "/") seal.begin();
void history.load();
void kept.load(loadRun());
addEventListener("pagehide", () => saveRun(runs.get()));
history.follow(runs, seal.bundle);
history.follow(searches, seal.bundle);

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <App seal={seal} models={models} runs={runs} history={history} searches={searches} kept={kept} />
  </StrictMode>,
);
