import type { Look } from "./look";

/** Shape of a figure's mark. */
export type Shape = "bar" | "dot" | "line";

/** Pixels on each side. */
export const SWATCH = 12;

/** The mark of a run in legends and tables, as the chart draws it. */
export function Swatch({ look, shape }: { readonly look: Look; readonly shape: Shape }) {
  return (
    <svg
      className="swatch"
      width={SWATCH}
      height={SWATCH}
      viewBox={`0 0 ${SWATCH} ${SWATCH}`}
      aria-hidden="true"
    >
      {shape === "line" && <path d="M0 6H12" stroke={look.colour} strokeWidth="2" />}
      {shape === "bar" ? (
        <BarMark look={look} x={1.5} y={1.5} width={9} height={9} />
      ) : (
        <DotMark look={look} x={6} y={6} radius={shape === "line" ? 3.5 : 4.5} />
      )}
    </svg>
  );
}

interface MarkProps {
  readonly look: Look;
  /** Distinguishes marks in a chart from those in a legend. */
  readonly className?: string;
}

interface BarProps extends MarkProps {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export function BarMark({ look, className, ...place }: BarProps) {
  const { colour, hollow } = look;
  return (
    <>
      <rect
        className={className}
        {...place}
        fill={colour}
        fillOpacity={hollow ? 0.12 : 1}
        stroke={colour}
        strokeWidth={1.5}
      />
      <Cuts look={look} {...place} />
    </>
  );
}

interface DotProps extends MarkProps {
  /** Centre. */
  readonly x: number;
  readonly y: number;
  readonly radius: number;
}

/** A hollow dot hides the grid behind it. */
export function DotMark({ look, className, x, y, radius }: DotProps) {
  const { colour, hollow } = look;
  const fill = hollow ? "var(--surface)" : colour;
  return (
    <>
      <circle className={className} cx={x} cy={y} r={radius} fill={fill} stroke={colour} strokeWidth={1.5} />
      <Cuts look={look} x={x - radius} y={y - radius} width={2 * radius} height={2 * radius} />
    </>
  );
}

function Cuts({ look: { colour, hollow, cuts }, x, y, width, height }: BarProps) {
  if (cuts === 0) return null;
  const between = height / (cuts + 1);
  const lines = Array.from({ length: cuts }, (_, index) => `M${x} ${y + between * (index + 1)}h${width}`);
  return <path d={lines.join("")} stroke={hollow ? colour : "var(--surface)"} strokeWidth={1.5} />;
}
