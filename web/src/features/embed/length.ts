import type { Sliced } from "../../ui/slices";

/** Whether the model reads a whole text, as far as can be told without its vocabulary. */
export type Length = "whole" | "may be longer" | "longer";

/** Characters examined between two points at which the work may be interrupted: about one millisecond. */
const CHARACTERS_PER_STEP = 10_000;

/** BERT's `[CLS]` and `[SEP]`, which the model adds to every text. */
const SPECIAL_TOKENS = 2;

/** A longer word becomes one unknown token (BERT's WordPiece). */
const MAX_WORD_CHARACTERS = 100;

/**
 * Bounds the number of tokens without the vocabulary. Each word, punctuation mark and ideograph is at least one token, which
 * gives a lower bound: above `maxTokens`, the text is certainly longer. The number of tokens per word is estimated, rather
 * too high than too low.
 */
export function lengthOf(text: string, maxTokens: number): Length {
  // A token has at least one character.
  if (text.length + SPECIAL_TOKENS <= maxTokens) return "whole";
  let least = SPECIAL_TOKENS;
  let likely = SPECIAL_TOKENS;
  for (const [word] of text.matchAll(WORDS)) {
    least += 1;
    likely += estimateTokens(word);
    if (least > maxTokens) return "longer";
  }
  return likely > maxTokens ? "may be longer" : "whole";
}

/** A character that is always a separate token, or a run of any others except spaces. */
const WORDS = /[\p{P}$+<=>^`|~\p{Script=Han}]|[^\s\p{P}$+<=>^`|~\p{Script=Han}]+/gu;

const LATIN_WORD = /^\p{Script=Latin}+$/u;

/** English has 1.2 to 1.4 tokens per word; identifiers and digits have far more. */
function estimateTokens(word: string): number {
  if (word.length > MAX_WORD_CHARACTERS) return 1;
  return Math.ceil(word.length / (LATIN_WORD.test(word) ? 5 : 2));
}

/** Counts the texts that are longer than the model reads, and those that may be. */
function* countLonger(
  texts: readonly string[],
  maxTokens: number,
): Sliced<{ longer: number; perhaps: number }> {
  let longer = 0;
  let perhaps = 0;
  let characters = 0;
  for (const text of texts) {
    characters += text.length + 1;
    if (characters > CHARACTERS_PER_STEP) {
      characters = 0;
      yield;
    }
    const length = lengthOf(text, maxTokens);
    if (length === "longer") longer += 1;
    else if (length === "may be longer") perhaps += 1;
  }
  return { longer, perhaps };
}

/** The note shown before sending; null if every text fits. */
export function* describeLength(texts: readonly string[], maxTokens: number): Sliced<string | null> {
  const { longer, perhaps } = yield* countLonger(texts, maxTokens);
  if (longer + perhaps === 0) return null;
  const total = texts.length;
  const reads = `the ${maxTokens} tokens that the model reads`;
  const rest = `The vector does not include anything after them. The enclave counts exactly, and the result names the texts that were cut.`;
  if (longer === 0) return `${describeTexts(perhaps, total)} may be longer than ${reads}. ${rest}`;
  const more = perhaps > 0 ? `, and ${perhaps} more may be` : "";
  return `${describeTexts(longer, total)} ${longer === 1 ? "is" : "are"} longer than ${reads}${more}. ${rest}`;
}

function describeTexts(count: number, total: number): string {
  if (total === 1) return "This text";
  return `${count.toLocaleString("en")} of ${total.toLocaleString("en")} texts`;
}
