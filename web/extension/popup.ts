import { api, readPages, readsAnswers, readTab } from "./api.ts";
import { originOf } from "./release.ts";
import { summarize, type TabState } from "./state.ts";
import { DIFFERENCES } from "./words.ts";

const LIMITS = readsAnswers
  ? "This browser gives the extension the bytes that run. The extension holds each file back until it is compared, and passes no file on that differs."
  : "This browser does not give an extension the bytes that run. The extension requests each file a second time: a host that answers the second request differently is not found out. Firefox can compare the bytes themselves.";

const element = (id: string) => document.getElementById(id) as HTMLElement;

/** The tab that a test or a user names, or the one under the popup. */
async function findTab(): Promise<Tab> {
  const named = Number(new URLSearchParams(location.search).get("tab"));
  if (named > 0) return api.tabs.get(named);
  const [tab] = await api.tabs.query({ active: true, currentWindow: true });
  return tab ?? {};
}

/** Calls of {@link show}. */
let calls = 0;

async function show(): Promise<void> {
  calls += 1;
  const call = calls;
  const tab = await findTab();
  const origin = originOf(tab.url);
  const stored = tab.id === undefined ? null : await readTab(tab.id);
  const state = stored?.state.origin === origin ? stored?.state : null;
  const isWatched = (await readPages()).some((page) => page.origin === origin);
  // A call that started later read newer data.
  if (call !== calls) return;
  const { heading, detail } = describe(state ?? null, isWatched);
  element("status").textContent = heading;
  element("detail").textContent = detail;
  showRelease(state?.release ?? null);
  element("differences").replaceChildren(
    ...(state?.differences ?? []).map(({ url, why }) => {
      const item = document.createElement("li");
      item.textContent = `${new URL(url).pathname}: ${DIFFERENCES[why]}`;
      return item;
    }),
  );
  element("limits").textContent = LIMITS;
  element("pages").onclick = () => {
    const options = api.runtime.getURL("options.html");
    const isPage = !isWatched && origin !== null;
    void api.tabs.create({ url: isPage ? `${options}?page=${encodeURIComponent(origin)}` : options });
  };
}

function describe(state: TabState | null, isWatched: boolean): { heading: string; detail: string } {
  if (!isWatched) return { heading: "Not watched", detail: "You have not added this page." };
  if (!state) return { heading: "Unknown", detail: "Reload the page to compare its files." };
  switch (summarize(state)) {
    case "verified":
      return {
        heading: `Verified: release ${state.release?.name}`,
        detail: `${state.same} ${state.same === 1 ? "file is" : "files are"} byte for byte the signed release's.`,
      };
    case "differs":
      return {
        heading: "Differs from the signed release",
        detail:
          state.differences.length > 0
            ? "Do not enter anything in this page."
            : "An earlier load in this tab differed, and going back may show it again. Close the tab.",
      };
    case "checking":
      return {
        heading: "Comparing",
        detail: `${state.same} files are compared, ${state.waiting + state.waitingBefore} are not yet.`,
      };
    default:
      return {
        heading: "Unknown",
        detail:
          state.problem ??
          (state.unknownBefore ? RESTORABLE : "The document was not compared. Reload the page."),
      };
  }
}

const RESTORABLE =
  "An earlier load in this tab was not compared, and going back may show it again. Close the tab.";

function showRelease(release: TabState["release"]): void {
  const list = element("release");
  list.hidden = release === null;
  if (!release) return;
  const rows = [
    ["Release", release.name],
    ["Commit", release.commit],
    ["Signed", new Date(release.signed * 1000).toISOString()],
  ] as const;
  list.replaceChildren(
    ...rows.flatMap(([name, value]) => {
      const term = document.createElement("dt");
      const description = document.createElement("dd");
      term.textContent = name;
      description.textContent = value;
      return [term, description];
    }),
  );
}

api.storage.onChanged.addListener(() => void show());
void show();
