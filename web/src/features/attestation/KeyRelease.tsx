import { useEffect, useState } from "react";
import { ELSEWHERE } from "../../app/service";

/** Who released the key of the sealed model, as the service says it. Nothing proves it: the attested model hash counts. */
export function KeyRelease() {
  const [said, setSaid] = useState("asking the service…");
  useEffect(() => {
    const stop = new AbortController();
    ask(stop.signal).then(setSaid, () => {
      if (!stop.signal.aborted) setSaid(keyReleaseWords(null));
    });
    return () => stop.abort();
  }, []);
  return <>{said}</>;
}

async function ask(signal: AbortSignal): Promise<string> {
  // Readiness is not told to pages of other origins.
  if (ELSEWHERE !== null) return keyReleaseWords(null);
  const answer = await fetch("/readyz", { credentials: "omit", signal });
  return keyReleaseWords(answer.ok ? await answer.json() : null);
}

/** Pure. What `/readyz` answered, in words; anything that is not understood counts as not told. */
export function keyReleaseWords(ready: unknown): string {
  const by = typeof ready === "object" && ready !== null && "key_release" in ready ? ready.key_release : null;
  switch (by) {
    case "simulated KMS":
      return "released by a simulated KMS, which protects nothing (told by the service, not attested)";
    case "AWS KMS":
      return "released by AWS KMS (told by the service, not attested)";
    case "none":
      return "none: the model was read from a folder (told by the service, not attested)";
    default:
      return "the service does not say who released it";
  }
}
