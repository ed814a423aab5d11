import type { Guide } from "../record.gen";
import "./thresholds.css";

const WIDTH = 240;

/** The guide's steps as a scale, with a mark at the value. Decorative: the verdict next to it states the same. */
export function Thresholds({ guide, value }: { guide: Guide; value: number }) {
  const bounds = guide.thresholds.flatMap(({ from }) => (from === null ? [] : [from]));
  const last = bounds.at(-1) ?? 1;
  const most = last * 1.35;
  const place = (at: number) => (Math.min(Math.max(at, 0), most) / most) * WIDTH;
  const unit = guide.unit === "s" ? " s" : " %";
  return (
    <svg className="ruler" viewBox={`-8 0 ${WIDTH + 16} 34`} aria-hidden="true" data-quote="guide">
      {guide.thresholds.map(({ from, verdict, grade }, index) => {
        const start = place(from ?? 0);
        const end = place(guide.thresholds[index + 1]?.from ?? most);
        return (
          <rect
            key={verdict}
            className={`ruler-${grade}`}
            x={start}
            y="10"
            width={end - start - 1.5}
            height="6"
          />
        );
      })}
      {bounds.map((bound) => (
        <text key={bound} x={place(bound)} y="31" textAnchor="middle">
          {bound}
          {bound === last && unit}
        </text>
      ))}
      <path className="ruler-mark" d={`M${place(value)} 18 l-5 -12 h10 z`} />
    </svg>
  );
}
