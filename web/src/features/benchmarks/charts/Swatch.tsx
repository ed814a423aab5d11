/** How a chart marks a figure. */
export type Shape = "bar" | "dot" | "line";

/** Pixels on each side. */
export const SWATCH = 12;

interface SwatchProps {
  readonly colour: string;
  /** Published figures are hollow. */
  readonly hollow: boolean;
  readonly shape: Shape;
}

/** A mark of a legend or a reading, as the chart draws it. */
export function Swatch({ colour, hollow, shape }: SwatchProps) {
  return (
    <svg width={SWATCH} height={SWATCH} viewBox={`0 0 ${SWATCH} ${SWATCH}`} aria-hidden="true">
      {shape === "bar" ? (
        <rect x="1.5" y="1.5" width="9" height="9" {...barPaint(colour, hollow)} />
      ) : (
        <>
          {shape === "line" && <path d="M0 6H12" stroke={colour} strokeWidth="2" />}
          <circle cx="6" cy="6" r={shape === "line" ? 3.5 : 4.5} {...dotPaint(colour, hollow)} />
        </>
      )}
    </svg>
  );
}

/** What a bar is painted with, in a chart and beside it. */
export function barPaint(colour: string, hollow: boolean) {
  return { fill: colour, fillOpacity: hollow ? 0.12 : 1, stroke: colour, strokeWidth: 1.5 };
}

/** What a dot is painted with; a hollow one hides the grid behind it. */
export function dotPaint(colour: string, hollow: boolean) {
  return { fill: hollow ? "var(--surface)" : colour, stroke: colour, strokeWidth: 1.5 };
}
