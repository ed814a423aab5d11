import type { LogReport } from "@clearseal/verifier";
import type { Earlier } from "./messages";

/** State of the look-up of a receipt in its enclave's log. */
export type Lookup =
  | { readonly at: "unasked" | "asking" }
  | { readonly at: "unanswered"; readonly why: string }
  | { readonly at: "judged"; readonly report: LogReport; readonly since: Since | null };

/** An earlier head of the same log, which the later head provably extends. */
export interface Since {
  readonly size: number;
  /** Time of the signature in Unix seconds. */
  readonly time: number;
}

/** A valid proof: every later head must extend its signed head. */
interface Kept extends Since {
  /** The host's unmodified answer (`clearseal-log-inclusion/1`). */
  readonly inclusion: string;
}

/** Dependencies of a look-up: the network, the verifier, and storage that lasts as long as the tab. */
export interface Tools {
  readonly get: (path: `/v1/${string}`, signal: AbortSignal) => Promise<Response>;
  /** Null if the verifier has stopped. */
  readonly judge: (inclusion: string, earlier: Earlier | null) => Promise<LogReport | null>;
  readonly memory: Pick<Storage, "getItem" | "setItem">;
}

/**
 * Requests the proof that a receipt is in the log. The verifier checks it alone, and then for consistency with the newest head
 * seen before. A host that shows two histories cannot prove that one extends the other (RFC 9162 §2.1.4).
 *
 * @param log name of the log, which is the receipt key in hex
 * @param receipt SHA-256 of the receipt in hex
 */
export async function lookUp(tools: Tools, log: string, receipt: string): Promise<Lookup> {
  try {
    return await checkInclusion(tools, log, receipt);
  } catch {
    // The user can retry after any error.
    return FAILED;
  }
}

async function checkInclusion(tools: Tools, log: string, receipt: string): Promise<Lookup> {
  const inclusion = await ask(tools, `/v1/log/${log}/inclusion?receipt=${receipt}`);
  if (typeof inclusion !== "string") return inclusion;
  const alone = await tools.judge(inclusion, null);
  if (!alone) return STOPPED;
  const before = loadProof(tools.memory, log);
  if (alone.verdict === "refused" || !alone.head) return { at: "judged", report: alone, since: null };
  const { size, time } = alone.head;
  if (!before) {
    saveProof(tools.memory, log, { inclusion, size, time });
    return { at: "judged", report: alone, since: null };
  }
  // A smaller tree is refused without a proof.
  let consistency: string | null = null;
  if (size > before.size) {
    const answer = await ask(tools, `/v1/log/${log}/consistency?from=${before.size}&to=${size}`);
    if (typeof answer !== "string") return answer;
    consistency = answer;
  }
  const report = await tools.judge(inclusion, { inclusion: before.inclusion, consistency });
  if (!report) return STOPPED;
  if (report.verdict !== "refused") saveProof(tools.memory, log, { inclusion, size, time });
  return { at: "judged", report, since: { size: before.size, time: before.time } };
}

const FAILED: Lookup = {
  at: "unanswered",
  why: "Looking it up failed in this page, which proves nothing. Look it up again.",
};

const STOPPED: Lookup = {
  at: "unanswered",
  why: "The verifier that checked this receipt has stopped. Check again, which starts a new one.",
};

/** The verifier rejects longer proofs. */
const MAX_ANSWER_BYTES = 256 * 1024;

/** Timeout for one answer, including its body. */
const TIMEOUT_MS = 30_000;

async function ask({ get }: Tools, path: `/v1/${string}`): Promise<string | Lookup> {
  try {
    const answer = await get(path, AbortSignal.timeout(TIMEOUT_MS));
    return answer.ok ? await readText(answer) : describeFailure(answer, path);
  } catch (cause) {
    return cause instanceof TooLong ? TOO_LONG : UNREACHED;
  }
}

const UNREACHED: Lookup = {
  at: "unanswered",
  why: "The log could not be reached. Everything else on this page needs no network.",
};

const TOO_LONG: Lookup = {
  at: "unanswered",
  why: "The log's answer is longer than any proof, which proves nothing.",
};

class TooLong extends Error {}

function describeFailure(answer: Response, path: string): Lookup {
  // The body is not needed.
  void answer.body?.cancel().catch(() => undefined);
  if (answer.status === 404) {
    return {
      at: "unanswered",
      why: path.includes("/consistency")
        ? "This service's log does not know a size that it proved earlier in this tab: the log was replaced or truncated."
        : "This service's log does not contain the receipt: it belongs to another service, is not published yet, or was omitted.",
    };
  }
  return { at: "unanswered", why: `The log answered with status ${answer.status}, which proves nothing.` };
}

/** Counts the length while reading: a host may send an endless answer. */
async function readText(answer: Response): Promise<string> {
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

/** Stored proofs are checked again like the host's answers; this function validates only their shape. */
function loadProof(memory: Tools["memory"], log: string): Kept | null {
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

function saveProof(memory: Tools["memory"], log: string, kept: Kept): void {
  try {
    memory.setItem(KEY + log, JSON.stringify(kept));
  } catch {
    // The next look-up reports that it compared no earlier head.
  }
}
