import type { LogReport } from "@clearseal/verifier";
import type { Earlier } from "./messages";

/** What is known of a receipt's place in its enclave's log. */
export type Place =
  | { readonly at: "unasked" | "asking" }
  | { readonly at: "unanswered"; readonly why: string }
  | { readonly at: "judged"; readonly report: LogReport; readonly since: Since | null };

/** An earlier head of the same log, which the later one was shown to lead on from. */
export interface Since {
  readonly size: number;
  /** When it was signed, Unix seconds. */
  readonly time: number;
}

/** A proof that held: its signed head is what every later one has to lead on from. */
interface Kept extends Since {
  /** The host's answer as it came (`clearseal-log-inclusion/1`). */
  readonly inclusion: string;
}

/** What looking something up needs: the network, the verifier, and a memory that lasts as long as the tab. */
export interface Tools {
  readonly get: (path: `/v1/${string}`, signal: AbortSignal) => Promise<Response>;
  /** Null where the verifier has stopped. */
  readonly judge: (inclusion: string, earlier: Earlier | null) => Promise<LogReport | null>;
  readonly memory: Pick<Storage, "getItem" | "setItem">;
}

/**
 * Asks the host for the proof that a receipt is in the log, and has it judged: alone, and against the newest head of this
 * log that was seen before. A host that tells two histories cannot lead on from one to the other.
 *
 * @param log name of the log, which is the receipt key in hex
 * @param receipt SHA-256 of the receipt in hex
 */
export async function lookUp(tools: Tools, log: string, receipt: string): Promise<Place> {
  try {
    return await found(tools, log, receipt);
  } catch {
    // Whatever happened, its reader can ask again.
    return FAILED;
  }
}

async function found(tools: Tools, log: string, receipt: string): Promise<Place> {
  const inclusion = await ask(tools, `/v1/log/${log}/inclusion?receipt=${receipt}`);
  if (typeof inclusion !== "string") return inclusion;
  const alone = await tools.judge(inclusion, null);
  if (!alone) return STOPPED;
  const before = recall(tools.memory, log);
  if (alone.verdict === "refused" || !alone.head) return { at: "judged", report: alone, since: null };
  const { size, time } = alone.head;
  if (!before) {
    keep(tools.memory, log, { inclusion, size, time });
    return { at: "judged", report: alone, since: null };
  }
  // A tree that has shrunk needs no proof to be refused.
  let consistency: string | null = null;
  if (size > before.size) {
    const answer = await ask(tools, `/v1/log/${log}/consistency?from=${before.size}&to=${size}`);
    if (typeof answer !== "string") return answer;
    consistency = answer;
  }
  const report = await tools.judge(inclusion, { inclusion: before.inclusion, consistency });
  if (!report) return STOPPED;
  if (report.verdict !== "refused") keep(tools.memory, log, { inclusion, size, time });
  return { at: "judged", report, since: { size: before.size, time: before.time } };
}

const FAILED: Place = {
  at: "unanswered",
  why: "Looking it up failed in this page, which proves nothing. Look it up again.",
};

const STOPPED: Place = {
  at: "unanswered",
  why: "The verifier that judged this has stopped. Judge again: that starts a fresh one.",
};

/** The verifier reads no longer proof. */
const MAX_ANSWER_BYTES = 256 * 1024;

/** For one answer, its body included. */
const PATIENCE_MS = 30_000;

async function ask({ get }: Tools, path: `/v1/${string}`): Promise<string | Place> {
  try {
    const answer = await get(path, AbortSignal.timeout(PATIENCE_MS));
    return answer.ok ? await textOf(answer) : refusedBy(answer, path);
  } catch (cause) {
    return cause instanceof TooLong ? TOO_LONG : UNREACHED;
  }
}

const UNREACHED: Place = {
  at: "unanswered",
  why: "The log could not be reached. Everything else on this page needs no network.",
};

const TOO_LONG: Place = {
  at: "unanswered",
  why: "The log answered with more than any proof has, which proves nothing.",
};

class TooLong extends Error {}

function refusedBy(answer: Response, path: string): Place {
  // Nobody reads it: the connection need not bring it.
  void answer.body?.cancel().catch(() => undefined);
  if (answer.status === 404) {
    return {
      at: "unanswered",
      why: path.includes("/consistency")
        ? "This service's log knows nothing of a size that it proved earlier in this tab: it was replaced, or cut off."
        : "This service's log does not hold the receipt: it is of another service, it is not there yet, or it was left out.",
    };
  }
  return { at: "unanswered", why: `The log answered with status ${answer.status}, which proves nothing.` };
}

/** A host may send without end, so the length is counted as it comes. */
async function textOf(answer: Response): Promise<string> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    length += read.value.length;
    if (length > MAX_ANSWER_BYTES) {
      void reader?.cancel().catch(() => undefined);
      throw new TooLong();
    }
    text += decoder.decode(read.value, { stream: true });
  }
  return text + decoder.decode();
}

const KEY = "clearseal.log.";

/** Whatever stands in the storage is judged again as if the host had sent it; only its size is read here. */
function recall(memory: Tools["memory"], log: string): Kept | null {
  try {
    const text = memory.getItem(KEY + log);
    if (text === null) return null;
    const { inclusion, size, time } = JSON.parse(text) as Partial<Kept>;
    if (typeof inclusion !== "string" || !Number.isSafeInteger(size) || !Number.isSafeInteger(time))
      return null;
    return { inclusion, size: size as number, time: time as number };
  } catch {
    return null;
  }
}

function keep(memory: Tools["memory"], log: string, kept: Kept): void {
  try {
    memory.setItem(KEY + log, JSON.stringify(kept));
  } catch {
    // The next look-up then shows that nothing earlier was compared.
  }
}
