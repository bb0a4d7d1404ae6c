import { foldCase } from './case-folding.ts'

/** Separates the parts of a text; never a byte of UTF-8. */
const separator = Buffer.from([0xff])
/** Enough to narrow a search down; every hit is verified. */
const maxTrigrams = 24

/** A search text, folded. */
export interface Needle {
  readonly bytes: Buffer
  /** Trigrams of every text that contains the needle; none when it is too short. */
  readonly trigrams: readonly string[]
}

export function createNeedle(text: string): Needle {
  const folded = foldCase(text)
  return { bytes: encode(folded), trigrams: trigrams(folded) }
}

/** Folded texts; `bytes` contains a needle's bytes exactly when one of the texts contains the needle. */
export function encodeParts(texts: readonly string[]): { readonly folded: string[]; readonly bytes: Buffer } {
  const folded = texts.map(foldCase)
  return { folded, bytes: Buffer.concat(folded.flatMap((part) => [encode(part), separator])) }
}

/** Replaces characters at which the tokenizer of the trigram index ends, or that it does not know. */
export function indexText(folded: string): string {
  return folded.replaceAll('\0', '\ufffd').toWellFormed()
}

function trigrams(folded: string): string[] {
  const chars = [...indexText(folded)]
  const all = new Set<string>()
  for (let i = 0; i + 3 <= chars.length; i++) all.add(chars.slice(i, i + 3).join(''))
  const list = [...all]
  const step = Math.max(1, list.length / maxTrigrams)
  return Array.from(
    { length: Math.min(list.length, maxTrigrams) },
    (_, i) => list[Math.floor(i * step)] ?? '',
  )
}

/** UTF-8 in which a lone surrogate has its own bytes instead of the common replacement character. */
function encode(text: string): Buffer {
  if (text.isWellFormed()) return Buffer.from(text)
  return Buffer.concat(
    [...text].map((char) => {
      const code = char.codePointAt(0) ?? 0
      if (code < 0xd800 || code > 0xdfff) return Buffer.from(char)
      return Buffer.from([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)])
    }),
  )
}
