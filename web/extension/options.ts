import { addPage, api, readPages, removePage } from "./api.ts";
import { parseKey } from "./minisign.ts";
import type { WatchedPage } from "./release.ts";

const form = document.getElementById("add") as HTMLFormElement;
const outcome = document.getElementById("outcome") as HTMLElement;
const list = document.getElementById("pages") as HTMLElement;

/** Addresses that the browser must allow for a page. */
function originsOf({ origin, manifest }: WatchedPage): string[] {
  return [...new Set([origin, new URL(manifest).origin])].map((one) => {
    const { protocol, hostname } = new URL(one);
    // Patterns of the permissions have no port.
    return `${protocol}//${hostname}/*`;
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(form);
  const text = (name: string) => String(fields.get(name)).trim();
  try {
    const page = { origin: new URL(text("page")).origin, key: text("key"), manifest: text("manifest") };
    parseKey(page.key);
    // The browser asks only while it handles a click, so nothing may wait before this.
    const isAllowed = await api.permissions.request({ origins: originsOf(page) });
    if (!isAllowed) throw new Error("The browser did not allow the extension to read these addresses.");
    await addPage(page);
    outcome.textContent = `Added ${page.origin}. Reload the page to compare it.`;
    form.reset();
  } catch (cause) {
    outcome.textContent = cause instanceof Error ? cause.message : String(cause);
  }
  await show();
});

/** Calls of {@link show}. */
let calls = 0;

async function show(): Promise<void> {
  calls += 1;
  const call = calls;
  const pages = await readPages();
  // A call that started later read newer data.
  if (call !== calls) return;
  list.replaceChildren(...pages.map((page) => describe(page, pages)));
}

function describe(page: WatchedPage, pages: readonly WatchedPage[]): HTMLElement {
  const item = document.createElement("li");
  item.textContent = `${page.origin}, key ${page.key}, ${page.manifest} `;
  if (__CLEARSEAL_PAGES__.some(({ origin }) => origin === page.origin)) {
    item.append("(built in)");
    return item;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Remove ${page.origin}`;
  button.onclick = async () => {
    await removePage(page.origin);
    const kept = new Set(pages.filter((one) => one.origin !== page.origin).flatMap(originsOf));
    await api.permissions.remove({ origins: originsOf(page).filter((origin) => !kept.has(origin)) });
    await show();
  };
  item.append(button);
  return item;
}

const { page } = Object.fromEntries(new URLSearchParams(location.search));
if (page) (form.elements.namedItem("page") as HTMLInputElement).value = page;
void show();
