import type { Sliced } from "../../ui/slices";

/** Whether the model reads the whole of a text, as far as it can be told without its vocabulary. */
export type Length = "whole" | "may be longer" | "longer";

/** Looked at between two points at which the work may be interrupted: about a millisecond. */
const CHARACTERS_A_STEP = 10_000;

/** Marks that the model puts around every text. */
const MARKS = 2;

/** A word of more characters than this becomes one piece, whatever it is (BERT's WordPiece). */
const LONGEST_WORD = 100;

/**
 * The model reads tokens. The tab has no vocabulary, but it knows the rules by which one is applied: each word, each
 * punctuation mark and each ideograph is at least one token. More of them than the model reads: the text is longer, for
 * certain. How many tokens a word has is estimated, and rather too many than too few.
 */
export function lengthOf(text: string, maxTokens: number): Length {
  // The shortest text that can be too long.
  if (text.length + MARKS <= maxTokens) return "whole";
  let least = MARKS;
  let likely = MARKS;
  for (const [word] of text.matchAll(WORDS)) {
    least += 1;
    likely += piecesOf(word);
    if (least > maxTokens) return "longer";
  }
  return likely > maxTokens ? "may be longer" : "whole";
}

/** What is always cut apart, or a run of anything else that is no space. */
const WORDS = /[\p{P}$+<=>^`|~\p{Script=Han}]|[^\s\p{P}$+<=>^`|~\p{Script=Han}]+/gu;

const PLAIN = /^\p{Script=Latin}+$/u;

/** English has 1.2 to 1.4 pieces a word; identifiers and digits fall apart far more. */
function piecesOf(word: string): number {
  if (word.length > LONGEST_WORD) return 1;
  return Math.ceil(word.length / (PLAIN.test(word) ? 5 : 2));
}

/** How many of `texts` are longer than the model reads, and how many more may be. */
export function* longerOf(
  texts: readonly string[],
  maxTokens: number,
): Sliced<{ longer: number; perhaps: number }> {
  let longer = 0;
  let perhaps = 0;
  let characters = 0;
  for (const text of texts) {
    characters += text.length + 1;
    if (characters > CHARACTERS_A_STEP) {
      characters = 0;
      yield;
    }
    const length = lengthOf(text, maxTokens);
    if (length === "longer") longer += 1;
    else if (length === "may be longer") perhaps += 1;
  }
  return { longer, perhaps };
}

/** What is said before anything is sent; null where there is nothing to say. */
export function* lengthWords(texts: readonly string[], maxTokens: number): Sliced<string | null> {
  const { longer, perhaps } = yield* longerOf(texts, maxTokens);
  if (longer + perhaps === 0) return null;
  const total = texts.length;
  const reads = `the ${maxTokens} tokens that the model reads`;
  const rest = `What comes after them is not in the vector. The enclave counts exactly, and the result says which were cut.`;
  if (longer === 0) return `${some(perhaps, total)} may be longer than ${reads}. ${rest}`;
  const more = perhaps > 0 ? `, and ${perhaps} more may be` : "";
  return `${some(longer, total)} ${longer === 1 ? "is" : "are"} longer than ${reads}${more}. ${rest}`;
}

function some(count: number, total: number): string {
  if (total === 1) return "This text";
  return `${count.toLocaleString("en")} of ${total.toLocaleString("en")} texts`;
}
