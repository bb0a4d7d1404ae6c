import { stripVTControlCharacters } from 'node:util'
import { encodedForms, findSecretTexts, Redactor } from '@slipway/shared/redaction'
import { lastChars } from '@slipway/shared/text'
import type { SandboxSecrets } from './sandbox-secrets.ts'

const maxChars = 4_000

/** The end of a message of a sandbox or its backend for its owner, without control characters and secrets. */
export function redactDetail(text: string, secrets: SandboxSecrets | undefined): string {
  const redactor = new Redactor({ mark: '****', forms: encodedForms })
  for (const value of secrets === undefined ? [] : secretValues(secrets)) redactor.add(value)
  // Before the values, whose ends are their own marks: the rest of a value at the start of a line would
  // stay.
  const whole = redactor.redact(redactor.redactLineStarts(text))
  const plain = stripVTControlCharacters(whole).replace(/[^\P{Cc}\n\t]/gu, '')
  const clean = redactor.redactLineStarts(plain).trim()
  return clean.length > maxChars ? `… ${lastChars(clean, maxChars)}` : clean
}

/** The secrets of a sandbox: its keys and the variables of its environment whose names say so. */
export function secretValues({ key, initKey, order }: SandboxSecrets): readonly string[] {
  const named = findSecretTexts(order.env).filter(({ isNamed }) => isNamed)
  return [key ?? '', initKey ?? '', ...named.map(({ text }) => text)]
}
