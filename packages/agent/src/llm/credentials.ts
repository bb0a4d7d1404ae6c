import type { Llm } from '@slipway/protocol'
import { encodedForms, findSecretTexts, minSecretLength } from '@slipway/shared/redaction'
import { decodePercent } from '@slipway/shared/url'
import { Secrets } from '../secrets/secrets.ts'

/**
 * The secrets in the settings of a model and of the fallbacks that they contain: keys, header values,
 * passwords in the address, and what the names in `litellm_extra_body` say, at any depth.
 */
export function llmSecrets(...llms: readonly Llm[]): Secrets {
  const secrets = new Secrets()
  for (const llm of llms) {
    const { litellm_extra_body, fallback_strategy, extra_headers, ...settings } = llm
    for (const { text } of findSecretTexts(settings)) addKey(secrets, text)
    const others = findSecretTexts({ litellm_extra_body, fallback_strategy })
    for (const { text, isNamed } of others) if (isNamed || isLong(text)) addKey(secrets, text)
    const values = [...headerValues(llm), ...urlValues(llm.base_url)]
    for (const value of values) if (isLong(value)) addKey(secrets, value)
  }
  return secrets
}

/** Redacts a key; also a short one as it is encoded: providers repeat it as they received it. */
export function addKey(secrets: Secrets, value: string): void {
  secrets.addValue(value)
  if (!isLong(value)) for (const form of encodedForms(value)) secrets.addValue(form)
}

function isLong(value: string): boolean {
  return value.length >= minSecretLength
}

function headerValues({ extra_headers = {} }: Llm): string[] {
  return Object.values(extra_headers).flatMap((value) => [value, value.replace(/^\w+\s+/, '')])
}

function urlValues(text: string | undefined): string[] {
  if (text === undefined || !URL.canParse(text)) return []
  const url = new URL(text)
  const { password, searchParams } = url
  return [password, decodePercent(password) ?? password, ...searchParams.values()]
}
