import type { AuditJudgement, LogReport } from "@clearseal/verifier";
import { useState } from "react";
import { atService, ELSEWHERE } from "../../app/service";
import { Button } from "../../ui/Button";
import { count, moment } from "../../ui/format";
import { Prose } from "../../ui/Prose";
import { Ladder } from "../attestation/Ladder";
import type { AuditStore } from "./audit-store";
import { lookUp, type Place, type Since } from "./log";

/** Whether the receipt is in the log that its enclave signs. The only part of an audit that asks the network, when told to. */
export function LogPlace(props: { judgement: AuditJudgement; logKey: string; store: AuditStore }) {
  const { judgement, logKey, store } = props;
  const { index, sha256 } = judgement.summary;
  const [place, setPlace] = useState<Place>({ at: "unasked" });
  const ask = async () => {
    setPlace({ at: "asking" });
    const tools = {
      get: (path: `/v1/${string}`, signal: AbortSignal) =>
        fetch(atService(path), { credentials: "omit", signal }),
      judge: store.logged(index),
      memory: {
        getItem: (key: string) => sessionStorage.getItem(key),
        setItem: (key: string, value: string) => sessionStorage.setItem(key, value),
      },
    };
    setPlace(await lookUp(tools, logKey, sha256 ?? ""));
  };
  return (
    <section className="audit-log">
      <h3>Its place in the log</h3>
      <p>
        The enclave counts its receipts in a tree and signs the tree's head. A host that leaves receipts out,
        or tells two stories, cannot prove both; the newest head that this tab has seen is compared with the
        next. Looking it up sends the receipt's hash to {ELSEWHERE ?? "this page's origin"}, and nothing else.
      </p>
      <Button onClick={() => void ask()} disabled={place.at === "asking"}>
        Look it up
      </Button>
      <div aria-live="polite">
        {place.at === "unanswered" && <p data-log="unanswered">{place.why}</p>}
        {place.at === "judged" && <Found report={place.report} since={place.since} />}
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
            <strong>In the log{verdict === "simulated" && ", simulated"}.</strong> The enclave signed a tree
            of {count(head.size)} leaves that holds this receipt, on {moment(head.time * 1000)}.
            {since && (
              <>
                {" "}
                It leads on from the tree of {count(since.size)} that this tab saw, signed on{" "}
                {moment(since.time * 1000)}.
              </>
            )}
          </>
        )}
      </p>
      <Ladder rows={checks} caption="Checks of the log" />
    </>
  );
}
