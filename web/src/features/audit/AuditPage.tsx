import { PartPage } from "../../ui/PartPage";
import { Part } from "../../ui/part";

/** The auditor, its worker and its styles load only with this page. */
export const AUDITOR = new Part("Audit", () => import("./Audit"));

export function AuditPage() {
  return (
    <>
      <div className="page-head">
        <h1 tabIndex={-1}>Was it really this enclave?</h1>
        <p className="muted prose">
          A receipt is the enclave's signed statement about one request: which model ran, for how long, on
          which input, and with which output. Anyone can check one here, long after the request. Nothing that
          you add leaves this tab, and once loaded, this page needs no network.
        </p>
      </div>
      <PartPage part={AUDITOR} what="The auditor" loading="Loading the auditor." />
    </>
  );
}
