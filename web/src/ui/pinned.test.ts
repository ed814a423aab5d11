import { afterEach, describe, expect, it, vi } from "vitest";
import { FileChanged, fetchPinned } from "./pinned";

/** `printf abc | openssl dgst -sha256 -binary | base64` */
const ABC = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

/** Answers as a browser does: a request with `integrity` fails if the hash differs or the network is absent. */
function stubFetch(body: string | null, status = 200): void {
  vi.stubGlobal("fetch", async (_: string, { integrity }: RequestInit) => {
    if (body === null || (integrity !== undefined && body !== "abc")) throw new TypeError("Failed to fetch");
    return new Response(body, { status });
  });
}

const reasonOf = () =>
  fetchPinned("/assets/a.js", ABC).then(
    () => null,
    (cause: unknown) => cause,
  );

afterEach(() => void vi.unstubAllGlobals());

describe("fetchPinned", () => {
  it("returns the file whose hash is right", async () => {
    stubFetch("abc");
    expect(await (await fetchPinned("/assets/a.js", ABC)).text()).toBe("abc");
  });

  it("names a file that the server changed", async () => {
    stubFetch("abd");
    const reason = await reasonOf();
    expect(reason).toBeInstanceOf(FileChanged);
    expect(String(reason)).toContain("the server sends another a.js");
  });

  it("does not blame the server for a failed network or an error page", async () => {
    for (const [body, status] of [
      [null, 200],
      ["Service Unavailable", 503],
    ] as const) {
      stubFetch(body, status);
      const reason = await reasonOf();
      expect(reason).toBeInstanceOf(TypeError);
      expect(reason).not.toBeInstanceOf(FileChanged);
    }
  });
});
