import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { Term } from "../../ui/Term";
import { ORIGIN_LABELS, originOf } from "../policy/origin";
import { PolicyChoice, PolicyPicker } from "../policy/PolicyChoice";
import { Provenance, usePolicies } from "../policy/Provenance";
import { Countdown } from "./Countdown";
import { OpenedSeal } from "./OpenedSeal";
import { SealRing } from "./SealRing";
import { Statements } from "./Statements";
import { face, reportOf, type Seal, type ShownRow, shownRows } from "./seal";
import "./seal.css";
import "./seal-line.css";
import { brief, explain, measurementLabels, VERDICT_LABELS } from "./labels";
import type { SealStore } from "./seal-store";

/**
 * The seal at the head of the page: verdict, reason and next step; opens to show every check. The closed seal has one height
 * for all states, so that the page below does not move when the verdict arrives.
 *
 * Styling hooks: `data-face` is the {@link Face}; `data-origin` is the {@link Origin} of the policy, absent without a report.
 */
export function SealPanel({ store }: { store: SealStore }) {
  const { seal, questions, retryAtMs } = useSyncExternalStore(store.subscribe, store.get);
  const { chosen, refusal } = usePolicies();
  const [opened, setOpened] = useState(false);
  const rows = shownRows(seal, questions);
  const { text, next, code } = explain(seal);
  const shown = face(seal);
  const checking = shown === "checking";
  // A policy that replaces the built-in one must stay visible, as must the reason why a file was rejected.
  const policyShown = chosen !== null || refusal !== null;
  // The picker replaces "Verify again", which would fail again without a policy, and keeps the height of the closed seal.
  const picking = code === "NO_POLICY" && !opened && !policyShown;
  const policy = useFocusOnPolicy(picking, policyShown);
  return (
    <section
      className="seal"
      data-face={shown}
      data-origin={originOf(reportOf(seal)) ?? undefined}
      aria-labelledby="seal-verdict"
    >
      <SealFace seal={seal} rows={rows} retryAtMs={retryAtMs} line={!opened}>
        <Button
          icon="chevron"
          data-reserved={rows.length === 0 && code === null ? "" : undefined}
          aria-expanded={opened}
          aria-controls="opened-seal"
          onClick={() => setOpened(!opened)}
        >
          {opened
            ? "Close the seal"
            : picking
              ? "Open the seal"
              : `Open the seal: ${plural(rows.length, "check")}`}
        </Button>
        {picking ? (
          <PolicyPicker />
        ) : (
          <Button icon="repeat" onClick={store.verify}>
            {checking ? "Restart" : "Verify again"}
          </Button>
        )}
      </SealFace>
      {policyShown && (
        <div ref={policy} className="seal-policy">
          <PolicyChoice />
        </div>
      )}
      <p className="visually-hidden" aria-live="polite" role="status">
        {checking ? "" : `Verdict: ${spokenVerdict(seal)}. ${text} ${next ?? ""}`}
      </p>
      <div id="opened-seal" hidden={!opened}>
        {opened && <OpenedSeal seal={seal} rows={rows} store={store} policyShown={policyShown} />}
      </div>
    </section>
  );
}

/** Choosing a policy removes the pressed control: moves the focus to the policy control that replaces it. */
function useFocusOnPolicy(picking: boolean, policyShown: boolean) {
  const policy = useRef<HTMLDivElement>(null);
  const before = useRef(false);
  useEffect(() => {
    if (before.current && policyShown) policy.current?.querySelector("button")?.focus();
    before.current = picking;
  }, [picking, policyShown]);
  return policy;
}

/**
 * Content of the seal. As `line`, only the verdict, the origin of its policy and its expiry; for a failure, the first lines of
 * message and next step. `children` are its buttons.
 */
export function SealFace({
  seal,
  rows,
  retryAtMs = null,
  line = false,
  children,
}: {
  seal: Seal;
  rows: readonly ShownRow[];
  /** Time of the next attempt at an unreachable service. */
  retryAtMs?: number | null;
  line?: boolean;
  children?: ReactNode;
}) {
  const shown = face(seal);
  const report = reportOf(seal);
  const quiet = line && explain(seal).code === null;
  return (
    <div className={line ? "seal-face seal-line" : "seal-face"}>
      <SealRing face={shown} rows={rows} origin={originOf(report)} />
      <div className="seal-words">
        <h2 id="seal-verdict" className="seal-verdict">
          {VERDICT_LABELS[shown]}
        </h2>
        {retryAtMs !== null && (
          <span className="seal-retry muted small">
            tries again in <Countdown untilMs={retryAtMs} />
          </span>
        )}
        {quiet ? (
          <>
            <p className="seal-brief">{brief(seal)}</p>
            {report ? <Provenance report={report} /> : <ReservedLines />}
          </>
        ) : (
          <Explained seal={seal} line={line} />
        )}
        {(quiet || !line) && <SealFacts seal={seal} rows={rows} />}
      </div>
      {!line && <Statements statements={report?.statements ?? []} face={shown} />}
      <div className="seal-actions">{children}</div>
    </div>
  );
}

/** Reserves the space of the lines that a verdict adds, with text of typical length, so that nothing moves when it arrives. */
function ReservedLines() {
  return (
    <>
      <p
        className="provenance"
        data-reserved="Checked under a policy that came with the evidence: development."
      />
      <ul className="seal-facts">
        <li data-reserved="25 of 25 required checks passed" />
        <li data-reserved="release development" />
        <li data-reserved="valid for 00:00" />
      </ul>
    </>
  );
}

function Explained({ seal, line }: { seal: Seal; line: boolean }) {
  const { text, next, code } = explain(seal);
  return (
    <>
      {!line && <Provenance report={reportOf(seal)} />}
      <p className="seal-text">
        <Prose text={text} />
      </p>
      {next && (
        <p className="seal-next">
          <strong>What to do.</strong> <Prose text={next} />
        </p>
      )}
      {code && <code className="seal-code">{code}</code>}
    </>
  );
}

/** The verdict and who chose its policy, for screen readers. */
function spokenVerdict(seal: Seal): string {
  const origin = originOf(reportOf(seal));
  return [VERDICT_LABELS[face(seal)], ...(origin ? [ORIGIN_LABELS[origin]] : [])].join(", ");
}

function SealFacts({ seal, rows }: { seal: Seal; rows: readonly ShownRow[] }) {
  const report = reportOf(seal);
  if (!report) return null;
  const required = rows.filter((row) => row.required);
  const passed = required.filter((row) => row.state === "passed").length;
  const release = report.policy?.release;
  return (
    <ul className="seal-facts">
      <li>
        {passed} of {required.length} required checks passed
      </li>
      {release && (
        <li>
          <Term meaning={measurementLabels(report).release}>release</Term> {release}
        </li>
      )}
      {seal.at === "closed" && (
        <li>
          <Term meaning="The certificate of this enclave is valid for three hours, its keys possibly for less. After that, this tab verifies the enclave again.">
            valid for
          </Term>{" "}
          <Countdown untilMs={seal.trust.validUntilMs} />
        </li>
      )}
    </ul>
  );
}
