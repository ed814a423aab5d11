import { lazy, Suspense } from "react";
import { Failure } from "../../ui/Failure";

// Charts and figures are a third of the whole script, and load only on this route.
const Dashboard = lazy(() => import("./Dashboard"));

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
      <Failure what="The dashboard">
        <Suspense fallback={<p className="page-loading muted">Loading charts and figures.</p>}>
          <Dashboard />
        </Suspense>
      </Failure>
    </>
  );
}
