import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { face, open } from "../features/attestation/seal";
import type { SealStore } from "../features/attestation/seal-store";
import { AUDITOR, AuditPage } from "../features/audit/AuditPage";
import { BenchmarksPage, DASHBOARD } from "../features/benchmarks/BenchmarksPage";
import { EmbedPage } from "../features/embed/EmbedPage";
import type { Input } from "../features/embed/input";
import type { KeptStore } from "../features/embed/kept-store";
import type { ModelsStore } from "../features/embed/models-store";
import type { RunStore } from "../features/embed/run-store";
import { loadInput, saveInput } from "../features/embed/saved-input";
import type { SearchStore } from "../features/embed/search-store";
import type { HistoryStore } from "../features/history/history-store";
import { useSaved } from "../ui/useSaved";
import "./app.css";
import { Header } from "./Header";
import { NotFound } from "./NotFound";
import { usePath } from "./router";
import { ELSEWHERE, RELEASE } from "./service";
import "./print.css";

const TITLES: Record<string, string> = { "/": "Embed", "/benchmarks": "Benchmarks", "/audit": "Audit" };

interface Stores {
  readonly seal: SealStore;
  readonly models: ModelsStore;
  readonly runs: RunStore;
  readonly history: HistoryStore;
  readonly searches: SearchStore;
  readonly kept: KeptStore;
}

/** Text, seal and run outlive a change of route, and text outlives a reload, so that typed text is never lost. */
export function App({ seal, models, runs, history, searches, kept }: Stores) {
  const path = usePath();
  const [input, setInput] = useState<Input>(loadInput);
  const main = useRef<HTMLElement>(null);
  const first = useRef(path);

  useEffect(() => seal.watch(document), [seal]);
  useReconnect(seal);
  usePrefetch(seal);
  useSaved(input, saveInput);
  useUnloadWarning(input, runs);
  useEffect(() => {
    document.title = `${TITLES[path] ?? "Not found"} · Clearseal`;
    // Focus announces each page after the first to screen readers.
    if (first.current !== path) main.current?.querySelector("h1")?.focus();
    first.current = "";
  }, [path]);

  return (
    <>
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <Header path={path} />
      <main id="main" ref={main} className="main" tabIndex={-1}>
        <Page
          path={path}
          seal={seal}
          models={models}
          runs={runs}
          history={history}
          searches={searches}
          kept={kept}
          input={input}
          onInput={setInput}
        />
      </main>
      <footer className="footer">
        <p>
          Clearseal contacts {ELSEWHERE === null ? "only its own origin" : `its own origin and ${ELSEWHERE}`},
          sets no cookie, keeps your text in this tab until it closes, and stores only what you ask it to: a
          theme, receipts, texts with their vectors.
        </p>
        {RELEASE !== null && (
          <p className="release">
            Release {RELEASE.name}, commit <code>{RELEASE.commit}</code>. Rebuild it from that commit:{" "}
            <code>cargo xtask release --name {RELEASE.name} --out release</code>. Compare it with the files of
            this origin: <code>clearseal release verify release.json --key KEY --url ORIGIN</code>.
          </p>
        )}
      </footer>
    </>
  );
}

interface PageProps extends Stores {
  path: string;
  input: Input;
  onInput: (change: (input: Input) => Input) => void;
}

function Page({ path, ...rest }: PageProps) {
  switch (path) {
    case "/":
      return <EmbedPage {...rest} />;
    case "/benchmarks":
      return <BenchmarksPage />;
    case "/audit":
      return <AuditPage />;
    default:
      return <NotFound path={path} />;
  }
}

/** Verifies again when the network returns. */
function useReconnect(seal: SealStore): void {
  const { seal: state } = useSyncExternalStore(seal.subscribe, seal.get);
  const unreachable = face(state) === "unreachable";
  useEffect(() => {
    if (!unreachable) return;
    addEventListener("online", seal.verify);
    return () => removeEventListener("online", seal.verify);
  }, [unreachable, seal]);
}

/** After the first verdict, the network is free: loads the other routes, which then open even if it fails. */
function usePrefetch(seal: SealStore): void {
  const { seal: state } = useSyncExternalStore(seal.subscribe, seal.get);
  const trusted = open(state) !== null;
  useEffect(() => {
    if (trusted) void AUDITOR.prefetch().then(DASHBOARD.prefetch);
  }, [trusted]);
}

/** Asks before leaving: the text ends with the tab, and closing it by accident would lose it. */
function useUnloadWarning(input: Input, runs: RunStore): void {
  const run = useSyncExternalStore(runs.subscribe, runs.get);
  const unsaved = input.text !== "" || input.files.length > 0 || run.at === "running";
  useEffect(() => {
    if (!unsaved) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [unsaved]);
}
