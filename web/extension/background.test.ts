import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { beforeEach, expect, test, vi } from "vitest";
import type { WatchedPage } from "./release";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const FILES: Record<string, string> = { "index.html": "<p>", "assets/a.js": "1" };
const MANIFEST = Buffer.from(
  JSON.stringify({
    format: "clearseal-release/1",
    name: "0.1.0",
    commit: "3d".repeat(20),
    page: Object.fromEntries(Object.entries(FILES).map(([path, text]) => [path, { sha256: sha256(text) }])),
  }),
);
const KEY = generateKeyPairSync("ed25519");
const PAGE = {
  origin: "https://page.example",
  key: Buffer.concat([
    Buffer.from("Ed"),
    Buffer.alloc(8),
    KEY.publicKey.export({ format: "der", type: "spki" }).subarray(-32),
  ]).toString("base64"),
  manifest: "https://publisher.example/release.json",
};

function signManifest(at: number): string {
  const overFile = sign(null, createHash("blake2b512").update(MANIFEST).digest(), KEY.privateKey);
  const comment = `timestamp:${at}`;
  const overAll = sign(null, Buffer.concat([overFile, Buffer.from(comment)]), KEY.privateKey);
  const head = Buffer.concat([Buffer.from("ED"), Buffer.alloc(8), overFile]).toString("base64");
  return `untrusted comment: a test\n${head}\ntrusted comment: ${comment}\n${overAll.toString("base64")}\n`;
}

interface Filter extends StreamFilter {
  written: string;
  closed: boolean;
}

/** A browser whose tabs show the page until a test names other addresses. */
class FakeBrowser {
  readonly listeners: Record<string, (...details: readonly unknown[]) => unknown> = {};
  readonly filters = new Map<string, Filter>();
  readonly badges = new Map<number, string>();
  /** Addresses of tabs; undefined is one that the extension must not read. */
  readonly addresses = new Map<number, string | undefined>();
  /** Until it resolves, the extension waits for what it has read from its storage. */
  reading: Promise<void> = Promise.resolve();
  #requests = 0;

