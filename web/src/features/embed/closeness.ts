/** Rough meaning of a cosine of sentence vectors. Each model has its own scale: the order counts more than the value. */
export function describeCosine(cosine: number): string {
  if (cosine > 0.99) return "the same text, or nearly";
  if (cosine >= 0.7) return "nearly the same meaning";
  if (cosine >= 0.45) return "related";
  if (cosine >= 0.25) return "loosely related";
  return "little in common";
}
