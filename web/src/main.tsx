import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { ELSEWHERE } from "./app/service";
import { SealStore } from "./features/attestation/seal-store";
import { RunStore } from "./features/embed/run-store";
import { HistoryStore } from "./features/history/history-store";

// The check begins before React renders: the worker loads wasm and asks for the document while the page is drawn.
const seal = new SealStore(ELSEWHERE ?? location.origin);
const runs = new RunStore(seal);
const history = new HistoryStore();
void seal.verify();
void history.load();
history.follow(runs, seal.bundle);

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <App seal={seal} runs={runs} history={history} />
  </StrictMode>,
);
