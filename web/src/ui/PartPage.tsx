import { useEffect, useSyncExternalStore } from "react";
import { Button } from "./Button";
import { Failure } from "./Failure";
import "./failure.css";
import { NoHash, type Part } from "./part";
import { FileChanged } from "./pinned";

interface PartPageProps {
  readonly part: Part;
  /** Its name at the start of a sentence. */
  readonly what: string;
  readonly loading: string;
}

/** Shows a part of the page. Loads it first, again when the network returns, and again on request. */
export function PartPage({ part, what, loading }: PartPageProps) {
  const view = useSyncExternalStore(part.subscribe, part.get);
  useEffect(() => {
    void part.load();
    addEventListener("online", part.load);
    return () => removeEventListener("online", part.load);
  }, [part]);
  switch (view.at) {
    case "loading":
      return <p className="page-loading muted">{loading}</p>;
    case "loaded":
      return (
        <Failure what={what}>
          <view.Content />
        </Failure>
      );
    case "failed":
      return (
        <div role="alert" className="failure">
          <p>
            <strong>{what} could not be shown.</strong> {explain(view.error)}
          </p>
          {view.error instanceof NoHash ? (
            <Button icon="repeat" onClick={() => location.reload()}>
              Reload the page
            </Button>
          ) : (
            <Button icon="repeat" onClick={part.load}>
              Try again
            </Button>
          )}
        </div>
      );
  }
}

function explain(error: Error): string {
  if (error instanceof FileChanged) {
    return `It did not run: ${error.message}. Reload the page, which may have a newer version. Your text stays.`;
  }
  if (error instanceof NoHash) {
    return "Its script failed too often, and this page has no further address for it. Reload the page. Your text stays.";
  }
  return navigator.onLine
    ? "Its files could not be loaded: the network failed, or the server has another version of this page. Try again; if this repeats, reload the page. Your text stays."
    : "There is no network, and this part of the page was not loaded before. It loads when the network is back. Your text stays.";
}
