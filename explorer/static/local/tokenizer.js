// Byte-level BPE from tokenizer.json: bytes written as letters, merged in the order in which the merges were learned
// (Sennrich, Haddow and Birch 2016, arXiv 1508.07909).

const SPACE = "\\t\\n\\v\\f\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WORD = new RegExp(`'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|[${SPACE}]+(?![^${SPACE}])|[${SPACE}]+`, "gu");

// The letter of each byte, as GPT-2 chose them: printable ones for themselves, the others from 256 on.
const LETTERS = [];
for (let byte = 0, next = 256; byte < 256; byte++) {
  const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  LETTERS.push(String.fromCharCode(printable ? byte : next++));
}
const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));

export const split = (text) => text.match(WORD) ?? [];
export const letters = (text) => Array.from(new TextEncoder().encode(text), (byte) => LETTERS[byte]);

// What one step of the tokenizer's normalizer does to a text.
const STEPS = {
  Replace: ({ pattern, content }) => {
    const found = pattern.Regex ? new RegExp(pattern.Regex.replaceAll("\\p{Latin}", "\\p{Script=Latin}"), "gu") : pattern.String;
    return (text) => text.replaceAll(found, content);
  },
  NFC: () => (text) => text.normalize("NFC"),
  NFKC: () => (text) => text.normalize("NFKC"),
  Strip: () => (text) => text.trim(),
};

export class Tokenizer {
  constructor({ model, normalizer, added_tokens: added }) {
    this.steps = (normalizer?.normalizers ?? []).map((step) => STEPS[step.type](step));
    this.vocab = new Map(Object.entries(model.vocab));
    this.merges = model.merges;
    this.ranks = new Map(model.merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    this.special = new Map(added.map(({ content, id }) => [content, id]));
    this.names = [];
    for (const [name, id] of [...this.vocab, ...this.special]) this.names[id] = name;
  }

  // A word's tokens after the first `limit` merges, each with the merges that made it: {token, merge, parts}.
  grow(word, limit = this.merges.length) {
    const parts = letters(word).map((token) => ({ token, merge: 0, parts: [] }));
    for (;;) {
      let best = limit, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i].token} ${parts[i + 1].token}`) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return parts;
      const pair = parts.slice(at, at + 2);
      parts.splice(at, 2, { token: pair[0].token + pair[1].token, merge: best + 1, parts: pair });
    }
  }

  normalized(text) {
    return this.steps.reduce((text, step) => step(text), text);
  }

  // The ids of a normalised text or a word of it. Special tokens' spellings are ordinary text.
  encode(text, limit) {
    return split(text).flatMap((word) => this.grow(word, limit).map(({ token }) => this.vocab.get(token)));
  }

  decode(ids) {
    const names = ids.map((id) => this.names[id]).filter((name) => !this.special.has(name));
    return new TextDecoder().decode(Uint8Array.from(names.join(""), (letter) => BYTES.get(letter)));
  }

  // A token for the page: · for a blank, \x.. for bytes that are no character.
  shown(name) {
    if (this.special.has(name)) return name;
    const bytes = Uint8Array.from(name, (letter) => BYTES.get(letter));
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      text = Array.from(bytes, (byte) => (byte < 128 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`)).join("");
    }
    return text.replace(/[\x00-\x1f\x7f-\xa0]/g, (c) => ({ "\n": "\\n", "\t": "\\t", "\r": "\\r" })[c] ?? `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`).replaceAll(" ", "·") || "·";
  }

  token(id) {
    return this.shown(this.names[id]);
  }
}
