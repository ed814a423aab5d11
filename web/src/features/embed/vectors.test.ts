import { describe, expect, it } from "vitest";
import { atOnce } from "../../ui/slices";
import { neighbours, project, ranked, similarities } from "./vectors";

const f = (...values: number[]) => new Float32Array(values);

describe("similarities", () => {
  it("is 1 on the diagonal, symmetric, and independent of length", () => {
    const matrix = atOnce(similarities([f(1, 0), f(3, 3), f(0, -2)]));
    const half = Math.SQRT1_2;
    const expected = [1, half, 0, half, 1, -half, 0, -half, 1];
    for (const [at, value] of expected.entries()) expect(matrix[at]).toBeCloseTo(value, 6);
  });
});

describe("neighbours", () => {
  it("lists the closest first, without the item itself", () => {
    const found = atOnce(neighbours([f(1, 0), f(0, 1), f(1, 0.1), f(-1, 0)], 0, 2));
    expect(found.map(({ index }) => index)).toEqual([2, 1]);
  });
});

describe("ranked", () => {
  it("equals the head of a full sort, with ties in order of index", () => {
    const vectors = Array.from({ length: 2_000 }, (_, at) => f(Math.cos(at % 97), Math.sin(at % 97), 0.3));
    const target = f(1, 0, 0);
    const all = vectors
      .map((vector, index) => ({ index, cosine: atOnce(ranked([vector], target, 1))[0]?.cosine ?? 0 }))
      .sort((a, b) => b.cosine - a.cosine || a.index - b.index);
    expect(atOnce(ranked(vectors, target, 50))).toEqual(all.slice(0, 50));
  });
});

describe("project", () => {
  it("finds the plane of the points, largest variance first", () => {
    const grid = [-2, -1, 0, 1, 2].flatMap((a) =>
      [-1, 0, 1].map((b) => f(3 + 2 * a, 1 - b, 7 + 2 * a, b + 1)),
    );
    const { points, explained } = atOnce(project(grid));
    expect(explained[0] + explained[1]).toBeCloseTo(1, 6);
    expect(explained[0]).toBeGreaterThan(explained[1]);
    const [x, y] = points[0] ?? [0, 0];
    expect(Math.abs(x)).toBeCloseTo(4 * Math.SQRT2, 4);
    expect(Math.abs(y)).toBeCloseTo(Math.SQRT2, 4);
  });

  it("is deterministic", () => {
    const vectors = Array.from({ length: 9 }, (_, at) => f(Math.sin(at), Math.cos(3 * at), at % 3));
    expect(atOnce(project(vectors))).toEqual(atOnce(project(vectors)));
  });

  it("puts identical items, and a single one, at the origin", () => {
    expect(atOnce(project([f(1, 2), f(1, 2)])).points).toEqual([
      [0, 0],
      [0, 0],
    ]);
    expect(atOnce(project([f(1, 2)])).points).toEqual([[0, 0]]);
  });
});
