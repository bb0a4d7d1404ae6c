import { foldCase } from './case-folding.ts'

/** Between the parts of a text, and never inside one: no byte of UTF-8 is this. */
const separator = Buffer.from([0xff])
/** As many trigrams as narrow a search down well; every hit is verified anyway. */
const maxTrigrams = 24

/** A text to look for, folded. */
export interface Needle {
  readonly bytes: Buffer
  /** Trigrams that a text with the needle has; none when it is too short. */
  readonly trigrams: readonly string[]
}

export function createNeedle(text: string): Needle {
  const folded = foldCase(text)
  return { bytes: encode(folded), trigrams: trigrams(folded) }
}

/** The texts of a message, folded; as bytes they have a needle's bytes in them exactly when one of the texts has it. */
export function encodeParts(texts: readonly string[]): { readonly folded: string[]; readonly bytes: Buffer } {
  const folded = texts.map(foldCase)
  return { folded, bytes: Buffer.concat(folded.flatMap((part) => [encode(part), separator])) }
}

/** The text as the trigram index takes it: without what the tokenizer ends at or does not know. */
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

/** UTF-8, in which a surrogate without its half has bytes of its own instead of a replacement that others share. */
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
