/** Made by the build, under a root of its own: they show how an audit looks, and prove nothing. */
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

/** Null where this build has none, or where they cannot be had. */
export async function loadSamples(): Promise<Samples | null> {
  try {
    const answer = await fetch("/samples.json", { credentials: "omit" });
    if (!answer.ok) return null;
    const value: unknown = await answer.json();
    return isSamples(value) ? value : null;
  } catch {
    // Without samples the page works as well.
    return null;
  }
}

function isSamples(value: unknown): value is Samples {
  if (typeof value !== "object" || value === null) return false;
  const members = value as Record<string, unknown>;
  return ["policy", ...SAMPLES.map(({ key }) => key)].every((name) => typeof members[name] === "string");
}
