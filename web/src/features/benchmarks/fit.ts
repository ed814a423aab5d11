/** A fitted line, and the share of the variance that it explains. */
export interface Fit {
  readonly intercept: number;
  readonly slope: number;
  readonly r2: number;
}

/** Least squares. Null for fewer than two different x. */
export function leastSquares(points: readonly (readonly [number, number])[]): Fit | null {
  const count = points.length;
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / count;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / count;
  const [xx, xy, yy] = points.reduce<[number, number, number]>(
    ([xx, xy, yy], [x, y]) => [xx + (x - meanX) ** 2, xy + (x - meanX) * (y - meanY), yy + (y - meanY) ** 2],
    [0, 0, 0],
  );
  if (!(xx > 0)) return null;
  const slope = xy / xx;
  return { intercept: meanY - slope * meanX, slope, r2: yy > 0 ? (xy * xy) / (xx * yy) : 1 };
}
