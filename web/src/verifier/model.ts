import type { Problem } from "@clearseal/verifier";

/** The problem if the service's model `now` differs from the model `ours` of existing vectors; null if equal or unknown. */
export function otherModel(ours: string, now: string | null | undefined): Problem | null {
  if (now === null || now === undefined || now === ours) return null;
  return {
    code: "OTHER_MODEL",
    title: "The service now runs another model",
    detail: `The existing vectors come from ${ours}. Vectors of ${now} cannot be compared with them, so nothing more was sent.`,
    remedy: "Embed all texts again.",
  };
}
