// How well an entry of the palette fits the typed words. Pure.

/** 0 if a word is missing; more for a word at the beginning of the entry, or at the beginning of one of its words. */
export function rank(entry: string, typed: string): number {
  const text = entry.toLowerCase();
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  let sum = 0;
  for (const word of words) {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    // A later occurrence may begin a word: `os` in `hosts os-east`.
    const starts = at === 0 || new RegExp(`[^a-z0-9]${escape(word)}`).test(text);
    sum += at === 0 ? 1 : starts ? 0.8 : 0.3;
  }
  return words.length === 0 ? 1 : sum / words.length;
}

const escape = (word: string): string => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
