import { stripVTControlCharacters } from 'node:util'
import { encodedForms, findSecretTexts, Redactor } from '@slipway/shared/redaction'
import { lastChars } from '@slipway/shared/text'
import type { SandboxSecrets } from './sandbox-secrets.ts'

const maxChars = 4_000

/** The end of a message of a sandbox or its backend for its owner, without control characters and secrets. */
export function redactDetail(text: string, secrets: SandboxSecrets | readonly string[] | undefined): string {
  const clean = redactOutput(text, secrets).trim()
  return clean.length > maxChars ? `… ${lastChars(clean, maxChars)}` : clean
}

/** The whole of it. */
export function redactOutput(text: string, secrets: SandboxSecrets | readonly string[] | undefined): string {
  const redactor = new Redactor({ mark: '****', forms: encodedForms })
  const values = secrets === undefined ? [] : isList(secrets) ? secrets : secretValues(secrets)
  for (const value of values) redactor.add(value)
  // Before the values, whose ends are their own marks: the rest of a value at the start of a line would
  // stay.
  const whole = redactor.redact(redactor.redactLineStarts(text))
  const plain = stripVTControlCharacters(whole).replace(/[^\P{Cc}\n\t]/gu, '')
  return redactor.redactLineStarts(plain)
}

const isList = (secrets: SandboxSecrets | readonly string[]): secrets is readonly string[] =>
  Array.isArray(secrets)

/** The secrets of a sandbox: its keys and the variables of its environment whose names say so. */
export function secretValues({ key, initKey, order }: SandboxSecrets): readonly string[] {
  const named = findSecretTexts(order.env).filter(({ isNamed }) => isNamed)
  return [key ?? '', initKey ?? '', ...named.map(({ text }) => text)]
}
