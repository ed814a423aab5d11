import {
  type MouseEvent,
  memo,
  useCallback,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { StepsContext, stepsOf } from "./charts/look";
import "./dashboard.css";
import "./print.css";
import { DropFile } from "./DropFile";
import { MissingRuns } from "./MissingRuns";
import { machines } from "./machines";
import { newestOf } from "./names";
import { withNewRuns } from "./new-runs";
import { RunPicker } from "./RunPicker";
import { acrossPlatforms, firstChoice, MAX_CHOSEN, type Run, type Source } from "./runs";
import { loadSources } from "./sources";
import { toSearch, useLinkState } from "./url";
import { Answer } from "./views/Answer";
import type { View, ViewProps } from "./views/view";
import { VIEWS } from "./views/views";

type Loading =
  | { readonly at: "loading" }
  | { readonly at: "failed"; readonly why: string }
  | { readonly at: "loaded"; readonly sources: readonly Source[] };

export default function Dashboard() {
  const [loading, setLoading] = useState<Loading>({ at: "loading" });
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt loads again
  useEffect(() => {
    const ending = new AbortController();
    setLoading({ at: "loading" });
    loadSources(ending.signal).then(
      (sources) => setLoading({ at: "loaded", sources }),
      (error: unknown) => {
        if (!ending.signal.aborted)
          setLoading({ at: "failed", why: String(error instanceof Error ? error.message : error) });
      },
    );
    return () => ending.abort();
  }, [attempt]);

  switch (loading.at) {
    case "loading":
      return <p className="page-loading muted">Loading the published figures.</p>;
    case "failed":
      return (
        <div role="alert" className="bench-failure">
          <p>
            <strong>The figures could not be loaded.</strong> {loading.why}
          </p>
          <Button icon="repeat" onClick={() => setAttempt(attempt + 1)}>
            Try again
          </Button>
        </div>
      );
    case "loaded":
      return <Loaded sources={loading.sources} />;
  }
}

function Loaded({ sources: own }: { sources: readonly Source[] }) {
  const [dropped, setDropped] = useState<readonly Source[]>([]);
  const [place, go] = useLinkState();
  const sources = useMemo(() => [...dropped, ...own], [dropped, own]);
  const ownRuns = useMemo(() => own.flatMap(({ runs }) => runs), [own]);
  const all = useMemo(() => sources.flatMap(({ runs }) => runs), [sources]);
  const known = VIEWS.find(({ key }) => key === place.view);
  const view = known ?? VIEWS[0];
  const label = view?.label;
  useEffect(() => {
    document.title = `${label}, Benchmarks · Clearseal`;
  }, [label]);
  const named = place.runs?.join();
  const chosen = useMemo(
    () => (named === undefined ? null : linked(named.split(","), sources)),
    [named, sources],
  );
  const runs = useMemo(() => chosen ?? suggested(view, all), [chosen, view, all]);
  // The click shows at once; the figures follow in slices, so that the page stays responsive.
  const shown = useDeferredValue(useMemo(() => ({ view, runs, all, sources }), [view, runs, all, sources]));
  const preferredSteps = useMemo(() => stepsOf(shownTogether(ownRuns)), [ownRuns]);
  const steps = useMemo(
    () => new Map([...preferredSteps, ...stepsOf([shown.runs], preferredSteps)]),
    [preferredSteps, shown],
  );

  const latest = useRef(runs);
  useEffect(() => {
    latest.current = runs;
  }, [runs]);
  const missingKeys = (place.runs ?? []).filter((key) => !sources.some(({ byKey }) => byKey.has(key)));

  const show = useCallback((next: readonly string[]) => go({ runs: next }), [go]);
  const add = (source: Source) => {
    setDropped((before) => [source, ...before.filter(({ id }) => id !== source.id)]);
    // Several files may be read before the next render.
    const next = withNewRuns(source, latest.current);
    latest.current = next;
    go({ runs: next.map(({ key }) => key) });
  };

  if (!view || !shown.view) return null;
  return (
    <div className="bench">
      {view === VIEWS[0] && <Answer all={ownRuns} />}
      <div className="bench-tools">
        <RunPicker
          all={all}
          chosen={runs}
          onChoose={show}
          onReset={place.runs ? () => go({ runs: null }) : null}
        />
        <DropFile onRead={add} dropped={dropped} own={own} />
      </div>
      <Views current={view} place={place} onGo={(key) => go({ view: key })} />
      {place.view !== null && !known && (
        <p role="alert" className="bench-missing-runs">
          There is no view called “{place.view}”. This is the overview; the list above names the other views.
        </p>
      )}
      <MissingRuns keys={missingKeys} />
      <StepsContext value={steps}>
        <Figures {...shown} view={shown.view} onShow={show} />
      </StepsContext>
    </div>
  );
}

interface FiguresProps extends ViewProps {
  readonly view: View;
  readonly onShow: (keys: readonly string[]) => void;
}

const Figures = memo(function Figures({ view, onShow, ...props }: FiguresProps) {
  return (
    <section className="bench-view" aria-labelledby="view-title">
      <h2 id="view-title">{view.label}</h2>
      <p className="muted prose">{view.lead}</p>
      {missing(view, props.runs) ? (
        <Missing view={view} all={props.all} onShow={onShow} />
      ) : (
        <view.Content key={view.key} {...props} />
      )}
    </section>
  );
});

function Views(props: {
  readonly current: View;
  readonly place: ReturnType<typeof useLinkState>[0];
  readonly onGo: (key: string) => void;
}) {
  const { current, place, onGo } = props;
  const follow = (event: MouseEvent, key: string) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    onGo(key);
  };
  const list = useRef<HTMLUListElement>(null);
  // On a narrow screen, the list is wider than the page: scroll the current view into sight.
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const item = list.current?.querySelector(`[data-view="${current.key}"]`);
      if (item instanceof HTMLElement && list.current)
        list.current.scrollLeft = item.offsetLeft - (list.current.clientWidth - item.offsetWidth) / 2;
    });
    return () => cancelAnimationFrame(frame);
  }, [current.key]);
  return (
    <nav className="bench-views" aria-label="Figures">
      <ul ref={list}>
        {VIEWS.map(({ key, label }) => (
          <li key={key} data-view={key}>
            <a
              href={`/benchmarks${toSearch({ ...place, view: key })}`}
              aria-current={key === current.key ? "true" : undefined}
              onClick={(event) => follow(event, key)}
            >
              {label}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** The runs that a link names, in the order of the link. */
function linked(keys: readonly string[], sources: readonly Source[]): readonly Run[] {
  return keys.flatMap((key) => sources.findLast(({ byKey }) => byKey.has(key))?.byKey.get(key) ?? []);
}

/** Default runs of a view: ours and the headline runs, otherwise any runs with such figures. */
function suggested(view: View | undefined, all: readonly Run[]): readonly Run[] {
  const headline = firstChoice(all);
  const { subjects = null } = view ?? {};
  if (!subjects) return all.filter(({ key }) => headline.includes(key));
  const having = all.filter((run) => has(run, subjects));
  const newest = newestOf(all)?.key;
  const preferred = having.filter(
    // A peer is shown next to the run of ours that it took turns with.
    (run) =>
      run.peer && run.kind === "ours"
        ? run.key.startsWith(`${newest}/`)
        : run.kind !== "published" || headline.includes(run.key),
  );
  // Single runs of a mean, claims and format examples are shown only on request.
  const others = having.filter(({ key }) => !/\/(run-|example-)|-claims$|-cross-platform$/.test(key));
  const known = preferred.some(({ kind }) => kind === "published") && view?.key !== "transport";
  return known ? balanced(preferred) : others.slice(0, MAX_CHOSEN);
}

/** The sets of runs that one view or one chart shows by default. */
function shownTogether(all: readonly Run[]): readonly (readonly Run[])[] {
  const contenders = machines(all).map(({ ours, peers }) => [ours, ...peers]);
  const newest = newestOf(all);
  return [
    // The newest run has the accent itself, older ones its shades.
    newest ? [newest] : [],
    ...VIEWS.map((view) => suggested(view, all)),
    ...contenders.map((set) => set.map(({ run }) => run)),
    Object.values(acrossPlatforms(all)),
  ];
}

/** As many runs as fit, in order; published ones have priority, then ours, then peers. */
function balanced(runs: readonly Run[]): readonly Run[] {
  const rank = ({ kind, peer }: Run) => (kind === "published" ? 0 : peer ? 2 : 1);
  const fitting = runs.toSorted((a, b) => rank(a) - rank(b)).slice(0, MAX_CHOSEN);
  return runs.filter((run) => fitting.includes(run));
}

function has(run: Run, subjects: RegExp): boolean {
  return subjectsOf(run).some((subject) => subjects.test(subject));
}

const SUBJECTS = new WeakMap<Run, readonly string[]>();

/** The subjects of a run's figures. Cached, because every view needs them and a run has hundreds of figures. */
function subjectsOf(run: Run): readonly string[] {
  const known = SUBJECTS.get(run) ?? [...new Set(run.figures.map(({ subject }) => subject))];
  SUBJECTS.set(run, known);
  return known;
}

function missing({ subjects }: View, runs: readonly Run[]): boolean {
  return subjects !== null && !runs.some((run) => has(run, subjects));
}

function Missing(props: { view: View; all: readonly Run[]; onShow: (keys: readonly string[]) => void }) {
  const offered = suggested(props.view, props.all);
  return (
    <div className="bench-missing">
      <p>None of the chosen runs has figures for this view.</p>
      {offered.length > 0 && (
        <Button onClick={() => props.onShow(offered.map(({ key }) => key))}>
          Show {plural(offered.length, "run")} that {offered.length === 1 ? "has" : "have"} them
        </Button>
      )}
    </div>
  );
}
