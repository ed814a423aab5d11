import { beforeEach, expect, it, vi } from "vitest";
import { IDLE, type Run, transition } from "./run";
import { loadRun, saveRun } from "./saved-run";

beforeEach(() => {
  const values = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => values.set(key, value),
    removeItem: (key: string) => values.delete(key),
  });
});

const embedding = (...values: number[]) => ({
  vector: Float32Array.from(values),
  tokens: 3,
  truncated: true,
});

function running(count: number, vectors: number, dimension = 2): Run {
  const texts = Array.from({ length: count }, (_, at) => `text ${at}`);
  const started = transition(IDLE, { type: "started", id: 1, model: "m", texts, nowMs: 0 });
  const items = [...texts.keys()].slice(0, vectors);
  const embeddings = items.map((at) => embedding(at, ...Array.from({ length: dimension - 1 }, () => 0.1)));
  const receipt = { exchange: 1, report: {} as never, origin: null, items };
  return transition(started, { type: "embedded", id: 1, embeddings, receipt });
}

it("keeps finished items of a run that a reload ended, and lets the others wait", () => {
  saveRun(running(3, 2));
  const saved = loadRun();
  expect(saved?.items).toEqual([
    { text: "text 0", embedding: embedding(0, 0.1) },
    { text: "text 1", embedding: embedding(1, 0.1) },
    { text: "text 2", embedding: null },
  ]);
  if (!saved) return;
  expect(transition(IDLE, { type: "restored", id: 2, kept: saved })).toMatchObject({
    at: "stopped",
    problem: { code: "PAGE_RELOADED" },
  });
});

it("drops vectors for which the tab has no room", () => {
  saveRun(running(3_000, 3_000, 384));
  const saved = loadRun();
  const kept = saved?.items.filter((item) => item.embedding !== null).length ?? 0;
  expect(kept).toBeGreaterThan(1_000);
  expect(kept).toBeLessThan(3_000);
  expect(sessionStorage.getItem("clearseal.run")?.length).toBeLessThan(4_000_000);
});

it("stores nothing without a run, and ignores a record that it cannot read", () => {
  saveRun(IDLE);
  expect(loadRun()).toBeNull();
  const unreadable = [
    "[null]",
    '[{"vector":"AACAPw=="}]',
    '[{"text":7}]',
    '[{"text":"a","vector":"AACA"}]',
    '[{"text":"a","vector":""}]',
    // Not a number, and rows of different lengths.
    '[{"text":"a","vector":"AADAfw=="}]',
    '[{"text":"a","vector":"AACAPw=="},{"text":"b","vector":"AACAPwAAgD8="}]',
  ];
  const records = unreadable.map((items) => `{"model":"m","items":${items}}`);
  for (const saved of ["7", "{", '{"model":"m","items":[]}', ...records]) {
    sessionStorage.setItem("clearseal.run", saved);
    expect(loadRun()).toBeNull();
  }
});

it("tells a run that a reload ended from one whose vectors had no room", () => {
  saveRun(transition(running(3_000, 3_000, 384), { type: "ended", id: 1, problem: null, nowMs: 1 }));
  const saved = loadRun();
  expect(saved?.ended).toBe(true);
  if (!saved) return;
  expect(transition(IDLE, { type: "restored", id: 2, kept: saved })).toMatchObject({
    at: "stopped",
    problem: { code: "RESULT_SHORTENED" },
  });
});

it("knows no count that the record does not have", () => {
  sessionStorage.setItem(
    "clearseal.run",
    '{"model":"m","items":[{"text":"a","vector":"AACAPw==","tokens":"7"}]}',
  );
  expect(loadRun()?.items[0]?.embedding).toMatchObject({ tokens: null, truncated: null });
});
