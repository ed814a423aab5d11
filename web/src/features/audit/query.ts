import { useRef, useState, useSyncExternalStore } from "react";
import { usePolicies } from "../policy/Provenance";
import type { ChosenPolicy } from "../policy/policy-store";
import type { AuditStore } from "./audit-store";

/** Basis of an answer: the policy in use, and the worker, identified by the number of earlier losses. */
export interface Basis {
  readonly chosen: ChosenPolicy | null;
  readonly losses: number;
}

/** State of a question to the auditor. `stopped`: the worker stopped before or after its answer. */
export type Query<T> =
  | { readonly at: "idle" | "stopped" }
  | { readonly at: "asking"; readonly on: Basis }
  | { readonly at: "answered"; readonly on: Basis; readonly answer: T };

/** Pure. Invalidates an answer whose basis has changed. */
export function currentQuery<T>(query: Query<T>, now: Basis): Query<T> {
  if (!("on" in query)) return query;
  if (query.on.chosen !== now.chosen) return { at: "idle" };
  return query.on.losses === now.losses ? query : { at: "stopped" };
}

/**
 * A question whose answer is shown only while it matches the form: `ask` replaces an earlier question, and `drop`, called on
 * each edit, discards it.
 */
export function useQuery<T>(store: AuditStore) {
  const { losses } = useSyncExternalStore(store.subscribe, store.get);
  const { chosen } = usePolicies();
  const [query, setQuery] = useState<Query<T>>({ at: "idle" });
  const turn = useRef(0);
  const on: Basis = { chosen, losses };
  const drop = () => {
    turn.current += 1;
    setQuery({ at: "idle" });
  };
  const ask = async (question: () => Promise<T | null>) => {
    turn.current += 1;
    const mine = turn.current;
    setQuery({ at: "asking", on });
    const answer = await question();
    if (mine !== turn.current) return;
    setQuery(answer === null ? { at: "stopped" } : { at: "answered", on, answer });
  };
  return { query: currentQuery(query, on), ask, drop };
}
