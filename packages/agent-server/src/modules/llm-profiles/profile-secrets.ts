import { type Llm, llm } from '@slipway/protocol'
import { isRecord, mapMembers } from '@slipway/shared/json'
import { redact } from '@slipway/shared/redaction'
import { replaceRedacted } from '../../core/secrets/replace-redacted.ts'

const isSealed = (value: unknown) => typeof value === 'object' && value !== null && '$sealed' in value

/** The same model without its secrets. */
export function withoutSecrets(model: Llm): Llm {
  return llm.parse(replaceRedacted(model, redact(model), { replace: () => undefined, mustReplace: isSealed }))
}

/** A copy in which every secret is an object with the member `$sealed`. */
export function sealSecrets(model: Llm, seal: (text: string) => string): unknown {
  const replace = (value: unknown) => ({ $sealed: seal(JSON.stringify(value)) })
  return replaceRedacted(model, redact(model), { replace, mustReplace: isSealed })
}

/** The reverse of `sealSecrets`: `open` returns the value of a sealed text. */
export function openSecrets(value: unknown, open: (sealed: string) => unknown): unknown {
  return isRecord(value) && '$sealed' in value
    ? open(String(value.$sealed))
    : mapMembers(value, (member) => openSecrets(member, open))
}
