import { stripVTControlCharacters } from 'node:util'
import { secretTexts } from '@slipway/protocol'
import { secretForms } from '../../redaction/secret-forms.ts'
import type { Kept } from './sandbox-secrets.ts'

const maxChars = 4_000
/** A shorter piece of a secret at the beginning of a line is left alone: it could be anything. */
const minPieceChars = 8

/** What a sandbox or its backend says about it, for its owner: its end, without control characters and secrets. */
export function shownDetail(text: string, kept: Kept | undefined): string {
  const forms = new Set(kept === undefined ? [] : secretsOf(kept).flatMap(secretForms))
  // The longest first, so that none is starred in part.
  const secrets = [...forms].sort((a, b) => b.length - a.length)
  let shown = text
  for (const secret of secrets) shown = shown.replaceAll(secret, '****')
  const lines = plain(shown)
    .split('\n')
    .map((line) => withoutRest(line, secrets))
  const clean = lines.join('\n').trim()
  return clean.length > maxChars ? `… ${clean.slice(-maxChars)}` : clean
}

/** What of an order is secret: its keys, and what its environment names as such. */
export function secretsOf({ key, initKey, order }: Kept): readonly string[] {
  const named = secretTexts(order.env).filter(({ isNamed }) => isNamed)
  return [key ?? '', initKey ?? '', ...named.map(({ text }) => text)]
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
