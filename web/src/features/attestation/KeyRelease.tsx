import { useEffect, useState } from "react";
import { ELSEWHERE } from "../../app/service";

/** Releaser of the sealed model's key, as the service reports it. This is not attested; the model hash is. */
export function KeyRelease() {
  const [description, setDescription] = useState("asking the service…");
  useEffect(() => {
    const stop = new AbortController();
    ask(stop.signal).then(setDescription, () => {
      if (!stop.signal.aborted) setDescription(describeKeyRelease(null));
    });
    return () => stop.abort();
  }, []);
  return <>{description}</>;
}

async function ask(signal: AbortSignal): Promise<string> {
  // The service does not report readiness to pages of other origins.
  if (ELSEWHERE !== null) return describeKeyRelease(null);
  const answer = await fetch("/readyz", { credentials: "omit", signal });
  return describeKeyRelease(answer.ok ? await answer.json() : null);
}

/** Pure. Describes the answer of `/readyz`; anything else counts as not reported. */
export function describeKeyRelease(ready: unknown): string {
  const by = typeof ready === "object" && ready !== null && "key_release" in ready ? ready.key_release : null;
  switch (by) {
    case "simulated KMS":
      return "released by a simulated KMS, which protects nothing (reported by the service, not attested)";
    case "AWS KMS":
      return "released by AWS KMS (reported by the service, not attested)";
    case "none":
      return "none: the model was read from a folder (reported by the service, not attested)";
    default:
      return "the service does not report who released it";
  }
}
