import { Icon, type IconName } from "../../ui/Icon";
import type { Origin } from "../policy/origin";
import type { Face, ShownRow } from "./seal";
import "./seal-ring.css";

const GLYPHS: Record<Exclude<Face, "checking" | "simulated" | "unknown">, IconName> = {
  verified: "check",
  refused: "cross",
  unreachable: "unlink",
  expired: "clock",
};

/** Half of the gap at a failed check, in degrees. */
const BREAK = 12;

/**
 * The seal: a ring that is closed only if verified, with one tick per check, clockwise in order, so that a refusal shows at its
 * check. A chosen policy adds a second ring inside, and a notch at the bottom of both. Decorative: the text next to it states
 * the same.
 *
 * Styling hooks: `data-face` and `data-origin` as on the seal; `data-state` on a tick is the state of its check.
 */
export function SealRing({
  face,
  rows,
  origin,
}: {
  face: Face;
  rows: readonly ShownRow[];
  origin: Origin | null;
}) {
  const failed = rows.findIndex((row) => row.state === "failed");
  const angle = failed < 0 ? 0 : angleOf(failed, rows.length);
  return (
    <div className="ring" data-face={face} data-origin={origin ?? undefined} aria-hidden="true">
      <svg viewBox="0 0 128 128" aria-hidden="true" focusable="false">
        <g className="ring-ticks">
          {rows.map((row, index) => (
            <path
              key={row.id}
              data-state={row.state}
              d={row.state === "failed" ? "M64 24V0" : "M64 9V4"}
              transform={`rotate(${angleOf(index, rows.length)} 64 64)`}
            />
          ))}
        </g>
        <circle className="ring-track" cx="64" cy="64" r="46" />
        <Arc face={face} angle={angle} />
        {origin === "chosen" && (face === "verified" || face === "simulated") && (
          <>
            <circle className="ring-chosen" cx="64" cy="64" r="36" />
            <path className="ring-notch" d="M64 94v20" />
          </>
        )}
      </svg>
      <span className="ring-glyph">
        {face === "simulated" ? (
          "SIM"
        ) : face === "unknown" ? (
          "?"
        ) : face === "checking" ? null : (
          <Icon name={GLYPHS[face]} size={40} />
        )}
      </span>
    </div>
  );
}

function Arc({ face, angle }: { face: Face; angle: number }) {
  if (face !== "refused") {
    return (
      <circle className="ring-arc" cx="64" cy="64" r="46" pathLength={360} transform="rotate(-90 64 64)" />
    );
  }
  return (
    <>
      <path className="ring-arc" d={arc(0, Math.max(1, angle - BREAK), 46)} />
      <path className="ring-rest" d={arc(angle + BREAK, 360, 46)} />
    </>
  );
}

/** The first tick is just right of twelve o'clock. */
function angleOf(index: number, count: number): number {
  return ((index + 0.5) / count) * 360;
}

function arc(from: number, to: number, radius: number): string {
  const point = (degrees: number) => {
    const turn = ((degrees - 90) * Math.PI) / 180;
    return `${(64 + radius * Math.cos(turn)).toFixed(2)} ${(64 + radius * Math.sin(turn)).toFixed(2)}`;
  };
  return `M${point(from)}A${radius} ${radius} 0 ${to - from > 180 ? 1 : 0} 1 ${point(to)}`;
}
