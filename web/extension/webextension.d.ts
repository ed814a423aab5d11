/** The part of the WebExtensions interfaces that this extension uses, in the form that Chromium and Firefox share. */
interface Listeners<F> {
  addListener(listener: F, ...options: readonly unknown[]): void;
}

interface RequestDetails {
  readonly requestId: string;
  readonly url: string;
  /** -1 for requests of no tab, such as a service worker's. */
  readonly tabId: number;
  readonly type: string;
  readonly statusCode?: number;
  readonly responseHeaders?: readonly { readonly name: string; readonly value?: string }[];
  /** Chromium: the requesting origin. */
  readonly initiator?: string;
  /** Firefox: the requesting document. */
  readonly originUrl?: string;
}

/** Firefox alone: the bytes of an answer on their way to the page. */
interface StreamFilter {
  ondata: (event: { readonly data: ArrayBuffer }) => void;
  onstop: () => void;
  onerror: () => void;
  write(data: Uint8Array): void;
  close(): void;
  disconnect(): void;
}

interface StorageArea {
  get(keys: string | readonly string[] | null): Promise<Record<string, unknown>>;
  set(items: Record<string, unknown>): Promise<void>;
  remove(key: string): Promise<void>;
}

interface StorageChange {
  /** Absent where the key was, or is, absent. */
  readonly oldValue?: unknown;
  readonly newValue?: unknown;
}

interface Tab {
  readonly id?: number;
  /** Absent without permission for the address. */
  readonly url?: string;
}

/** The part of a tab that changed. */
interface TabChange {
  readonly url?: string;
  readonly status?: string;
}

interface WebExtension {
  readonly action: {
    setBadgeText(details: { text: string; tabId: number }): Promise<void>;
    setBadgeBackgroundColor(details: { color: string; tabId: number }): Promise<void>;
    setTitle(details: { title: string; tabId: number }): Promise<void>;
  };
  readonly permissions: {
    request(wanted: { origins: readonly string[] }): Promise<boolean>;
    remove(unwanted: { origins: readonly string[] }): Promise<boolean>;
    contains(wanted: { origins: readonly string[] }): Promise<boolean>;
  };
  readonly runtime: { getURL(path: string): string; getManifest(): { name: string } };
  readonly storage: {
    readonly local: StorageArea;
    readonly session: StorageArea;
    readonly onChanged: Listeners<(changes: Record<string, StorageChange>, area: string) => void>;
  };
  readonly tabs: {
    query(filter: { active: boolean; currentWindow: boolean }): Promise<Tab[]>;
    get(id: number): Promise<Tab>;
    create(options: { url: string }): Promise<Tab>;
    readonly onUpdated: Listeners<(id: number, change: TabChange, tab: Tab) => void>;
    readonly onRemoved: Listeners<(id: number) => void>;
  };
  readonly webRequest: {
    readonly onBeforeRequest: Listeners<(details: RequestDetails) => Promise<undefined> | undefined>;
    readonly onHeadersReceived: Listeners<(details: RequestDetails) => void | Promise<void>>;
    readonly onBeforeRedirect: Listeners<(details: RequestDetails) => void | Promise<void>>;
    readonly onCompleted: Listeners<(details: RequestDetails) => void | Promise<void>>;
    readonly onErrorOccurred: Listeners<(details: RequestDetails) => void | Promise<void>>;
    readonly filterResponseData?: (requestId: string) => StreamFilter;
  };
}

declare const browser: WebExtension | undefined;
declare const chrome: WebExtension;

/** Pages that a publisher builds into the extension; set by the build. */
declare const __CLEARSEAL_PAGES__: readonly import("./release.ts").WatchedPage[];
