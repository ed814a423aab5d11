/**
 * The text of a policy, whichever way it was passed. Only a plain object is written out; what is neither text nor such an
 * object goes on as it is, so that the module refuses it by its own code (`POLICY_NOT_TEXT`) instead of guessing.
 */
export function policyText(policy: unknown): string | null {
  if (policy === undefined || policy === null) return null;
  if (typeof policy !== "object" || Array.isArray(policy)) return policy as string;
  try {
    return JSON.stringify(policy);
  } catch {
    // A cycle or a BigInt: no JSON text parses to it.
    return policy as unknown as string;
  }
}
