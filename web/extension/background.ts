import { api, findTabs, forgetTab, raiseNewest, readPages, readsAnswers, readTab, writeTab } from "./api.ts";
import {
  addsStyleSheet,
  compare,
  isServiceRequest,
  join,
  loadRelease,
  originOf,
  type Release,
  readAnswer,
  type WatchedPage,
} from "./release.ts";
import { advance, advanceEarlier, type Event, type Found, summarize } from "./state.ts";
import { BADGES, DIFFERENCES } from "./words.ts";

/** Largest file of a release in bytes (crates/release/src/manifest.rs). */
const MAX_FILE_BYTES = 64 << 20;
const ALL = { urls: ["<all_urls>"] };

/** Read once a start of this script, and again when the user changes them. */
let pages = readPages();
api.storage.onChanged.addListener((changes, area) => {
  if (area !== "local" || !changes.pages) return;
  pages = readPages();
  const { oldValue, newValue } = changes.pages;
  void queue(() => dropVerdicts(oldValue as StoredPages, newValue as StoredPages));
});

type StoredPages = readonly WatchedPage[] | undefined;

/** A verdict under an entry that the user has changed or removed is not one under the present entry. */
async function dropVerdicts(before: StoredPages, after: StoredPages): Promise<void> {
  const kept = new Set(after?.map((page) => JSON.stringify(page)));
  for (const page of before ?? []) {
    if (kept.has(JSON.stringify(page))) continue;
    for (const tab of await findTabs(page.origin)) {
      const stored = await readTab(tab);
      const problem = "The entry of this page was changed since the page loaded. Reload the page.";
      const state = advance(stored?.state ?? null, { type: "unavailable", problem });
      if (stored && state) await writeTab(tab, { ...stored, state });
      await paint(tab);
    }
  }
}

/** Releases by the number of the load that they are for. */
const releases = new Map<number, Promise<Release | null>>();
/** Heads of answers that are held back. */
const heads = new Map<string, RequestDetails>();

/** Listeners must not overlap: each reads a tab's state and writes it again. */
let last: Promise<unknown> = Promise.resolve();
function queue<T>(work: () => Promise<T>): Promise<T> {
  const next = last.then(work);
  last = next.catch(() => undefined);
  return next;
}

/** One load of a watched page in one tab. */
interface Load {
  readonly tab: number;
  readonly number: number;
}

async function findPage({ url, initiator, originUrl }: RequestDetails): Promise<WatchedPage | undefined> {
  // The extension's own requests, of which it must not wait for itself.
  if ((initiator ?? originUrl ?? "").startsWith(api.runtime.getURL("").replace(/\/$/, ""))) return undefined;
  const origin = new URL(url).origin.replace(/^ws/, "http");
  return (await pages).find((page) => page.origin === origin);
}

async function begin(page: WatchedPage, tab: number): Promise<Load> {
  const earlier = await readTab(tab);
  const number = Date.now() + Math.random();
  const state = advance(earlier?.state ?? null, { type: "navigated", origin: page.origin });
  if (state) await writeTab(tab, { load: number, state });
  const load = { tab, number };
  releases.set(number, prepare(page, load));
  return load;
}

/** The page's release now, unless an older signature replaces a newer one. */
async function prepare(page: WatchedPage, load: Load): Promise<Release | null> {
  try {
    const release = await loadRelease(page, Math.floor(Date.now() / 1000));
    const { name, commit, signed } = release;
    if (!(await queue(() => raiseNewest(page.origin, signed)))) {
      throw new Error("The manifest has an older signature than one that was seen before.");
    }
    await note(load, { type: "loaded", release: { name, commit, signed } });
    return release;
  } catch (cause) {
    await note(load, {
      type: "unavailable",
      problem: cause instanceof Error ? cause.message : String(cause),
    });
    return null;
  }
}

function note({ tab, number }: Load, event: Event): Promise<void> {
  return queue(async () => {
    const stored = await readTab(tab);
    if (!stored) return;
    const { load } = stored;
    const state = load === number ? advance(stored.state, event) : advanceEarlier(stored.state, event);
    if (!state) return;
    await writeTab(tab, { load, state });
    await paint(tab);
  });
}

