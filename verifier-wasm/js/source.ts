import { type PolicyInput, type PolicySource, PolicyUnusable, type Problem } from "./types.js";

/** A source that does not answer in this time has failed: requests wait for it. */
const PATIENCE_MS = 10_000;

/** Why a source gave no policy. */
export class SourceFailed {
  readonly problem: Problem;

  constructor(why: string) {
    this.problem = {
      code: "POLICY_SOURCE_FAILED",
      title: "The trust policy could not be fetched",
      detail: `The source of the trust policy failed: ${why}.`,
      remedy: "Mend the function that gives the policy. A policy that was taken before stays in force.",
    };
  }
}

/** Asks once. Never rejects. */
export async function read(source: PolicySource): Promise<PolicyInput | SourceFailed> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<SourceFailed>((resolve) => {
    timer = setTimeout(
      () => resolve(new SourceFailed(`no answer in ${PATIENCE_MS / 1000} seconds`)),
      PATIENCE_MS,
    );
  });
  try {
    return await Promise.race([source(), late]);
  } catch (cause) {
    return new SourceFailed(cause instanceof Error ? cause.message : String(cause));
  } finally {
    clearTimeout(timer);
  }
}

/** Where policies come from while a session is open, and how long an answer counts. */
export interface Follow {
  readonly source: PolicySource;
  readonly everyMs: number;
}

/** Asks a source again once its last answer is old. */
export class Follower {
  readonly #follow: Follow;
  readonly #now: () => number;
  readonly #take: (policy: PolicyInput) => void;
  #askedMs: number;
  #asking: Promise<void> | null = null;
  #problem: Problem | null = null;

  constructor(follow: Follow, now: () => number, take: (policy: PolicyInput) => void) {
    this.#follow = follow;
    this.#now = now;
    this.#take = take;
    this.#askedMs = now();
  }

  /** Why the next policy could not be taken. */
  get problem(): Problem | null {
    return this.#problem;
  }

  /** Where that is due; once for all that wait. */
  ask(): Promise<void> {
    if (this.#now() - this.#askedMs < this.#follow.everyMs) return Promise.resolve();
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #ask(): Promise<void> {
    const policy = await read(this.#follow.source);
    this.#askedMs = this.#now();
    if (policy instanceof SourceFailed) {
      this.#problem = policy.problem;
      return;
    }
    try {
      this.#take(policy);
      this.#problem = null;
    } catch (cause) {
      if (!(cause instanceof PolicyUnusable)) throw cause;
      const { code, message, remedy } = cause;
      this.#problem = { code, title: "The next trust policy is not usable", detail: message, remedy };
    }
  }
}
