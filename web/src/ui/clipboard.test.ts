import { afterEach, expect, it, vi } from "vitest";
import { writeClipboard } from "./clipboard";

afterEach(() => void vi.unstubAllGlobals());

it("writes during the user's action a text that comes later", async () => {
  const items: Record<string, Promise<Blob>>[] = [];
  vi.stubGlobal(
    "ClipboardItem",
    class {
      constructor(content: Record<string, Promise<Blob>>) {
        items.push(content);
      }
    },
  );
  const write = vi.fn(async () => undefined);
  vi.stubGlobal("navigator", { clipboard: { write } });
  let resolve = (_: string) => {};
  const text = new Promise<string>((done) => {
    resolve = done;
  });
  const writing = writeClipboard(text);
  expect(write).toHaveBeenCalledOnce();
  resolve("late");
  expect(await (await items[0]?.["text/plain"])?.text()).toBe("late");
  await writing;
});

it("fails where there is no clipboard, or no text", async () => {
  vi.stubGlobal("navigator", {});
  await expect(writeClipboard("text")).rejects.toThrow("no clipboard");
  await expect(writeClipboard(Promise.resolve("text"))).rejects.toThrow("no clipboard");
  await expect(writeClipboard(Promise.reject(new Error("stopped")))).rejects.toThrow("stopped");
});
