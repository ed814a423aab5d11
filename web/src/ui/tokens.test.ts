import { describe, expect, it } from "vitest";
import css from "./tokens.css?raw";

type Rgb = [number, number, number];

const COLOUR = /--([\w-]+): light-dark\(oklch\(([^)]+)\), oklch\(([^)]+)\)\);/g;
const tokens = new Map(
  [...css.matchAll(COLOUR)].map(([, name, light, dark]) => [name, { light: rgb(light), dark: rgb(dark) }]),
);

/** OKLCH to linear sRGB (Björn Ottosson), without gamut clipping. */
function rgb(oklch = ""): Rgb {
  const [l = 0, c = 0, h = 0] = oklch.split(" ").map(Number);
  const a = c * Math.cos((h * Math.PI) / 180);
  const b = c * Math.sin((h * Math.PI) / 180);
  const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
  ];
}

/** WCAG 2.2, relative luminance. */
function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((value) => Math.min(1, Math.max(0, value))) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: Rgb, b: Rgb): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

const MEANINGS = ["verified", "checking", "refused", "simulated", "unknown"];
const SURFACES = ["surface", "surface-raised", "surface-sunken"];
const text: [string, string][] = [
  ...SURFACES.flatMap((surface): [string, string][] => [
    ["ink", surface],
    ["ink-muted", surface],
    ["accent", surface],
    ["accent-strong", surface],
    ...MEANINGS.map((meaning): [string, string] => [`${meaning}-text`, surface]),
  ]),
  ...MEANINGS.flatMap((meaning): [string, string][] => [
    ["ink", `${meaning}-soft`],
    ["ink-muted", `${meaning}-soft`],
    [`${meaning}-text`, `${meaning}-soft`],
  ]),
  ["ink", "accent-soft"],
  ["accent", "accent-soft"],
  ["on-accent", "accent"],
  ["on-accent", "accent-strong"],
];
const SERIES = [1, 2, 3, 4, 5, 6, 7, 8].map((step) => `chart-${step}`);
const marks: [string, string][] = SURFACES.flatMap((surface): [string, string][] => [
  ["line", surface],
  ...SERIES.map((series): [string, string] => [series, surface]),
  ["accent", surface],
  ...MEANINGS.map((meaning): [string, string] => [`${meaning}-mark`, surface]),
]);

function measured(front: string, back: string, theme: "light" | "dark"): number {
  const [a, b] = [tokens.get(front), tokens.get(back)];
  if (!a || !b) throw new Error(`no token --${a ? back : front}`);
  return contrast(a[theme], b[theme]);
}

type Matrix = [Rgb, Rgb, Rgb];

/** Simulation of full protanopia and deuteranopia in linear sRGB (Machado, Oliveira and Fernandes 2009, table 1). */
const SIGHT: Record<string, Matrix> = {
  "all cones": [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
};

function through(matrix: Matrix, [x, y, z]: Rgb): Rgb {
  return matrix.map(([a, b, c]) => a * x + b * y + c * z) as Rgb;
}

/** Distance in OKLab; 0.02 is just noticeable for adjacent colours. */
function distance(a: Rgb, b: Rgb): number {
  const [left, right] = [a, b].map((colour) => {
    const [r, g, b] = colour.map((value) => Math.min(1, Math.max(0, value))) as Rgb;
    const cones = through(TO_CONES, [r, g, b]).map(Math.cbrt) as Rgb;
    return through(TO_LAB, cones);
  }) as [Rgb, Rgb];
  return Math.hypot(...left.map((value, index) => value - (right[index] ?? 0)));
}

const TO_CONES: Matrix = [
  [0.4122214708, 0.5363325363, 0.0514459929],
  [0.2119034982, 0.6806995451, 0.1073969566],
  [0.0883024619, 0.2817188376, 0.6299787005],
];
const TO_LAB: Matrix = [
  [0.2104542553, 0.793617785, -0.0040720468],
  [1.9779984951, -2.428592205, 0.4505937099],
  [0.0259040371, 0.7827717662, -0.808675766],
];

describe.each(["light", "dark"] as const)("%s series of charts", (theme) => {
  it.each(Object.entries(SIGHT))("are distinguishable with %s", (_, matrix) => {
    for (const [index, a] of SERIES.entries()) {
      for (const b of SERIES.slice(0, index)) {
        const [one, other] = [tokens.get(a)?.[theme], tokens.get(b)?.[theme]];
        if (!one || !other) throw new Error(`no token --${a} or --${b}`);
        expect(distance(through(matrix, one), through(matrix, other)), `${a}, ${b}`).toBeGreaterThan(0.1);
      }
    }
  });

  it("begin with the accent, which marks ours", () => {
    expect(tokens.get("chart-1")?.[theme]).toEqual(tokens.get("accent")?.[theme]);
  });
});

describe.each(["light", "dark"] as const)("%s tokens", (theme) => {
  it.each(text)("--%s is readable on --%s", (front, back) => {
    expect(measured(front, back, theme)).toBeGreaterThanOrEqual(4.5);
  });

  it.each(marks)("--%s is visible on --%s", (front, back) => {
    expect(measured(front, back, theme)).toBeGreaterThanOrEqual(3);
  });

  it("are inside the sRGB gamut", () => {
    for (const [name, colour] of tokens) {
      for (const channel of colour[theme]) {
        expect(channel, `--${name}`).toBeGreaterThan(-0.006);
        expect(channel, `--${name}`).toBeLessThan(1.006);
      }
    }
  });
});

describe("charts", () => {
  const sources = import.meta.glob<string>("../features/benchmarks/charts/*.ts*", {
    query: "?raw",
    import: "default",
    eager: true,
  });

  it("use only colours that these tests measure, except for the grid", () => {
    const used = Object.values(sources).flatMap((source) =>
      [...source.matchAll(/var\(--([\w-]+)/g)].map(([, name = ""]) => name.replace(/-$/, "-8")),
    );
    expect(used).toContain("chart-8");
    const all = new Set([...text, ...marks].flat());
    expect([...new Set(used)].filter((name) => !all.has(name))).toEqual(["hairline"]);
  });
});

describe("contrast", () => {
  it("is 21 for black and white", () => {
    expect(contrast(rgb("1 0 0"), rgb("0 0 0"))).toBeCloseTo(21, 3);
  });
});
