import { describe, expect, it } from "vitest";
import { atOnce } from "../../ui/slices";
import { shortest, toCsv, toJson, toNpy } from "./export";

const rows = [
  { text: 'say "hi", twice', vector: new Float32Array([0.1, -1]), tokens: 5, truncated: false },
  { text: "two\nlines", vector: new Float32Array([0.5, 2]), tokens: null, truncated: null },
];

describe("toNpy", () => {
  it("writes NumPy's header, aligned to 64 bytes, and float32 after it", async () => {
    const bytes = new Uint8Array(await atOnce(toNpy(rows)).arrayBuffer());
    const view = new DataView(bytes.buffer);
    expect([...bytes.subarray(0, 8)]).toEqual([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]);
    const length = view.getUint16(8, true);
    expect((10 + length) % 64).toBe(0);
    const header = new TextDecoder().decode(bytes.subarray(10, 10 + length));
    expect(header).toMatch(/^\{'descr': '<f4', 'fortran_order': False, 'shape': \(2, 2\), \} *\n$/);
    const values = [0, 1, 2, 3].map((at) => view.getFloat32(10 + length + at * 4, true));
    expect(values).toEqual([Math.fround(0.1), -1, 0.5, 2]);
    expect(bytes.length).toBe(10 + length + 16);
  });
});

describe("toCsv", () => {
  it("quotes texts and leaves unknown fields empty", async () => {
    expect(await atOnce(toCsv(rows)).text()).toBe(
      'text,tokens,truncated,v0,v1\r\n"say ""hi"", twice",5,false,0.1,-1\r\n"two\nlines",,,0.5,2\r\n',
    );
  });
});

describe("toJson", () => {
  it("reads back as the same float32 values", async () => {
    const parsed = JSON.parse(await atOnce(toJson("m", rows, [])).text()) as {
      dimension: number;
      data: { text: string; embedding: number[] }[];
    };
    expect(parsed.dimension).toBe(2);
    expect(parsed.data[1]?.text).toBe("two\nlines");
    expect(Float32Array.from(parsed.data[0]?.embedding ?? [])).toEqual(rows[0]?.vector);
  });
});

describe("many rows", () => {
  const many = Array.from({ length: 1_000 }, (_, at) => ({
    text: `text ${at}`,
    vector: new Float32Array([at, -at]),
    tokens: at,
    truncated: at % 2 === 0,
  }));

  it("are written whole and in order, in parts, and counted", async () => {
    const counted: number[] = [];
    const csv = await atOnce(toCsv(many, (rows) => counted.push(rows))).text();
    expect(csv.split("\r\n")).toHaveLength(1_002);
    expect(csv.split("\r\n")[1_000]).toBe('"text 999",999,false,999,-999');
    expect(counted.at(-1)).toBe(1_000);
    const { data } = JSON.parse(await atOnce(toJson("m", many, [])).text()) as { data: { index: number }[] };
    expect(data.map(({ index }) => index)).toEqual([...many.keys()]);
    const npy = await atOnce(toNpy(many)).arrayBuffer();
    expect(npy.byteLength % 64).toBe((1_000 * 8) % 64);
    expect(new DataView(npy).getFloat32(npy.byteLength - 8, true)).toBe(999);
  });
});

describe("shortest", () => {
  it("loses nothing of a float32", () => {
    let state = 7;
    for (let round = 0; round < 2000; round += 1) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      const value = Math.fround((state / 2 ** 31 - 1) * 10 ** ((round % 9) - 6));
      expect(Math.fround(Number(shortest(value)))).toBe(value);
    }
  });
});
