import { type PolicyInput, type PolicySource, PolicyUnusable, type Problem } from "./types.js";

/** Timeout of a policy source. Requests wait for it. */
const TIMEOUT_MS = 10_000;

/** Why a source gave no policy. */
export class SourceFailed {
  readonly problem: Problem;

  constructor(why: string) {
    this.problem = {
      code: "POLICY_SOURCE_FAILED",
      title: "The trust policy could not be fetched",
      detail: `The source of the trust policy failed: ${why}.`,
      remedy: "Fix the function that returns the policy. The previous policy, if any, stays in force.",
    };
  }
}

/** Calls the source once. Never rejects. */
export async function read(source: PolicySource): Promise<PolicyInput | SourceFailed> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<SourceFailed>((resolve) => {
    timer = setTimeout(
      () => resolve(new SourceFailed(`no answer in ${TIMEOUT_MS / 1000} seconds`)),
      TIMEOUT_MS,
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

/** Source of policies while a session is open, and how often it is asked. */
export interface Follow {
  readonly source: PolicySource;
  readonly everyMs: number;
}

/** Asks a policy source again once its last answer is older than `everyMs`. */
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

  /** Why the latest policy could not be used. */
  get problem(): Problem | null {
    return this.#problem;
  }

  /** Asks the source if that is due. Concurrent callers share one call. */
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
