let canvas: CanvasRenderingContext2D | null = null;

/** Pixels that a text of the axes takes. */
export function widthOf(text: string): number {
  if (!canvas) {
    canvas = document.createElement("canvas").getContext("2d");
    if (canvas) canvas.font = `12px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
  }
  return canvas?.measureText(text).width ?? text.length * 6.6;
}

/** Breaks a text between its words where it would be wider than `width`; a number of bytes stays with its unit. */
export function lines(text: string, width: number): readonly string[] {
  const found: string[] = [];
  let line = "";
  for (const word of text.split(/ (?!(?:[KMG]i)?B\b)/)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && widthOf(longer) > width) {
      found.push(line);
      line = word;
    } else line = longer;
  }
  return [...found, line];
}
