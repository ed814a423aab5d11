import { Bar, BarChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import { short } from "../figures";
import { GRID, LINE, TICK, tick } from "./axes";
import type { Drawing } from "./ChartFrame";
import { categoriesOf, pointOf } from "./plot";
import { useNarrow } from "./useNarrow";

/** One bar a run, cut into its stages. `whole` is the category that is their sum and more; the rest of it is drawn as a gap. */
export function Stack({ drawing, whole }: { drawing: Drawing; whole: string }) {
  const narrow = useNarrow();
  const { plot, series, scale } = drawing;
  const stages = categoriesOf(plot).filter((category) => category !== whole);
  const rows = series.map(({ run }) => {
    const parts = stages.map((stage) => (pointOf(plot, run, stage)?.value ?? 0) / scale.factor);
    const sum = parts.reduce((total, part) => total + part, 0);
    const total = (pointOf(plot, run, whole)?.value ?? 0) / scale.factor;
    return { name: run.title, parts: [...parts, Math.max(0, total - sum)], total: Math.max(total, sum) };
  });
  const names = [...stages, "Between the stages"];
  return (
    <>
      <ResponsiveContainer width="100%" height={rows.length * 44 + 34}>
        <BarChart
          data={rows}
          layout="vertical"
          margin={{ top: 4, right: 24, bottom: 4, left: 0 }}
          title={plot.title}
        >
          <CartesianGrid horizontal={false} stroke={GRID} />
          <XAxis type="number" tick={TICK} axisLine={LINE} tickLine={LINE} tickFormatter={tick} />
          <YAxis
            type="category"
            dataKey="name"
            width={narrow ? 104 : 220}
            tick={TICK}
            axisLine={LINE}
            tickLine={false}
            interval={0}
          />
          <Tooltip
            isAnimationActive={false}
            cursor={{ fill: "var(--surface-sunken)" }}
            content={({ label }) => {
              const row = rows.find(({ name }) => name === label);
              if (!row) return null;
              return (
                <div className="reading">
                  <p className="reading-head">{row.name}</p>
                  <table>
                    <tbody>
                      {names.map((name, index) => (
                        <tr key={name}>
                          <th scope="row">
                            <svg width="10" height="10" aria-hidden="true">
                              <rect width="10" height="10" rx="1" fill={colourOf(index)} />
                            </svg>
                            {name}
                          </th>
                          <td className="number">
                            {short(row.parts[index] ?? 0)} {scale.name}
                          </td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              );
            }}
          />
          {names.map((name, index) => (
            <Bar
              key={name}
              dataKey={({ parts }: (typeof rows)[number]) => parts[index]}
              name={name}
              stackId="stages"
              barSize={20}
              fill={colourOf(index)}
              isAnimationActive={false}
            />
          ))}
        </BarChart>
      </ResponsiveContainer>
      <ul className="legend small">
        {names.map((name, index) => (
          <li key={name}>
            <svg width="12" height="12" aria-hidden="true">
              <rect width="12" height="12" rx="1" fill={colourOf(index)} />
            </svg>
            {name}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Stages are no runs: they take the series' colours from the second on, for the accent is ours. */
function colourOf(index: number): string {
  return index >= 7 ? "var(--unknown-mark)" : `var(--chart-${index + 2})`;
}
