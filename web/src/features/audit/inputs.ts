/** The items of a request in OpenAI's shape: a string or a list of them. Token lists have no text. */
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

/** Which item is exactly this text; one line break that pasting added at the end does not count. -1 for none. */
export function placeOf(text: string, inputs: readonly string[]): number {
  const exact = inputs.indexOf(text);
  return exact >= 0 ? exact : inputs.indexOf(text.replace(/\r?\n$/, ""));
}
