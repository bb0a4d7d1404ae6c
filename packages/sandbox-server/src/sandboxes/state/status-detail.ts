import { stripVTControlCharacters } from 'node:util'
import { encodedForms, findSecretTexts } from '@slipway/shared/redaction'
import type { SandboxSecrets } from './sandbox-secrets.ts'

const maxChars = 4_000
/** A shorter piece of a secret at the beginning of a line is left alone: it could be anything. */
const minFragmentChars = 8

/** What a sandbox or its backend says about it, for its owner: its end, without control characters and secrets. */
export function redactDetail(text: string, sandboxSecrets: SandboxSecrets | undefined): string {
  const forms = new Set(
    sandboxSecrets === undefined ? [] : secretValues(sandboxSecrets).flatMap(encodedForms),
  )
  // The longest first, so that none is starred in part.
  const secrets = [...forms].sort((a, b) => b.length - a.length)
  let redacted = text
  for (const secret of secrets) redacted = redacted.replaceAll(secret, '****')
  const lines = stripControlCharacters(redacted)
    .split('\n')
    .map((line) => redactLeadingFragment(line, secrets))
  const clean = lines.join('\n').trim()
  return clean.length > maxChars ? `… ${clean.slice(-maxChars)}` : clean
}

/** What of an order is secret: its keys, and what its environment names as such. */
export function secretValues({ key, initKey, order }: SandboxSecrets): readonly string[] {
  const named = findSecretTexts(order.env).filter(({ isNamed }) => isNamed)
  return [key ?? '', initKey ?? '', ...named.map(({ text }) => text)]
}

/** Output is cut at its beginning, perhaps in the middle of a secret: then a line begins with the rest of it. */
function redactLeadingFragment(line: string, secrets: readonly string[]): string {
  for (const secret of secrets) {
    for (let from = 1; secret.length - from >= minFragmentChars; from++) {
      const fragment = secret.slice(from)
      if (line.startsWith(fragment)) return `****${line.slice(fragment.length)}`
    }
  }
  return line
}

function stripControlCharacters(text: string): string {
  return stripVTControlCharacters(text).replace(/[^\P{Cc}\n\t]/gu, '')
}
