import { PartPage } from "../../ui/PartPage";
import { Part } from "../../ui/part";

// Charts and figures are a third of the whole script, and load only on this route.
export const DASHBOARD = new Part("Dashboard", () => import("./Dashboard"));

export function BenchmarksPage() {
  return (
    <>
      <div className="page-head">
        <h1 tabIndex={-1}>What does privacy cost?</h1>
        <p className="muted prose">
          Embedding text inside an enclave is slower than outside. These benchmarks show how much slower,
          where the time goes, and what it costs, next to published results of others.
        </p>
      </div>
      <PartPage part={DASHBOARD} what="The dashboard" loading="Loading charts and figures." />
    </>
  );
}
