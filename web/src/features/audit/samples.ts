import { fetchPageFile } from "../../ui/page-file";

/** Samples that the build makes under a separate root. They demonstrate an audit, and prove nothing. */
export interface Samples {
  /** Trust policy that names the samples' development root. */
  readonly policy: string;
  readonly valid: string;
  readonly tampered: string;
  readonly otherKey: string;
}

export const SAMPLES = [
  { key: "valid", label: "a valid receipt" },
  { key: "tampered", label: "a tampered one" },
  { key: "otherKey", label: "one of another key" },
] as const;

/** Null if this build has no samples, or if they cannot be loaded. */
export async function loadSamples(): Promise<Samples | null> {
  try {
    const answer = await fetchPageFile("/samples.json", { credentials: "omit" });
    if (!answer.ok) return null;
    const value: unknown = await answer.json();
    return isSamples(value) ? value : null;
  } catch {
    // The page works without samples.
    return null;
  }
}

function isSamples(value: unknown): value is Samples {
  if (typeof value !== "object" || value === null) return false;
  const members = value as Record<string, unknown>;
  return ["policy", ...SAMPLES.map(({ key }) => key)].every((name) => typeof members[name] === "string");
}
