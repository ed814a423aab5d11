import type { Sliced } from "../../ui/slices";

/** Cosine of every pair in row-major order: `n * n` values, 1 on the diagonal. */
export function* similarities(vectors: readonly Float32Array[]): Sliced<Float32Array> {
  const count = vectors.length;
  const unit = vectors.map(normalised);
  const matrix = new Float32Array(count * count);
  for (const [row, a] of unit.entries()) {
    yield;
    matrix[row * count + row] = 1;
    for (let column = row + 1; column < count; column += 1) {
      const b = unit[column];
      if (!b) continue;
      const cosine = dot(a, b);
      matrix[row * count + column] = cosine;
      matrix[column * count + row] = cosine;
    }
  }
  return matrix;
}

export interface Neighbour {
  readonly index: number;
  readonly cosine: number;
}

/** The `count` items closest to item `of` by cosine, closest first, without the item itself. */
export function* neighbours(
  vectors: readonly Float32Array[],
  of: number,
  count: number,
): Sliced<Neighbour[]> {
  const target = vectors[of];
  if (!target) return [];
  const all = yield* ranked(vectors, target, count + 1);
  return all.filter(({ index }) => index !== of).slice(0, count);
}

/** The `count` items closest to a vector by cosine, closest first. */
export function* ranked(
  vectors: readonly Float32Array[],
  target: Float32Array,
  count: number,
): Sliced<Neighbour[]> {
  const unit = normalised(target);
  // Keeps only the best `count`: sorting 100,000 items would take longer than comparing them.
  const best: Neighbour[] = [];
  for (const [index, vector] of vectors.entries()) {
    if (index % ROWS_PER_STEP === 0) yield;
    const length = Math.sqrt(dot(vector, vector));
    const cosine = length > 0 ? dot(unit, vector) / length : 0;
    const last = best[count - 1];
    if (last && cosine <= last.cosine) continue;
    let place = best.length;
    while (place > 0 && cosine > (best[place - 1]?.cosine ?? 0)) place -= 1;
    best.splice(place, 0, { index, cosine });
    best.length = Math.min(best.length, count);
  }
  return best;
}

export interface Projection {
  /** x, y of each item. */
  readonly points: readonly (readonly [number, number])[];
  /** Share of the total variance along each axis, 0..1. */
  readonly explained: readonly [number, number];
}

/** Vectors between two points at which the work may be interrupted: far less than one millisecond. */
const ROWS_PER_STEP = 256;

/** Steps of orthogonal iteration; each reduces the remainder of smaller axes by the ratio of variances. */
const STEPS = 80;

/**
 * Principal component analysis to two axes, by orthogonal iteration on the centred data, without forming the covariance
 * matrix. Deterministic: the same vectors always give the same map.
 */
export function* project(vectors: readonly Float32Array[]): Sliced<Projection> {
  const width = vectors[0]?.length ?? 0;
  const count = vectors.length;
  if (count < 2 || width === 0) return { points: vectors.map(() => [0, 0]), explained: [0, 0] };

  const mean = new Float64Array(width);
  for (const vector of vectors)
    for (let at = 0; at < width; at += 1) mean[at] = (mean[at] ?? 0) + (vector[at] ?? 0) / count;
  const centred = vectors.map((vector) => Float64Array.from(vector, (value, at) => value - (mean[at] ?? 0)));
  const total = centred.reduce((sum, row) => sum + dot(row, row), 0);
  if (total < 1e-12) return { points: vectors.map(() => [0, 0]), explained: [0, 0] };

  let first = normalised64(start(width, 1));
  let second = orthonormal(start(width, 2), first);
  for (let step = 0; step < STEPS; step += 1) {
    yield;
    const nextFirst = normalised64(covariant(centred, first));
    yield;
    const nextSecond = orthonormal(covariant(centred, second), nextFirst);
    first = nextFirst;
    second = nextSecond;
  }
  const [axis1, axis2] = rotateToVariance(centred, first, second);
  const points = centred.map((row): [number, number] => [dot(row, axis1), dot(row, axis2)]);
  const share = (axis: 0 | 1) => points.reduce((sum, point) => sum + point[axis] ** 2, 0) / total;
  return { points, explained: [share(0), share(1)] };
}

/** Rotates two axes within their plane to its principal directions (Rayleigh–Ritz). */
function rotateToVariance(
  rows: readonly Float64Array[],
  a: Float64Array,
  b: Float64Array,
): [Float64Array, Float64Array] {
  let aa = 0;
  let ab = 0;
  let bb = 0;
  for (const row of rows) {
    const x = dot(row, a);
    const y = dot(row, b);
    aa += x * x;
    ab += x * y;
    bb += y * y;
  }
  const angle = Math.atan2(2 * ab, aa - bb) / 2;
  const cos = Math.cos(angle);
  const sin = Math.sin(angle);
  const axis1 = a.map((value, at) => cos * value + sin * (b[at] ?? 0));
  const axis2 = a.map((value, at) => cos * (b[at] ?? 0) - sin * value);
  return [fixSign(axis1), fixSign(axis2)];
}

/** An axis has no natural sign: makes its largest component positive. */
function fixSign(axis: Float64Array): Float64Array {
  const largest = axis.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
  return largest < 0 ? axis.map((value) => -value) : axis;
}

function covariant(rows: readonly Float64Array[], axis: Float64Array): Float64Array {
  const sum = new Float64Array(axis.length);
  for (const row of rows) {
    const weight = dot(row, axis);
    for (let at = 0; at < sum.length; at += 1) sum[at] = (sum[at] ?? 0) + weight * (row[at] ?? 0);
  }
  return sum;
}

/** Fixed pseudo-random start, so that an axis of real data is not orthogonal to it by accident. */
function start(width: number, seed: number): Float64Array {
  let state = seed;
  return Float64Array.from({ length: width }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
}

function orthonormal(vector: Float64Array, against: Float64Array): Float64Array {
  const along = dot(vector, against);
  return normalised64(vector.map((value, at) => value - along * (against[at] ?? 0)));
}

function normalised(vector: Float32Array): Float32Array {
  const length = Math.sqrt(dot(vector, vector));
  return length > 0 ? vector.map((value) => value / length) : vector;
}

function normalised64(vector: Float64Array): Float64Array {
  const length = Math.sqrt(dot(vector, vector));
  return length > 1e-12 ? vector.map((value) => value / length) : vector.map(() => 0);
}

function dot(a: Float32Array | Float64Array, b: Float32Array | Float64Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at += 1) sum += (a[at] ?? 0) * (b[at] ?? 0);
  return sum;
}
