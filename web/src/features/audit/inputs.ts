/** The texts of a request in OpenAI's format: a string or a list of strings. Token lists have no text. */
export function inputsOf(body: string): string[] {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return [];
  }
  if (typeof value !== "object" || value === null || !("input" in value)) return [];
  const { input } = value;
  if (typeof input === "string") return [input];
  if (!Array.isArray(input)) return [];
  return input.filter((item): item is string => typeof item === "string");
}

/** Index of the item that is exactly this text, or -1. Ignores one line break at the end, which pasting may add. */
export function indexOfText(text: string, inputs: readonly string[]): number {
  const exact = inputs.indexOf(text);
  return exact >= 0 ? exact : inputs.indexOf(text.replace(/\r?\n$/, ""));
}
