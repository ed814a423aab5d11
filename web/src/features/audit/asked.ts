import { useRef, useState, useSyncExternalStore } from "react";
import { usePolicies } from "../policy/Provenance";
import type { ChosenPolicy } from "../policy/policy-store";
import type { AuditStore } from "./audit-store";

/** What an answer rests on besides the question: the policy that was in force, and the worker that gave it. */
export interface Grounds {
  readonly chosen: ChosenPolicy | null;
  readonly losses: number;
}

/** A question to the auditor. `gone`: the worker stopped before it answered, or since. */
export type Asked<T> =
  | { readonly at: "no" | "gone" }
  | { readonly at: "asking"; readonly on: Grounds }
  | { readonly at: "answered"; readonly on: Grounds; readonly answer: T };

/** Pure. What is left of it on the grounds that there are now. */
export function standing<T>(asked: Asked<T>, now: Grounds): Asked<T> {
  if (!("on" in asked)) return asked;
  if (asked.on.chosen !== now.chosen) return { at: "no" };
  return asked.on.losses === now.losses ? asked : { at: "gone" };
}

/**
 * A question whose answer is shown for as long as it is about what its reader sees: `ask` takes the place of an earlier
 * question, and `drop`, for each edit, leaves none.
 */
export function useAsked<T>(store: AuditStore) {
  const { losses } = useSyncExternalStore(store.subscribe, store.get);
  const { chosen } = usePolicies();
  const [asked, setAsked] = useState<Asked<T>>({ at: "no" });
  const turn = useRef(0);
  const on: Grounds = { chosen, losses };
  const drop = () => {
    turn.current += 1;
    setAsked({ at: "no" });
  };
  const ask = async (question: () => Promise<T | null>) => {
    turn.current += 1;
    const mine = turn.current;
    setAsked({ at: "asking", on });
    const answer = await question();
    if (mine !== turn.current) return;
    setAsked(answer === null ? { at: "gone" } : { at: "answered", on, answer });
  };
  return { asked: standing(asked, on), ask, drop };
}