  constructor(readsAnswers: boolean) {
    const on = (name: string) => ({
      addListener: (listener: never) => {
        this.listeners[name] = listener;
      },
    });
    const area = () => {
      const items: Record<string, unknown> = {};
      return {
        get: async (key: string | null) => {
          const found = key === null ? { ...items } : { [key]: items[key] };
          await this.reading;
          return found;
        },
        set: async (more: Record<string, unknown>) => void Object.assign(items, structuredClone(more)),
        remove: async (key: string) => void delete items[key],
      };
    };
    vi.stubGlobal("chrome", {
      action: {
        setBadgeText: async ({ text, tabId }: { text: string; tabId: number }) => {
          this.badges.set(tabId, text);
        },
        setBadgeBackgroundColor: async () => undefined,
        setTitle: async () => undefined,
      },
      runtime: {
        getURL: (path: string) => `moz-extension://own/${path}`,
        getManifest: () => ({ name: "test" }),
      },
      storage: { local: area(), session: area(), onChanged: on("changed") },
      tabs: {
        get: async (id: number) => ({
          id,
          url: this.addresses.has(id) ? this.addresses.get(id) : `${PAGE.origin}/`,
        }),
        onUpdated: on("updated"),
        onRemoved: on("removed"),
      },
      webRequest: {
        ...Object.fromEntries(
          ["onBeforeRequest", "onHeadersReceived", "onBeforeRedirect", "onCompleted", "onErrorOccurred"].map(
            (name) => [name, on(name)],
          ),
        ),
        ...(readsAnswers && { filterResponseData: (id: string) => this.#filter(id) }),
      },
    });
    vi.stubGlobal("__CLEARSEAL_PAGES__", [PAGE]);
  }

  /** Badge of the first tab. */
  get badge(): string | undefined {
    return this.badges.get(1);
  }

  /** The tab shows another document. A browser clears its badge. */
  async show(address: string | undefined, tabId = 1): Promise<void> {
    this.addresses.set(tabId, address);
    this.badges.set(tabId, "");
    await this.listeners.updated?.(tabId, { status: "complete" }, { id: tabId });
  }

  #filter(id: string): Filter {
    const filter: Filter = {
      ondata: () => undefined,
      onstop: () => undefined,
      onerror: () => undefined,
      written: "",
      closed: false,
      write: (data) => {
        filter.written += new TextDecoder().decode(data);
      },
      close: () => {
        filter.closed = true;
      },
      disconnect: () => undefined,
    };
    this.filters.set(id, filter);
    return filter;
  }

  async start(path: string, type: string, tabId = 1, origin = PAGE.origin): Promise<RequestDetails> {
    this.#requests += 1;
    const details = { requestId: `${this.#requests}`, url: origin + path, tabId, type };
    await this.listeners.onBeforeRequest?.(details);
    return details;
  }

  /** The answer arrives; returns what reaches the page. */
  async answer(
    details: RequestDetails,
    text: string,
    outcome: "onCompleted" | "onErrorOccurred" = "onCompleted",
  ) {
    const filter = this.filters.get(details.requestId);
    await this.listeners.onHeadersReceived?.({ ...details, statusCode: details.statusCode ?? 200 });
    filter?.ondata({ data: new TextEncoder().encode(text).buffer });
    filter?.onstop();
    await vi.waitFor(() => expect(filter?.closed ?? true).toBe(true));
    await this.listeners[outcome]?.({ ...details, statusCode: details.statusCode ?? 200 });
    return filter?.written;
  }
}

/** Answers of publisher and page to requests of the extension itself. */
function stubFetch(answers: Record<string, string | Uint8Array<ArrayBuffer>>): void {
  vi.stubGlobal("fetch", async (url: string) => {
    const body = answers[url];
    return body === undefined ? new Response(null, { status: 404 }) : new Response(body);
  });
}

const NOW = Math.floor(Date.now() / 1000);
const SIGNED = { [PAGE.manifest]: new Uint8Array(MANIFEST), [`${PAGE.manifest}.minisig`]: signManifest(NOW) };

async function launch(readsAnswers: boolean): Promise<FakeBrowser> {
  const browser = new FakeBrowser(readsAnswers);
  await import("./background");
  return browser;
}

/** Lets the extension finish its work, whose steps take no time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(() => {
  vi.resetModules();
  vi.unstubAllGlobals();
  stubFetch(SIGNED);
});

test("Firefox: genuine bytes reach the page, others do not", async () => {
  const firefox = await launch(true);
  expect(await firefox.answer(await firefox.start("/audit", "main_frame"), "<p>")).toBe("<p>");
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
  expect(await firefox.answer(await firefox.start("/assets/a.js", "script"), "1")).toBe("1");
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
  expect(await firefox.answer(await firefox.start("/assets/a.js", "script"), "2")).toBe("");
  await vi.waitFor(() => expect(firefox.badge).toBe("!"));
  const document = await firefox.answer(await firefox.start("/", "main_frame"), "<b>");
  expect(document).toContain("did not show this page");
});

test("Firefox: an answer that a navigation cuts reaches no page, and is not a difference", async () => {
  const firefox = await launch(true);
  await firefox.answer(await firefox.start("/", "main_frame"), "<p>");
  const script = await firefox.start("/assets/a.js", "script");
  expect(await firefox.answer(script, "", "onErrorOccurred")).toBe("");
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
});

test.each([
  ["<https://other.example/a.css>; rel=stylesheet", "!"],
  ['</a.css>; rel="alternate StyleSheet"; media=print', "!"],
  ["</a.js>; rel=modulepreload, <https://other.example/>; rel=preconnect", "✓"],
])("Firefox: a document whose header adds a style sheet is not shown: %s", async (value, badge) => {
  const firefox = await launch(true);
  const responseHeaders = [{ name: "link", value }];
  const document = { ...(await firefox.start("/", "main_frame")), responseHeaders };
  const shown = await firefox.answer(document, "<p>");
  await vi.waitFor(() => expect(firefox.badge).toBe(badge));
  expect(shown === "<p>").toBe(badge === "✓");
});

test.each([
  ["/assets/a.js", "script"],
  ["/assets/a.css", "stylesheet"],
  ["/assets/a.woff2", "font"],
  ["/data.json", "xmlhttprequest"],
  ["/favicon.ico", "image"],
])("Firefox: an error of the host is not compared where the browser applies none: %s", async (path, type) => {
  const firefox = await launch(true);
  await firefox.answer(await firefox.start("/", "main_frame"), "<p>");
  const request = { ...(await firefox.start(path, type)), statusCode: 503 };
  expect(await firefox.answer(request, "busy")).toBe("busy");
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
  const found = await firefox.answer(await firefox.start(path, type), "busy");
  expect(found).toBe("");
});

test.each(["main_frame", "sub_frame", "object", "image", "media", "other"])(
  "Firefox: an error of the host that the browser shows is compared: %s",
  async (type) => {
    const firefox = await launch(true);
    await firefox.answer(await firefox.start("/", "main_frame"), "<p>");
    const request = { ...(await firefox.start("/missing", type)), statusCode: 404 };
    expect(await firefox.answer(request, "<b>")).not.toContain("<b>");
    await vi.waitFor(() => expect(firefox.badge).toBe("!"));
  },
);

test("a service worker's requests count for each tab of the page", async () => {
  const firefox = await launch(true);
  await firefox.answer(await firefox.start("/", "main_frame"), "<p>");
  await firefox.answer(await firefox.start("/worker.js", "script", -1), "2");
  await vi.waitFor(() => expect(firefox.badge).toBe("!"));
});

test("a badge of the page is not painted on another page in the same tab", async () => {
  const firefox = await launch(true);
  await firefox.answer(await firefox.start("/", "main_frame"), "<p>");
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
  for (const address of ["https://other.example/", `blob:${PAGE.origin}/1`, undefined]) {
    const script = await firefox.start("/assets/a.js", "script");
    await firefox.show(address);
    await firefox.answer(script, "1");
    await settle();
    expect(firefox.badge).toBe("");
    // A service worker's request counts for the tab's load, but is not shown either.
    await firefox.answer(await firefox.start("/assets/a.js", "script", -1), "1");
    await settle();
    expect(firefox.badge).toBe("");
  }
  await firefox.show(`${PAGE.origin}/audit`);
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
});

test("a verdict under an entry that the user changes or removes is not shown any more", async () => {
  const page = { ...PAGE, origin: "https://added.example" };
  const firefox = await launch(true);
  const change = async (before: readonly WatchedPage[], after: readonly WatchedPage[]) => {
    await chrome.storage.local.set({ pages: after });
    await firefox.listeners.changed?.({ pages: { oldValue: before, newValue: after } }, "local");
    await settle();
  };
  await change([], [page]);
  firefox.addresses.set(1, `${page.origin}/`);
  const load = async () => firefox.answer(await firefox.start("/", "main_frame", 1, page.origin), "<p>");
  await load();
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
  const another = { ...page, manifest: "https://other.example/release.json" };
  await change([page], [another]);
  expect(firefox.badge).toBe("?");
  await change([another], [page]);
  await load();
  await settle();
  expect(firefox.badge).toBe("?");
  await change([page], []);
  expect(firefox.badge).toBe("");
  await firefox.show(`${page.origin}/`);
  await settle();
  expect(firefox.badge).toBe("");
});

test("an older signature than one that was seen before is refused", async () => {
  const firefox = await launch(true);
  await firefox.answer(await firefox.start("/", "main_frame"), "<p>");
  await vi.waitFor(() => expect(firefox.badge).toBe("✓"));
  stubFetch({ ...SIGNED, [`${PAGE.manifest}.minisig`]: signManifest(NOW - 60) });
  expect(await firefox.answer(await firefox.start("/", "main_frame"), "<p>")).toBe("<p>");
  await vi.waitFor(() => expect(firefox.badge).toBe("?"));
});

test("the newest signature time does not decrease when two loads verify releases at once", async () => {
  const firefox = await launch(true);
  const times = [NOW, NOW - 60];
  vi.stubGlobal("fetch", async (url: string) =>
    url === PAGE.manifest
      ? new Response(new Uint8Array(MANIFEST))
      : new Response(signManifest(times.shift() ?? 0)),
  );
  const first = await firefox.start("/", "main_frame", 1);
  const second = await firefox.start("/", "main_frame", 2);
  firefox.reading = settle();
  await firefox.answer(first, "<p>");
  await firefox.answer(second, "<p>");
  // Either signature may be verified first.
  await vi.waitFor(() => expect(firefox.badges.get(1)).toBe("✓"));
  await vi.waitFor(() => expect(firefox.badges.get(2)).toMatch(/[✓?]/));
  times.push(NOW - 60);
  await firefox.answer(await firefox.start("/", "main_frame", 3), "<p>");
  await vi.waitFor(() => expect(firefox.badges.get(3)).toBe("?"));
});

test("Chromium: the second answer is compared", async () => {
  stubFetch({ ...SIGNED, [`${PAGE.origin}/`]: "<p>", [`${PAGE.origin}/assets/a.js`]: "2" });
  const chromium = await launch(false);
  await chromium.answer(await chromium.start("/", "main_frame"), "");
  await vi.waitFor(() => expect(chromium.badge).toBe("✓"));
  await chromium.answer(await chromium.start("/assets/a.js", "script"), "");
  await vi.waitFor(() => expect(chromium.badge).toBe("!"));
});

test("Chromium: a difference that is found after the next navigation counts", async () => {
  const chromium = await launch(false);
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  stubFetch({ ...SIGNED, [`${PAGE.origin}/`]: "<p>", [`${PAGE.origin}/assets/a.js`]: "2" });
  const answer = fetch;
  vi.stubGlobal("fetch", async (url: string) => {
    if (url.endsWith("a.js")) await held;
    return answer(url);
  });
  await chromium.answer(await chromium.start("/", "main_frame"), "");
  const script = await chromium.start("/assets/a.js", "script");
  const compared = chromium.answer(script, "");
  await chromium.answer(await chromium.start("/", "main_frame"), "");
  await settle();
  expect(chromium.badge).toBe("…");
  release();
  await compared;
  await vi.waitFor(() => expect(chromium.badge).toBe("!"));
  await chromium.answer(await chromium.start("/", "main_frame"), "");
  await settle();
  expect(chromium.badge).toBe("!");
});

test("Chromium: a file that redirects differs", async () => {
  stubFetch({ ...SIGNED, [`${PAGE.origin}/`]: "<p>" });
  const chromium = await launch(false);
  await chromium.answer(await chromium.start("/", "main_frame"), "");
  const script = await chromium.start("/assets/a.js", "script");
  await chromium.listeners.onBeforeRedirect?.(script);
  await vi.waitFor(() => expect(chromium.badge).toBe("!"));
});

test("requests of other pages, of the extension and to the service are left alone", async () => {
  const firefox = await launch(true);
  await firefox.start("/", "main_frame");
  const before = firefox.filters.size;
  await firefox.start("/v1/attestation", "xmlhttprequest");
  await firefox.listeners.onBeforeRequest?.({
    requestId: "own",
    url: `${PAGE.origin}/release.json`,
    tabId: -1,
    type: "xmlhttprequest",
    originUrl: "moz-extension://own/background.js",
  });
  await firefox.listeners.onBeforeRequest?.({
    requestId: "other",
    url: "https://other.example/",
    tabId: 1,
    type: "main_frame",
  });
  expect(firefox.filters.size).toBe(before);
});
