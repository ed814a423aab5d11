import type { AttestationReport } from "@clearseal/verifier";
import { useSyncExternalStore } from "react";
import { ORIGIN_LABELS, originOf } from "./origin";
import { policies } from "./policy-store";
import "./policy.css";

/** States next to a verdict who chose the policy. */
export function Provenance({ report }: { report: AttestationReport | null | undefined }) {
  const { builtIn } = usePolicies();
  const policy = report?.policy;
  if (!policy) return null;
  const origin = originOf(report);
  return (
    <p className="provenance" data-origin={origin ?? "unknown"}>
      Checked {origin ? ORIGIN_LABELS[origin] : "under a policy of unknown origin"}:{" "}
      <strong>{policy.name}</strong>.
      {origin === "chosen" && typeof builtIn === "string" && " It replaces the policy built into this page."}
    </p>
  );
}

export function usePolicies() {
  return useSyncExternalStore(policies.subscribe, policies.get, policies.get);
}
