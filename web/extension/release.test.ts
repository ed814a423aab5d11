import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { compare, isServiceRequest, parseManifest, type Release, readAnswer } from "./release";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const bytes = (text: string) => new TextEncoder().encode(text);

const MANIFEST = {
  format: "clearseal-release/1",
  name: "0.1.0",
  commit: "3d".repeat(20),
  page: {
    "index.html": { bytes: 3, sha256: sha256("<p>") },
    "assets/a.js": { bytes: 1, sha256: sha256("1") },
  },
};
const RELEASE: Release = { ...parseManifest(bytes(JSON.stringify(MANIFEST))), signed: 1 };

test("every route is index.html, every other file is listed under its own name", async () => {
  const cases = [
    ["/", "main_frame", "<p>", "same"],
    ["/audit?x=1", "main_frame", "<p>", "same"],
    ["/audit", "main_frame", "<b>", "bytes"],
    ["/index.html", "main_frame", "<p>", "same"],
    ["/assets/a.js", "script", "1", "same"],
    ["/assets/a.js?attempt=2", "script", "1", "same"],
    ["/assets/a.js", "script", "2", "bytes"],
    // A document at a file's address is compared with that file.
    ["/assets/a.js", "main_frame", "<p>", "bytes"],
    ["/assets/b.js", "script", "1", "unlisted"],
    ["/audit", "script", "<p>", "unlisted"],
    ["/constructor", "script", "1", "unlisted"],
  ] as const;
  for (const [path, type, body, expected] of cases) {
    const found = await compare(RELEASE, `https://page.example${path}`, type, bytes(body));
    expect(found, `${type} ${path}`).toBe(expected);
  }
});

test("only what scripts read counts as an answer of the service", () => {
  const url = "https://page.example/v1/attestation";
  expect(isServiceRequest(url, "xmlhttprequest")).toBe(true);
  expect(isServiceRequest("wss://page.example/v1/channel", "websocket")).toBe(true);
  for (const type of ["script", "stylesheet", "main_frame", "font", "image", "other"]) {
    expect(isServiceRequest(url, type), type).toBe(false);
  }
  expect(isServiceRequest("https://page.example/samples.json", "xmlhttprequest")).toBe(false);
});

test("other texts are not manifests", () => {
  const cases = [
    "",
    "null",
    "{}",
    JSON.stringify({ ...MANIFEST, format: "clearseal-release/2" }),
    JSON.stringify({ ...MANIFEST, commit: "HEAD" }),
    JSON.stringify({ ...MANIFEST, page: {} }),
    JSON.stringify({ ...MANIFEST, page: { "index.html": { sha256: 1 } } }),
    JSON.stringify({ ...MANIFEST, page: { "index.html": null } }),
  ];
  for (const text of cases) expect(() => parseManifest(bytes(text)), text).toThrow(/not a release manifest/);
});

test("an endless answer is not read to its end", async () => {
  const endless = new ReadableStream<Uint8Array>({ pull: (it) => it.enqueue(new Uint8Array(1000)) });
  await expect(readAnswer(new Response(endless), 4500)).rejects.toThrow(/longer than 4500/);
  expect(await readAnswer(new Response("four"), 4)).toEqual(bytes("four"));
});
