import { describe, expect, it, vi } from "vitest";
import { MAX_POLICY_BYTES, onPolicyChange, type PolicyFile, PolicyStore } from "./policy-store";

function file(content: string | Uint8Array<ArrayBuffer>, name = "policy.json"): PolicyFile {
  return new File([content], name);
}

describe("PolicyStore", () => {
  it("starts without a chosen policy and without knowledge of a built-in one", () => {
    expect(new PolicyStore().get()).toEqual({ chosen: null, builtIn: undefined, refusal: null });
  });

  it("keeps a policy's text unchanged, and drops it on request", async () => {
    const store = new PolicyStore();
    await store.choose(file('{"format": "x"}\n'));
    expect(store.get().chosen).toEqual({ name: "policy.json", text: '{"format": "x"}\n' });
    store.stop();
    expect(store.get().chosen).toBeNull();
  });

  it.each([
    ["too long", `"${"a".repeat(MAX_POLICY_BYTES)}"`, "64 KiB"],
    ["not JSON", "not a policy", "not JSON"],
    ["empty", "", "not JSON"],
    ["not UTF-8", new Uint8Array([0x22, 0xff, 0x22]), "not JSON"],
  ])("rejects a file that is %s, and keeps the current policy", async (_, content, why) => {
    const store = new PolicyStore();
    await store.choose(file("{}", "good.json"));
    await store.choose(file(content, "bad.json"));
    expect(store.get().chosen?.name).toBe("good.json");
    expect(store.get().refusal).toMatchObject({ name: "bad.json", why: expect.stringContaining(why) });
    await store.choose(file("{}"));
    expect(store.get().refusal).toBeNull();
  });

  it("accepts a policy of the maximum length", async () => {
    const store = new PolicyStore();
    await store.choose(file(`"${"a".repeat(MAX_POLICY_BYTES - 2)}"`));
    expect(store.get().chosen).not.toBeNull();
  });

  it("does not read a file that is too long", async () => {
    const arrayBuffer = vi.fn();
    await new PolicyStore().choose({ name: "long", size: MAX_POLICY_BYTES + 1, arrayBuffer });
    expect(arrayBuffer).not.toHaveBeenCalled();
  });

  it("ignores a slow file after a later choice", async () => {
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

  it("notifies only of changed choices", async () => {
    const store = new PolicyStore();
    const changed = vi.fn();
    const end = onPolicyChange(store, changed);
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
