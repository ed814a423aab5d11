let canvas: CanvasRenderingContext2D | null = null;

/** Width of an axis text in pixels. */
export function textWidth(text: string): number {
  if (!canvas) {
    canvas = document.createElement("canvas").getContext("2d");
    if (canvas) canvas.font = `12px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
  }
  return canvas?.measureText(text).width ?? text.length * 6.6;
}

/** Wraps text between words at `width` pixels; a number of bytes stays with its unit. */
export function wrapText(text: string, width: number): readonly string[] {
  const found: string[] = [];
  let line = "";
  for (const word of text.split(/ (?!(?:[KMG]i)?B\b)/)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && textWidth(longer) > width) {
      found.push(line);
      line = word;
    } else line = longer;
  }
  return [...found, line];
}
