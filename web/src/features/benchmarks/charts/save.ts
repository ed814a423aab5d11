import { ENVIRONMENTS } from "../record.gen";
import { dateOf, machineOf } from "../runs";
import { categoriesOf, type Plot, pointOf, type Series } from "./plot";

const NAMESPACE = "http://www.w3.org/2000/svg";
const MARGIN = 16;
const LINE = 18;
/** Style properties that a saved image needs. */
const PROPERTIES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
] as const;

export interface Picture {
  readonly text: string;
  readonly width: number;
  readonly height: number;
}

/** An entry of the legend, with its mark. */
interface Key {
  readonly text: string;
  readonly mark: Element | undefined;
}

/** A chart as a self-contained file: inline styles, title above, legend and sources below, on the page's background. */
export function svgOf(
  svg: SVGSVGElement,
  title: string,
  legend: readonly Key[],
  sources: readonly string[],
): Picture {
  const { width, height } = svg.getBoundingClientRect();
  const rows = legend.length + sources.length;
  const size = { width: width + 2 * MARGIN, height: height + LINE * (rows + 2) + 2 * MARGIN };
  const out = document.createElementNS(NAMESPACE, "svg");
  attributes(out, { xmlns: NAMESPACE, ...size, viewBox: `0 0 ${size.width} ${size.height}` });
  const styles = getComputedStyle(svg);
  const [ink, surface] = [
    toRgb(styles.color),
    toRgb(getComputedStyle(document.documentElement).backgroundColor),
  ];
  out.append(element("rect", { width: "100%", height: "100%", fill: surface }));
  const font = { "font-family": styles.fontFamily, fill: ink };
  out.append(
    element("text", { x: MARGIN, y: MARGIN + 14, ...font, "font-size": 16, "font-weight": 600 }, title),
  );
  out.append(copyOf(svg, { x: MARGIN, y: MARGIN + 1.5 * LINE, width, height }));
  const below = MARGIN + 1.5 * LINE + height;
  const line = (index: number, x: number, text: string) =>
    element("text", { x, y: below + LINE * (index + 1), ...font, "font-size": 12 }, text);
  for (const [index, { text, mark }] of legend.entries()) {
    if (mark) out.append(copyOf(mark, { x: MARGIN, y: below + LINE * (index + 1) - 10 }));
    out.append(line(index, MARGIN + 18, text));
  }
  for (const [index, text] of sources.entries()) out.append(line(legend.length + index, MARGIN, text));
  return { text: new XMLSerializer().serializeToString(out), ...size };
}

/** The image as PNG, at twice the screen's resolution. */
export async function pngOf({ text, width, height }: Picture): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob(
        (blob) => (blob ? resolve(blob) : reject(new Error("the browser produced no PNG"))),
        "image/png",
      );
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The plot's figures in base units, one row per point (RFC 4180). */
export function csvOf(plot: Plot, series: readonly Series[]): string {
  const rows: string[][] = [[plot.axis, ...COLUMNS]];
  for (const category of categoriesOf(plot)) {
    for (const { run } of series) {
      const point = pointOf(plot, run, category);
      if (!point) continue;
      const { value, published, note = "" } = point;
      const { record, title, from } = run;
      rows.push([
        category,
        title,
        ENVIRONMENTS[record.environment],
        machineOf(record) ?? "not stated",
        from,
        dateOf(record) ?? "not stated",
        String(value),
        BASE[plot.dimension],
        published,
        note,
      ]);
    }
  }
  return `${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;
}

const COLUMNS = [
  "run",
  "environment",
  "machine",
  "source",
  "date",
  "value",
  "unit",
  "as stated",
  "note",
] as const;

const BASE: Readonly<Record<Plot["dimension"], string>> = {
  time: "ms",
  size: "B",
  bandwidth: "B/s",
  rate: "1/s",
  percent: "%",
  ratio: "ratio",
  money: "USD",
  count: "count",
  any: "",
};

/** Quotes a cell if necessary, and escapes a leading formula character, which spreadsheets would execute. */
function csvCell(cell: string): string {
  const safe = /^[=+@\t\r]|^-(?![\d.])/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A copy of an image at another position, with inline styles. */
function copyOf(svg: Element, place: Readonly<Record<string, number>>): SVGElement {
  const copy = svg.cloneNode(true) as SVGElement;
  inline(svg, copy);
  attributes(copy, place);
  return copy;
}

function inline(from: Element, to: Element): void {
  const styles = getComputedStyle(from);
  for (const property of PROPERTIES) {
    const value = styles.getPropertyValue(property);
    if (value) to.setAttribute(property, property === "fill" || property === "stroke" ? toRgb(value) : value);
  }
  to.removeAttribute("class");
  to.removeAttribute("style");
  for (const [index, child] of [...from.children].entries()) {
    const copy = to.children[index];
    if (copy) inline(child, copy);
  }
}

let pixel: CanvasRenderingContext2D | null = null;

/** Converts a colour to `rgb(…)`: few programs support OKLCH. */
function toRgb(colour: string): string {
  if (!colour.startsWith("oklch") && !colour.startsWith("color")) return colour;
  pixel ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!pixel) return colour;
  pixel.clearRect(0, 0, 1, 1);
  pixel.fillStyle = colour;
  pixel.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pixel.getImageData(0, 0, 1, 1).data;
  return `rgb(${red}, ${green}, ${blue})`;
}

function element(name: string, values: Readonly<Record<string, string | number>>, text = ""): SVGElement {
  const made = document.createElementNS(NAMESPACE, name);
  attributes(made, values);
  made.textContent = text;
  return made;
}

function attributes(element: SVGElement, values: Readonly<Record<string, string | number>>): void {
  for (const [name, value] of Object.entries(values))
    if (name !== "xmlns") element.setAttribute(name, String(value));
}
