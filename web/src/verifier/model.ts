import type { Problem } from "@clearseal/verifier";

/** Why vectors of `ours` cannot go together with those of the service's model `now`; null where they can, or where that is not known. */
export function otherModel(ours: string, now: string | null | undefined): Problem | null {
  if (now === null || now === undefined || now === ours) return null;
  return {
    code: "OTHER_MODEL",
    title: "The service runs another model now",
    detail: `The vectors so far are of ${ours}, and vectors of ${now} cannot be compared with them, so nothing more was sent.`,
    remedy: "Embed all of it anew.",
  };
}
