import { type Llm, llm } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'

/**
 * A profile's model as it may be shown: null where a secret stands, stars where an address carries a user and a password.
 */
export function redactLlm(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return redact(value) as Record<string, unknown> // a map of a record is a record
}

/** The same model without what `shown` would hide. */
export function withoutSecrets(model: Llm): Llm {
  return llm.parse(replaceSecrets(model, redactLlm(model), () => undefined))
}

/** A copy in which every secret is an object with the member `$sealed`. */
export function sealSecrets(model: Llm, seal: (text: string) => string): unknown {
  return replaceSecrets(model, redactLlm(model), (value) => ({ $sealed: seal(JSON.stringify(value)) }))
}

/** What was sealed, with what `open` makes of each secret. */
export function openSecrets(value: unknown, open: (sealed: string) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => openSecrets(item, open))
  if (typeof value !== 'object' || value === null) return value
  if ('$sealed' in value) return open(String(value.$sealed))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, openSecrets(member, open)]))
}

/**
 * A copy with another value for each text and number that is shown otherwise, and for what would be taken for sealed. Members that
 * are undefined are left out.
 */
function replaceSecrets(value: unknown, redacted: unknown, replace: (value: unknown) => unknown): unknown {
  if (typeof value === 'string' || typeof value === 'number')
    return value === redacted ? value : replace(value)
  if (typeof value !== 'object' || value === null) return value
  if ('$sealed' in value) return replace(value)
  const replaceMember = (name: string | number, member: unknown) =>
    replaceSecrets(
      member,
      typeof redacted === 'object' && redacted !== null ? Reflect.get(redacted, name) : null,
      replace,
    )
  if (Array.isArray(value))
    return value.map((item, i) => replaceMember(i, item)).filter((item) => item !== undefined)
  const members = Object.entries(value).map(([name, member]) => [name, replaceMember(name, member)] as const)
  return Object.fromEntries(members.filter(([, member]) => member !== undefined))
}
