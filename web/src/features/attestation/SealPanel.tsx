import { useState, useSyncExternalStore } from "react";
import { Button } from "../../ui/Button";
import { plural } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { Term } from "../../ui/Term";
import { Countdown } from "./Countdown";
import { OpenedSeal } from "./OpenedSeal";
import { PolicyChoice, whoChose } from "./PolicyChoice";
import { SealRing } from "./SealRing";
import { Statements } from "./Statements";
import { face, reportOf, type Seal, type ShownRow, shownRows } from "./seal";
import "./seal.css";
import type { SealStore } from "./seal-store";
import { explain, VERDICT_WORDS } from "./words";

/** The seal at the head of the page: what came of the checks, why, and what to do. Opens to show each of them. */
export function SealPanel({ store }: { store: SealStore }) {
  const { seal, questions } = useSyncExternalStore(store.subscribe, store.get);
  const [opened, setOpened] = useState(false);
  const shown = face(seal);
  const report = reportOf(seal);
  const rows = shownRows(seal, questions);
  const { text, next, code } = explain(seal);
  const checking = shown === "checking";

  return (
    <section
      className="seal"
      data-face={shown}
      data-origin={report?.policy?.origin ?? "none"}
      aria-labelledby="seal-verdict"
    >
      <div className="seal-face">
        <SealRing face={shown} rows={rows} />
        <div className="seal-words">
          <h2 id="seal-verdict" className="seal-verdict">
            {VERDICT_WORDS[shown]}
          </h2>
          <p className="seal-text">
            <Prose text={text} />
          </p>
          {next && (
            <p className="seal-next">
              <strong>What to do.</strong> <Prose text={next} />
            </p>
          )}
          {code && <code className="seal-code">{code}</code>}
          <SealFacts seal={seal} rows={rows} />
        </div>
        <Statements statements={report?.statements ?? []} face={shown} />
        <div className="seal-actions">
          {rows.length > 0 && (
            <Button
              icon="chevron"
              aria-expanded={opened}
              aria-controls="opened-seal"
              onClick={() => setOpened(!opened)}
            >
              {opened ? "Close the seal" : `Open the seal: ${plural(rows.length, "check")}`}
            </Button>
          )}
          <Button icon="repeat" onClick={store.verify}>
            {checking ? "Begin again" : "Verify again"}
          </Button>
          <PolicyChoice />
        </div>
      </div>
      <p className="visually-hidden" aria-live="polite" role="status">
        {checking ? "" : `Verdict: ${VERDICT_WORDS[shown]}. ${text} ${next ?? ""}`}
      </p>
      <div id="opened-seal" hidden={!opened}>
        {opened && <OpenedSeal seal={seal} rows={rows} store={store} />}
      </div>
    </section>
  );
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
          <Term
            meaning={`A build whose measurements the policy pins.${report.policy?.root === "aws" ? " The measurements come from the hardware, not from the server." : ""}`}
          >
            release
          </Term>{" "}
          {release} of the policy that {whoChose(report.policy?.origin ?? "")}
        </li>
      )}
      {seal.at === "trusted" && (
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
