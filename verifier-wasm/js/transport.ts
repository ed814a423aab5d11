import type { Problem } from "./types.js";

/** RFC 9458 §5.3 */
const KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key";
const LONGEST_PROBLEM = 16 * 1024;

export type Reply =
  | { readonly status: "ok"; readonly bytes: Uint8Array }
  | { readonly status: "key-unknown" }
  /** The host is busy or refuses the size: a retry with another enclave would not help. */
  | { readonly status: "denied"; readonly problem: Problem }
  | { readonly status: "unreachable"; readonly problem: Problem };

export interface Transport {
  readonly fetch: typeof fetch;
  readonly timeoutMs: number;
}

/** Fetches at most `limit` bytes. An unsealed answer other than 200 comes from the host and is only a hint. */
export async function request(
  transport: Transport,
  url: URL,
  limit: number,
  init: RequestInit,
  signal: AbortSignal | undefined,
): Promise<Reply> {
  const timeout = AbortSignal.timeout(transport.timeoutMs);
  try {
    signal?.throwIfAborted();
    const response = await transport.fetch(url, {
      ...init,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    if (response.status === 200) {
      const bytes = await read(response, limit, [timeout, signal]);
      return bytes ? { status: "ok", bytes } : unreachable(tooLong(url, limit));
    }
    return await hint(response, url, [timeout, signal]);
  } catch (cause) {
    if (signal?.aborted) return unreachable(ABORTED);
    if (timeout.aborted) return unreachable(timedOut(url, transport.timeoutMs));
    return unreachable(offline(url, cause));
  }
}

type Ends = readonly (AbortSignal | undefined)[];

/**
 * Reads a body; `null` if it is longer than `limit`. Does not trust a declared length. Not every platform aborts the body with the
 * request's signal once `fetch` has resolved, so the signals are checked here too.
 */
async function read(response: Response, limit: number, ends: Ends): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!response.body) return new Uint8Array(0);
  const reader = response.body.getReader();
  const { ended, release } = whenAborted(ends);
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), ended]);
      if (done) break;
      length += value.byteLength;
      if (length > limit) {
        abandon(reader);
        return null;
      }
      chunks.push(value);
    }
  } catch (cause) {
    abandon(reader);
    throw cause;
  } finally {
    release();
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/** Rejects as soon as one of the signals aborts. */
function whenAborted(signals: Ends): { readonly ended: Promise<never>; readonly release: () => void } {
  let abort = () => {};
  const ended = new Promise<never>((_, reject) => {
    abort = () => reject(new DOMException("The reading was ended.", "AbortError"));
  });
  // Prevents an unhandled rejection if it aborts while nothing waits.
  ended.catch(() => undefined);
  for (const signal of signals) {
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
  }
  const release = () => {
    for (const signal of signals) signal?.removeEventListener("abort", abort);
  };
  return { ended, release };
}

/** Result of `work`, or `null` if `signal` aborts first. The work itself continues: others may await it too. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T | null> {
  const { ended, release } = whenAborted([signal]);
  try {
    return await Promise.race([work, ended.catch(() => null)]);
  } finally {
    release();
  }
}

/** Closes the connection, and ignores an error: it may be closed already. */
function abandon(reader: ReadableStreamDefaultReader<Uint8Array>): void {
  reader.cancel().catch(() => undefined);
}

async function hint(response: Response, url: URL, ends: Ends): Promise<Reply> {
  const problem = await problemDetails(response, ends);
  if (problem?.type === KEY_PROBLEM) return { status: "key-unknown" };
  const code =
    typeof problem?.code === "string" && /^[A-Z][A-Z0-9_]{0,63}$/.test(problem.code) ? problem.code : null;
  const { status } = response;
  const denied = status === 413 || status === 429 || (status === 503 && /(^|_)BUSY$/.test(code ?? ""));
  return { status: denied ? "denied" : "unreachable", problem: refusal(response, url, code) };
}

function refusal(response: Response, url: URL, code: string | null): Problem {
  return {
    code: code ?? "HOST_REFUSED",
    title: "The host did not pass the request on",
    detail: `${url.origin} answered with status ${response.status}, without a seal: no one vouches for its content.`,
    remedy: response.status >= 500 || response.status === 429 ? "Try again later." : "Check the address.",
  };
}

async function problemDetails(
  response: Response,
  ends: Ends,
): Promise<{ type?: unknown; code?: unknown } | null> {
  const mediaType = response.headers.get("content-type")?.toLowerCase();
  if (!mediaType?.startsWith("application/problem+json")) return null;
  const bytes = await read(response, LONGEST_PROBLEM, ends);
  if (!bytes) return null;
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof parsed === "object" ? parsed : null;
  } catch {
    // Not a problem document: only the status is reported.
    return null;
  }
}

export function unreachable(problem: Problem): { readonly status: "unreachable"; readonly problem: Problem } {
  return { status: "unreachable", problem };
}

export const ABORTED: Problem = {
  code: "ABORTED",
  title: "Cancelled",
  detail: "The request was cancelled before it was answered.",
  remedy: "Send it again when you like.",
};

function timedOut(url: URL, timeoutMs: number): Problem {
  return {
    code: "TIMEOUT",
    title: "No answer in time",
    detail: `${url.origin} did not answer within ${timeoutMs / 1000} seconds.`,
    remedy: "Try again; if it goes on, the host or the enclave is overloaded or down.",
  };
}

function tooLong(url: URL, limit: number): Problem {
  return {
    code: "ANSWER_TOO_LARGE",
    title: "The answer is too large",
    detail: `${url.origin} sent more than ${limit} bytes, which this protocol never needs here.`,
    remedy: "Check the address; suspect the host.",
  };
}

function offline(url: URL, cause: unknown): Problem {
  const why = cause instanceof Error ? ` (${cause.message})` : "";
  return {
    code: "NETWORK",
    title: "The host cannot be reached",
    detail: `Could not connect to ${url.origin}${why}.`,
    remedy: "Check the address and the network, and whether the service is running.",
  };
}
