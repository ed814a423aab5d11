import type { AuditAppraisal, LogReport } from "@clearseal/verifier";
import { useState } from "react";
import { atService, ELSEWHERE } from "../../app/service";
import { Button } from "../../ui/Button";
import { count, moment } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { CheckList } from "../attestation/CheckList";
import type { AuditStore } from "./audit-store";
import { type Lookup, lookUp, type Since } from "./log";

/**
 * Checks that the receipt is in the log that its enclave signs. The only part of an audit that uses the network, on request.
 *
 * Test hook: `data-log` is the verdict of the log, or `unanswered`.
 */
export function LogInclusion(props: { appraisal: AuditAppraisal; logKey: string; store: AuditStore }) {
  const { appraisal, logKey, store } = props;
  const { index, sha256 } = appraisal.summary;
  const [lookup, setLookup] = useState<Lookup>({ at: "unasked" });
  const ask = async () => {
    setLookup({ at: "asking" });
    const tools = {
      get: (path: `/v1/${string}`, signal: AbortSignal) =>
        fetch(atService(path), { credentials: "omit", signal }),
      judge: store.logged(index),
      memory: {
        getItem: (key: string) => sessionStorage.getItem(key),
        setItem: (key: string, value: string) => sessionStorage.setItem(key, value),
      },
    };
    setLookup(await lookUp(tools, logKey, sha256 ?? ""));
  };
  return (
    <section className="audit-log">
      <h3>Inclusion in the log</h3>
      <p>
        The enclave records its receipts in a Merkle tree and signs the tree's head. A host that omits
        receipts, or shows different trees to different clients, cannot prove consistency: this tab compares
        each head with the newest one it has seen. Looking it up sends the receipt's hash to{" "}
        {ELSEWHERE ?? "this page's origin"}, and nothing else.
      </p>
      <Button onClick={() => void ask()} disabled={lookup.at === "asking"}>
        Look it up
      </Button>
      <div aria-live="polite">
        {lookup.at === "unanswered" && <p data-log="unanswered">{lookup.why}</p>}
        {lookup.at === "judged" && <Found report={lookup.report} since={lookup.since} />}
      </div>
    </section>
  );
}

function Found({ report, since }: { report: LogReport; since: Since | null }) {
  const { verdict, head, message, remedy, code, checks } = report;
  return (
    <>
      <p data-log={verdict}>
        {(verdict !== "verified" && verdict !== "simulated") || !head ? (
          <>
            <strong>Not proved.</strong> <Prose text={`${message ?? ""} ${remedy ?? ""}`} />{" "}
            <code>{code}</code>
          </>
        ) : (
          <>
            <strong>In the log{verdict === "simulated" && ", simulated"}.</strong> On{" "}
            {moment(head.time * 1000)} the enclave signed a tree of {count(head.size)} leaves that contains
            this receipt.
            {since && (
              <>
                {" "}
                It extends the tree of {count(since.size)} leaves that this tab saw, signed on{" "}
                {moment(since.time * 1000)}.
              </>
            )}
          </>
        )}
      </p>
      <CheckList rows={checks} caption="Checks of the log" />
    </>
  );
}
