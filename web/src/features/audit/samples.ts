import { fetchPageFile } from "../../ui/page-file";
import { FileChanged } from "../../ui/pinned";

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

export type LoadedSamples =
  | { readonly at: "loaded"; readonly samples: Samples }
  /** This build has none, or the network failed: the page works without. */
  | { readonly at: "absent" }
  /** The host sends other bytes than this build's. */
  | { readonly at: "changed"; readonly why: string };

export async function loadSamples(): Promise<LoadedSamples> {
  try {
    const answer = await fetchPageFile("/samples.json", { credentials: "omit" });
    const value: unknown = answer.ok ? await answer.json() : null;
    return isSamples(value) ? { at: "loaded", samples: value } : { at: "absent" };
  } catch (cause) {
    return cause instanceof FileChanged ? { at: "changed", why: cause.message } : { at: "absent" };
  }
}

function isSamples(value: unknown): value is Samples {
  if (typeof value !== "object" || value === null) return false;
  const members = value as Record<string, unknown>;
  return ["policy", ...SAMPLES.map(({ key }) => key)].every((name) => typeof members[name] === "string");
}
