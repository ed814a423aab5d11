/**
 * Text of a policy, passed as text or as a parsed object. Any other value is returned unchanged, so that the module refuses it
 * with the code `POLICY_NOT_TEXT`.
 */
export function policyText(policy: unknown): string | null {
  if (policy === undefined || policy === null) return null;
  if (typeof policy !== "object" || Array.isArray(policy)) return policy as string;
  try {
    return JSON.stringify(policy);
  } catch {
    // A cycle or a BigInt, which JSON cannot express.
    return policy as unknown as string;
  }
}
