import { type Plot, point } from "../charts/plot";
import { bytesLabel, numeric, type Statistic, subjectOf } from "../figures";
import type { Dimension, Measurement } from "../record.gen";
import type { Run } from "../runs";

type Fits = (figure: Measurement) => boolean;

/** Excludes figures that a report repeats, rounded or assumed. */
export const isPrimary: Fits = ({ parameters }) =>
  !["stated", "rounded", "assumed"].some((name) => parameters?.[name] !== undefined);

const STATISTICS: readonly (readonly [Statistic, string])[] = [
  ["mean", "Mean"],
  ["p50", "Median"],
  ["p95", "95th percentile"],
  ["p99", "99th percentile"],
  ["min", "Fastest"],
  ["max", "Slowest"],
];

/** Mean and percentiles of one subject; the first figure of each run that fits. */
export function percentiles(
  title: string,
  subject: string,
  runs: readonly Run[],
  fits: Fits = isPrimary,
): Plot {
  const points = STATISTICS.flatMap(([statistic, category]) =>
    runs.flatMap((run) => {
      const figure = run.figures.find((one) => one.subject === subject && fits(one));
      return figure ? point(run, figure, category, { statistic }) : [];
    }),
  );
  return { title, dimension: subjectOf(subject).dimension, axis: "Statistic", points };
}

/** One bar per subject and run. */
export function bySubject(
  title: string,
  dimension: Dimension,
  subjects: readonly string[],
  runs: readonly Run[],
  label: (figure: Measurement) => string = titleOf,
  heading: (figure: Measurement) => string = titleOf,
  fits: Fits = isPrimary,
): Plot {
  const points = subjects.flatMap((subject) =>
    runs.flatMap((run) =>
      run.figures
        .filter((figure) => figure.subject === subject && fits(figure))
        .flatMap((figure) => point(run, figure, label(figure), { heading: heading(figure) })),
    ),
  );
  return { title, dimension, axis: "Figure", points: dedupe(points) };
}

function titleOf({ subject }: Measurement): string {
  return subjectOf(subject).title;
}

/** A subject as a function of a numeric parameter. */
export function byParameter(
  title: string,
  subject: string,
  parameter: string,
  axis: string,
  runs: readonly Run[],
  options: { fits?: Fits; label?: (x: number) => string } = {},
): Plot {
  const { fits = isPrimary, label = String } = options;
  const points = runs.flatMap((run) =>
    run.figures.flatMap((figure) => {
      const x = numeric(figure, parameter);
      if (figure.subject !== subject || x === undefined || !fits(figure)) return [];
      return point(run, figure, label(x), { x });
    }),
  );
  const sorted = [...points].sort((a, b) => (a.x ?? 0) - (b.x ?? 0));
  return { title, dimension: subjectOf(subject).dimension, axis, points: dedupe(sorted) };
}

const PRIMITIVES: readonly (readonly [RegExp, string])[] = [
  [/hpke/, "HPKE"],
  [/keygen/, "Key pairs"],
  [/ed25519|receipt/, "Signatures"],
  [/aead/, "AEAD"],
];

/** Kind of a cryptographic primitive. */
export function kindOf({ subject }: Measurement): string {
  return PRIMITIVES.find(([kind]) => kind.test(subject))?.[1] ?? "A whole inference";
}

/** The transport of a figure. */
export function carrierOf({ parameters }: Measurement): string {
  return String(parameters?.transport ?? "Not stated");
}

/** Algorithms that the reports use without stating them at each figure. They are omitted from labels, so that rows match. */
const DEFAULT_ALGORITHMS = ["X25519", "p384"];

/** Subject and payload: `HPKE encrypt, 1 KiB`. */
export function withPayload(figure: Measurement): string {
  const bytes = numeric(figure, "payload_bytes");
  const name = subjectOf(figure.subject).title;
  const kind = figure.parameters?.kind ?? figure.parameters?.cipher;
  return [
    name,
    DEFAULT_ALGORITHMS.includes(String(kind)) ? undefined : kind,
    bytes === undefined ? undefined : bytesLabel(bytes),
  ]
    .filter(Boolean)
    .join(", ");
}

/** Payload, transport and attestation: `1.5 KiB, TLS 1.3`. */
export function withTransport(figure: Measurement): string {
  const bytes = numeric(figure, "payload_bytes");
  const { transport, attestation, direction, pattern, kind, curve } = figure.parameters ?? {};
  const certificates = numeric(figure, "certificates") ?? 0;
  return [
    bytes === undefined ? (direction ?? subjectOf(figure.subject).title) : bytesLabel(bytes),
    pattern,
    transport,
    // The reports run the remote end on another thread, without stating it at each figure.
    numeric(figure, "threads") === 1 && "one thread",
    attestation && `${attestation} attestation`,
    curve,
    certificates > 1 && `${certificates} certificates`,
    DEFAULT_ALGORITHMS.includes(String(kind)) ? undefined : kind,
  ]
    .filter(Boolean)
    .join(", ");
}

function dedupe(points: Plot["points"]): Plot["points"] {
  const seen = new Set<string>();
  return points.filter(({ run, category }) => {
    const key = `${run.key}|${category}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
