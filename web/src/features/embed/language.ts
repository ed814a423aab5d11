/** Names of models that were trained on English alone. */
const ENGLISH = /(^|\/)(all-MiniLM-L(6|12)-v2|all-mpnet-base-v2|all-distilroberta-v1|(bge|gte|e5)-\w+-en\b)/i;

/** Warning about a model that reads one language; null for other models. */
export function describeLanguage(model: string): string | null {
  if (!ENGLISH.test(model)) return null;
  return `${model} is a model of English: it compares texts in other languages badly.`;
}
