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
  /** From {@link requestOptions}. */
  readonly options: RequestInit;
  readonly timeoutMs: number;
}

/** No redirect is followed. Not `error`, which workerd refuses. */
const NO_REDIRECT: RequestInit = { redirect: "manual" };

/** Options of every request that this runtime takes. One that refuses `cache`, `credentials` or `referrerPolicy` has none. */
export function requestOptions(): RequestInit {
  const wanted: readonly RequestInit[] = [
    { cache: "no-store" },
    { credentials: "omit" },
    { referrerPolicy: "no-referrer" },
  ];
  const taken = wanted.filter((option) => whyRefused(option) === null);
  return Object.assign({ ...NO_REDIRECT }, ...taken);
}

/**
 * Fetches at most `limit` bytes, until one of `signals` aborts. An unsealed answer other than 200 comes from the host and is only
 * a hint.
 */
export async function request(
  transport: Transport,
  url: URL,
  limit: number,
  init: RequestInit,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<Reply> {
  // Neither `AbortSignal.any` nor `timeout`, which not every runtime has.
  const end = new AbortController();
  const { signal } = end;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    end.abort();
  }, transport.timeoutMs);
  const release = onAbort(signals, () => end.abort());
  try {
    if (signal.aborted) return unreachable(ABORTED);
    const response = await transport.fetch(url, { ...init, ...transport.options, signal });
    if (response.status === 200) {
      const bytes = await read(response, limit, signal);
      return bytes ? { status: "ok", bytes } : unreachable(tooLong(url, limit));
    }
    return await hint(response, url, signal);
  } catch (cause) {
    if (late) return unreachable(timedOut(url, transport.timeoutMs));
    if (signal.aborted) return unreachable(ABORTED);
    const missing = nameOf(cause) === "ReferenceError" ? messageOf(cause) : whyRefused(NO_REDIRECT);
    return unreachable(missing === null ? offline(url, cause) : lacking(missing));
  } finally {
    clearTimeout(timer);
    release();
  }
}

/** Why this runtime refuses an option of `fetch`; `null` if it takes it. */
function whyRefused(option: RequestInit): string | null {
  if (!globalThis.Request) return null;
  try {
    new Request("https://clearseal.internal", option);
    return null;
  } catch (cause) {
    return messageOf(cause);
  }
}

/**
 * Reads a body; `null` if it is longer than `limit`. Does not trust a declared length. Not every platform aborts the body with the
 * request's signal once `fetch` has resolved, so the signal is checked here too.
 */
async function read(
  response: Response,
  limit: number,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!response.body) return new Uint8Array(0);
  const reader = response.body.getReader();
  const { ended, release } = whenAborted(signal);
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

/** Calls `abort` once one of `signals` aborts, at once if it already has. Returns a function that removes the listeners. */
function onAbort(signals: readonly (AbortSignal | undefined)[], abort: () => void): () => void {
  for (const signal of signals) {
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
  }
  return () => {
    for (const signal of signals) signal?.removeEventListener("abort", abort);
  };
}

/** Rejects as soon as `signal` aborts. */
function whenAborted(signal: AbortSignal | undefined): {
  readonly ended: Promise<never>;
  readonly release: () => void;
} {
  let abort = () => {};
  const ended = new Promise<never>((_, reject) => {
    abort = () => reject(new DOMException("The reading was ended.", "AbortError"));
  });
  // Prevents an unhandled rejection if it aborts while nothing waits.
  ended.catch(() => undefined);
  return { ended, release: onAbort([signal], abort) };
}

/** Result of `work`, or `null` if `signal` aborts first. The work itself continues: others may await it too. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T | null> {
  const { ended, release } = whenAborted(signal);
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

async function hint(response: Response, url: URL, signal: AbortSignal): Promise<Reply> {
  const problem = await problemDetails(response, signal);
  if (problem?.type === KEY_PROBLEM) return { status: "key-unknown" };
  const code =
    typeof problem?.code === "string" && /^[A-Z][A-Z0-9_]{0,63}$/.test(problem.code) ? problem.code : null;
  const { status } = response;
  const denied = status === 413 || status === 429 || (status === 503 && /(^|_)BUSY$/.test(code ?? ""));
  return { status: denied ? "denied" : "unreachable", problem: refusal(response, url, code) };
}

function refusal({ status, type }: Response, url: URL, code: string | null): Problem {
  // Browsers hide a redirect's status.
  const moved = type === "opaqueredirect" || (status >= 300 && status < 400);
  const answer = moved ? "a redirect, which is not followed" : `status ${status}`;
  return {
    code: code ?? "HOST_REFUSED",
    title: "The host did not pass the request on",
    detail: `${url.origin} answered with ${answer}, without a seal: no one vouches for its content.`,
    remedy: status >= 500 || status === 429 ? "Try again later." : "Check the address.",
  };
}

async function problemDetails(
  response: Response,
  signal: AbortSignal,
): Promise<{ type?: unknown; code?: unknown } | null> {
  const mediaType = response.headers.get("content-type")?.toLowerCase();
  if (!mediaType?.startsWith("application/problem+json")) return null;
  const bytes = await read(response, LONGEST_PROBLEM, signal);
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

function lacking(missing: string): Problem {
  return {
    code: "RUNTIME_LACKS",
    title: "This JavaScript runtime lacks a feature",
    detail: `Nothing was sent: ${missing}.`,
    remedy: "Update the runtime, or pass a `fetch` that has the feature.",
  };
}

function offline(url: URL, cause: unknown): Problem {
  const why = messageOf(cause);
  return {
    code: "NETWORK",
    title: "The host cannot be reached",
    detail: `Could not connect to ${url.origin}${why ? ` (${why})` : ""}.`,
    remedy: "Check the address and the network, and whether the service is running.",
  };
}

/** Read by name: `instanceof` fails for an error of another realm, such as that of an EdgeVM. */
function messageOf(cause: unknown): string {
  return String((cause as { message?: unknown } | null)?.message ?? "");
}

function nameOf(cause: unknown): unknown {
  return (cause as { name?: unknown } | null)?.name;
}
