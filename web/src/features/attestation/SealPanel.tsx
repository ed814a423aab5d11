import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { Term } from "../../ui/Term";
import { ORIGIN_WORDS, originOf } from "../policy/origin";
import { PolicyChoice, PolicyPicker } from "../policy/PolicyChoice";
import { Provenance, usePolicies } from "../policy/Provenance";
import { Countdown } from "./Countdown";
import { OpenedSeal } from "./OpenedSeal";
import { SealRing } from "./SealRing";
import { Statements } from "./Statements";
import { face, reportOf, type Seal, type ShownRow, shownRows } from "./seal";
import "./seal.css";
import "./seal-line.css";
import type { SealStore } from "./seal-store";
import { brief, explain, measurementWords, VERDICT_WORDS } from "./words";

/**
 * The seal at the head of the page: what came of the checks, why, and what to do. Closed it keeps one height, before the
 * verdict as after it and whatever it is, so that nothing below moves. Opens to show each check, and every word.
 */
export function SealPanel({ store }: { store: SealStore }) {
  const { seal, questions } = useSyncExternalStore(store.subscribe, store.get);
  const { chosen, refusal } = usePolicies();
  const [opened, setOpened] = useState(false);
  const rows = shownRows(seal, questions);
  const { text, next, code } = explain(seal);
  const shown = face(seal);
  const checking = shown === "checking";
  // What is in force instead of the built-in one has to be seen, and why a file was not taken.
  const policyShown = chosen !== null || refusal !== null;
  // Nothing below the closed seal may move, so the control takes the place of a button: the same check would end the same.
  const picking = code === "NO_POLICY" && !opened && !policyShown;
  const policy = usePassedFocus(picking, policyShown);
  return (
    <section
      className="seal"
      data-face={shown}
      data-origin={originOf(reportOf(seal)) ?? undefined}
      aria-labelledby="seal-verdict"
    >
      <SealFace seal={seal} rows={rows} line={!opened}>
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
            {checking ? "Begin again" : "Verify again"}
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

/** Choosing a policy takes the control away that was pressed: the focus goes on to the one that is then shown. */
function usePassedFocus(picking: boolean, policyShown: boolean) {
  const policy = useRef<HTMLDivElement>(null);
  const before = useRef(false);
  useEffect(() => {
    if (before.current && policyShown) policy.current?.querySelector("button")?.focus();
    before.current = picking;
  }, [picking, policyShown]);
  return policy;
}

/**
 * What is to be seen of a seal. As `line` only the verdict, who chose its policy, and its end; of a failure the first lines
 * of what happened and of what to do. `children` are its buttons.
 */
export function SealFace({
  seal,
  rows,
  line = false,
  children,
}: {
  seal: Seal;
  rows: readonly ShownRow[];
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
          {VERDICT_WORDS[shown]}
        </h2>
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

/** The room of what a verdict adds to the line, by words of the usual length, so that nothing moves when it comes. */
function ReservedLines() {
  return (
    <>
      <p
        className="provenance"
        data-reserved="Judged by a policy that came with the evidence: development."
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

/** The verdict and who chose its policy, for those who hear it. */
function spokenVerdict(seal: Seal): string {
  const origin = originOf(reportOf(seal));
  return [VERDICT_WORDS[face(seal)], ...(origin ? [ORIGIN_WORDS[origin]] : [])].join(", ");
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
          <Term meaning={measurementWords(report).release}>release</Term> {release}
        </li>
      )}
      {seal.at === "closed" && (
        <li>
          <Term meaning="The certificate of this enclave lives for three hours, its keys possibly shorter. After that it has to prove itself again.">
            valid for
          </Term>{" "}
          <Countdown untilMs={seal.trust.validUntilMs} />
        </li>
      )}
    </ul>
  );
}
