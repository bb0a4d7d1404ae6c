import { stripVTControlCharacters } from 'node:util'
import { secretTexts } from '@slipway/protocol'
import type { Kept } from './kept.ts'

const maxChars = 4_000
const minSecretChars = 4
/** A shorter piece of a secret at the beginning of a line is left alone: it could be anything. */
const minPieceChars = 8

/** What a sandbox or its backend says about it, for its owner: its end, without control characters and secrets. */
export function shownDetail(text: string, kept: Kept | undefined): string {
  const secrets = kept === undefined ? [] : secretsOf(kept)
  let shown = text
  for (const secret of secrets) shown = shown.replaceAll(secret, '****')
  const lines = plain(shown)
    .split('\n')
    .map((line) => withoutRest(line, secrets))
  const clean = lines.join('\n').trim()
  return clean.length > maxChars ? `… ${clean.slice(-maxChars)}` : clean
}

/** Each secret as it may stand in an output; the longest first, so that none is starred in part. */
function secretsOf({ key, initKey, order }: Kept): string[] {
  const named = secretTexts(order.env).filter(({ isNamed }) => isNamed)
  const texts = [key ?? '', initKey ?? '', ...named.map(({ text }) => text)]
  const forms = texts
    .filter((text) => text.length >= minSecretChars)
    .flatMap((text) => [
      text,
      JSON.stringify(text).slice(1, -1),
      encodeURIComponent(text.toWellFormed()),
      Buffer.from(text).toString('base64'),
      Buffer.from(text).toString('base64url'),
    ])
  return [...new Set(forms)].sort((a, b) => b.length - a.length)
}

/** Output is cut at its beginning, perhaps in the middle of a secret: then a line begins with the rest of it. */
function withoutRest(line: string, secrets: readonly string[]): string {
  for (const secret of secrets) {
    for (let from = 1; secret.length - from >= minPieceChars; from++) {
      const piece = secret.slice(from)
      if (line.startsWith(piece)) return `****${line.slice(piece.length)}`
    }
  }
  return line
}

function plain(text: string): string {
  return stripVTControlCharacters(text).replace(/[^\P{Cc}\n\t]/gu, '')
}
