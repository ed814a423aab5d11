import { afterEach, expect, test, vi } from "vitest";
import { FileChanged } from "../../ui/pinned";
import { loadSamples } from "./samples";

const fetchPageFile = vi.hoisted(() => vi.fn<(path: string) => Promise<Response>>());
vi.mock("../../ui/page-file", () => ({ fetchPageFile }));

afterEach(() => fetchPageFile.mockReset());

const SAMPLES = { policy: "{}", valid: "a", tampered: "b", otherKey: "c" };

test("samples of this build are returned", async () => {
  fetchPageFile.mockResolvedValue(Response.json(SAMPLES));
  expect(await loadSamples()).toEqual({ at: "loaded", samples: SAMPLES });
});

test("a build without samples and a lost network need no words", async () => {
  fetchPageFile.mockResolvedValueOnce(new Response(null, { status: 404 }));
  expect(await loadSamples()).toEqual({ at: "absent" });
  fetchPageFile.mockResolvedValueOnce(Response.json({ policy: 1 }));
  expect(await loadSamples()).toEqual({ at: "absent" });
  fetchPageFile.mockRejectedValueOnce(new TypeError("network"));
  expect(await loadSamples()).toEqual({ at: "absent" });
});

test("other bytes than this build's are reported", async () => {
  fetchPageFile.mockRejectedValue(new FileChanged("/samples.json"));
  const loaded = await loadSamples();
  expect(loaded).toEqual({
    at: "changed",
    why: "the server sends another samples.json than this page was built with, and the browser refused it",
  });
});
