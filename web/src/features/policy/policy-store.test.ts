import { describe, expect, it, vi } from "vitest";
import { MAX_POLICY_BYTES, onChoice, type PolicyFile, PolicyStore } from "./policy-store";

function file(content: string | Uint8Array<ArrayBuffer>, name = "policy.json"): PolicyFile {
  return new File([content], name);
}

describe("PolicyStore", () => {
  it("begins with nothing chosen, and does not know what is built in", () => {
    expect(new PolicyStore().get()).toEqual({ chosen: null, builtIn: undefined, refusal: null });
  });

  it("takes a policy's text as it is, and lets go of it", async () => {
    const store = new PolicyStore();
    await store.choose(file('{"format": "x"}\n'));
    expect(store.get().chosen).toEqual({ name: "policy.json", text: '{"format": "x"}\n' });
    store.stop();
    expect(store.get().chosen).toBeNull();
  });

  it.each([
    ["too long", `"${"a".repeat(MAX_POLICY_BYTES)}"`, "64 KiB"],
    ["no JSON", "not a policy", "not JSON"],
    ["empty", "", "not JSON"],
    ["no text", new Uint8Array([0x22, 0xff, 0x22]), "not JSON"],
  ])("refuses what is %s, and leaves in force what was", async (_, content, why) => {
    const store = new PolicyStore();
    await store.choose(file("{}", "good.json"));
    await store.choose(file(content, "bad.json"));
    expect(store.get().chosen?.name).toBe("good.json");
    expect(store.get().refusal).toMatchObject({ name: "bad.json", why: expect.stringContaining(why) });
    await store.choose(file("{}"));
    expect(store.get().refusal).toBeNull();
  });

  it("takes the longest policy there is", async () => {
    const store = new PolicyStore();
    await store.choose(file(`"${"a".repeat(MAX_POLICY_BYTES - 2)}"`));
    expect(store.get().chosen).not.toBeNull();
  });

  it("reads no byte of a file that is too long", async () => {
    const arrayBuffer = vi.fn();
    await new PolicyStore().choose({ name: "long", size: MAX_POLICY_BYTES + 1, arrayBuffer });
    expect(arrayBuffer).not.toHaveBeenCalled();
  });

  it("lets a slow file change nothing once it was overtaken", async () => {
    const store = new PolicyStore();
    let give = (_: ArrayBuffer) => {};
    const slow = {
      name: "slow",
      size: 2,
      arrayBuffer: () =>
        new Promise<ArrayBuffer>((resolve) => {
          give = resolve;
        }),
    };
    const reading = store.choose(slow);
    store.stop();
    give(new TextEncoder().encode("{}").buffer);
    await reading;
    expect(store.get().chosen).toBeNull();
  });

  it("tells of another choice, and of nothing else", async () => {
    const store = new PolicyStore();
    const changed = vi.fn();
    const end = onChoice(store, changed);
    store.builtIn("production");
    await store.choose(file("no policy"));
    expect(changed).not.toHaveBeenCalled();
    await store.choose(file("{}"));
    store.stop();
    store.stop();
    expect(changed).toHaveBeenCalledTimes(2);
    end();
    await store.choose(file("{}"));
    expect(changed).toHaveBeenCalledTimes(2);
  });
});