/** Shows the state of the tab's last load, and nothing while the tab shows another page or one that is not watched. Called in the queue. */
async function paint(tab: number): Promise<void> {
  const stored = await readTab(tab);
  if (!stored) return;
  // Without a permission for the address, `url` is absent: the tab may also be closed.
  const shown = await api.tabs.get(tab).catch(() => undefined);
  const { name } = api.runtime.getManifest();
  const { origin } = stored.state;
  if (originOf(shown?.url) !== origin || !(await pages).some((page) => page.origin === origin)) {
    await setBadge(tab, "", name);
    return;
  }
  const { text, color, title } = BADGES[summarize(stored.state)];
  const [first] = stored.state.differences;
  const detail = first ? `, ${new URL(first.url).pathname}: ${DIFFERENCES[first.why]}` : "";
  await setBadge(tab, text, `${name}: ${title}${detail}`, color);
}

async function setBadge(tabId: number, text: string, title: string, color?: string): Promise<void> {
  // The tab may be closed.
  await Promise.all([
    api.action.setBadgeText({ text, tabId }),
    ...(color === undefined ? [] : [api.action.setBadgeBackgroundColor({ color, tabId })]),
    api.action.setTitle({ title, tabId }),
  ]).catch(() => undefined);
}

/** Loads that a request belongs to. A service worker's requests belong to no tab, so they count for each. */
async function findLoads(page: WatchedPage, { tabId, type }: RequestDetails): Promise<Load[]> {
  if (type === "main_frame") return [await begin(page, tabId)];
  const tabs = tabId >= 0 ? [tabId] : await findTabs(page.origin);
  const loads = await Promise.all(
    tabs.map(async (tab) => {
      const stored = await readTab(tab);
      return stored?.state.origin === page.origin ? [{ tab, number: stored.load }] : [];
    }),
  );
  return loads.flat();
}

/** Loads of the requests whose answers are not compared yet; none for a request of no watched page. */
const open = new Map<string, Promise<readonly Load[]>>();

api.webRequest.onBeforeRequest.addListener(
  (details) => {
    const watched = watch(details);
    open.set(details.requestId, watched);
    // Firefox waits, so that the first byte is read too.
    return readsAnswers ? watched.then(() => undefined) : undefined;
  },
  ALL,
  ...(readsAnswers ? [["blocking"]] : []),
);

async function watch(details: RequestDetails): Promise<readonly Load[]> {
  const page = await findPage(details);
  if (!page || isServiceRequest(details.url, details.type)) return [];
  const loads = await queue(() => findLoads(page, details));
  if (loads.length === 0) return [];
  if (readsAnswers) holdAnswer(details, loads);
  await noteAll(loads, { type: "asked" });
  return loads;
}

/** Ends the wait for an answer. */
async function take(requestId: string): Promise<readonly Load[]> {
  const loads = open.get(requestId);
  open.delete(requestId);
  return (await loads) ?? [];
}

async function noteAll(loads: readonly Load[], event: Event): Promise<void> {
  await Promise.all(loads.map((load) => note(load, event)));
}

/** Called with whether an answer arrived as a whole. */
const ends = new Map<string, (isWhole: boolean) => void>();

function endAnswer(requestId: string, isWhole: boolean): void {
  ends.get(requestId)?.(isWhole);
  ends.delete(requestId);
}

/** Firefox: holds an answer back until it is compared, so that a changed byte does not run. */
function holdAnswer(details: RequestDetails, loads: readonly Load[]): void {
  const filter = api.webRequest.filterResponseData?.(details.requestId);
  if (!filter) return;
  const { url } = details;
  const isDocument = details.type === "main_frame";
  const chunks: Uint8Array[] = [];
  let length = 0;
  filter.ondata = ({ data }) => {
    length += data.byteLength;
    if (length <= MAX_FILE_BYTES) chunks.push(new Uint8Array(data));
  };
  const end = new Promise<boolean>((resolve) => ends.set(details.requestId, resolve));
  filter.onstop = async () => {
    const body = join(chunks);
    const found = length > MAX_FILE_BYTES ? "bytes" : await judge(details, loads, body);
    if (found === "same" || found === null) filter.write(body);
    else if (isDocument) filter.write(new TextEncoder().encode(BLOCKED));
    filter.close();
    // A navigation cuts the answers that are still arriving. None of their bytes were passed on, so the part is not a difference.
    const isWhole = found === "same" || (await end);
    await noteAll(loads, isWhole ? { type: "compared", url, isDocument, found } : { type: "skipped" });
  };
  filter.onerror = async () => {
    heads.delete(details.requestId);
    // A navigation that cuts an answer is not a problem of its load, which the tab would remember.
    const isWhole = await end;
    const problem = `The answer of ${url} could not be read.`;
    await noteAll(loads, { type: "skipped" });
    if (isWhole) await noteAll(loads, { type: "unavailable", problem });
  };
}

const BLOCKED =
  "<!doctype html><title>Not the release</title><p>The Clearseal extension did not show this page: its bytes are not those of the signed release.";

/** Types of requests whose errors a browser does not apply, or gives to a script as data. It shows documents and images of errors. */
const UNUSED_ERRORS = new Set(["script", "stylesheet", "font", "xmlhttprequest"]);

/** Firefox requests `/favicon.ico` unasked, and shows no icon of an error. */
function ignoresError(url: string, type: string): boolean {
  return UNUSED_ERRORS.has(type) || (type === "image" && new URL(url).pathname === "/favicon.ico");
}

/** Compares an answer with the release of the load. Null if there is nothing to compare with. */
async function judge(
  { requestId, url, type, statusCode }: RequestDetails,
  loads: readonly Load[],
  body: Uint8Array<ArrayBuffer>,
): Promise<Found> {
  const head = heads.get(requestId);
  heads.delete(requestId);
  const status = statusCode ?? head?.statusCode ?? 200;
  if (status >= 400 && ignoresError(url, type)) return null;
  const release = await releaseOf(loads);
  if (!release) return null;
  return head && addsStyleSheet(head) ? "header" : compare(release, url, type, body);
}

async function releaseOf(loads: readonly Load[]): Promise<Release | null> {
  const [load] = loads;
  if (!load) return null;
  const known = releases.get(load.number);
  if (known) return known;
  // The browser ended this script after the load.
  const stored = await readTab(load.tab);
  const page = (await pages).find(({ origin }) => origin === stored?.state.origin);
  const prepared = page ? prepare(page, load) : Promise.resolve(null);
  releases.set(load.number, prepared);
  return prepared;
}

api.webRequest.onHeadersReceived.addListener(
  (details) => {
    if (ends.has(details.requestId)) heads.set(details.requestId, details);
  },
  ALL,
  ["responseHeaders"],
);

api.webRequest.onBeforeRedirect.addListener(async ({ requestId, url, type }) => {
  const loads = await take(requestId);
  // The next address of a document is a navigation, too.
  const isDocument = type === "main_frame";
  await noteAll(
    loads,
    isDocument ? { type: "skipped" } : { type: "compared", url, isDocument, found: "redirected" },
  );
}, ALL);

api.webRequest.onCompleted.addListener(async (details) => {
  endAnswer(details.requestId, true);
  const loads = await take(details.requestId);
  // Chromium gives no extension the bytes that run: the same address is requested a second time.
  if (!readsAnswers && loads.length > 0) await compareAgain(details, loads);
}, ALL);

async function compareAgain(details: RequestDetails, loads: readonly Load[]): Promise<void> {
  const answer = await fetch(details.url, { cache: "no-store", credentials: "omit" }).catch(() => null);
  const body = answer && (await readAnswer(answer, MAX_FILE_BYTES).catch(() => null));
  if (body) {
    const found = await judge(details, loads, body);
    const isDocument = details.type === "main_frame";
    await noteAll(loads, { type: "compared", url: details.url, isDocument, found });
    return;
  }
  const problem = `${details.url} could not be requested a second time.`;
  await noteAll(loads, { type: "skipped" });
  await noteAll(loads, { type: "unavailable", problem });
}

api.webRequest.onErrorOccurred.addListener(async ({ requestId }) => {
  endAnswer(requestId, false);
  const loads = await take(requestId);
  if (!readsAnswers) await noteAll(loads, { type: "skipped" });
}, ALL);

// A browser clears a tab's badge when it shows the next document. A comparison may end before the tab has that document's address.
api.tabs.onUpdated.addListener((id, { url, status }) => {
  if (url !== undefined || status === "complete") void queue(() => paint(id));
});
// In the queue, so that no step which read the state before writes it again.
api.tabs.onRemoved.addListener((id) => void queue(() => forgetTab(id)));
