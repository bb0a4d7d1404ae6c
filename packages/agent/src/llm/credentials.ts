import type { Llm } from '@slipway/protocol'
import { minSecretLength } from '@slipway/shared/redaction'
import { decodePercent } from '@slipway/shared/url'
import { Secrets } from '../secrets/secrets.ts'

const secretName = /auth|credential|key|password|secret|session|token/i

/** The secrets in the settings of a model: keys, header values, passwords in the address. */
export function llmSecrets(llm: Llm): Secrets {
  const secrets = new Secrets()
  const keys = [llm.api_key, llm.aws_access_key_id, llm.aws_secret_access_key, llm.aws_session_token]
  for (const value of keys) if (value !== undefined) redactForms(secrets, value)
  for (const value of [...headerValues(llm), ...urlValues(llm.base_url), ...extraValues(llm)]) {
    if (value.length >= minSecretLength) redactForms(secrets, value)
  }
  return secrets
}

/** Redacts a key, also in other forms: providers repeat it as they received it. */
export function redactForms(secrets: Secrets, value: string): void {
  secrets.addValue(value)
  secrets.addValue(encodeURIComponent(value.toWellFormed()))
  const hex = Buffer.from(value).toString('hex')
  for (const form of [...base64Forms(value), hex, hex.toUpperCase()])
    if (form.length >= minSecretLength) secrets.addValue(form)
}

/** The characters of base64 text that depend on this value alone, for each offset at which it may begin. */
function base64Forms(value: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)])
    const whole = bytes.toString('base64').replace(/=+$/, '')
    const own = whole.slice(Math.ceil((before * 4) / 3), Math.floor((bytes.length * 4) / 3))
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')]
  })
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

function extraValues({ litellm_extra_body }: Llm): string[] {
  return Object.entries(litellm_extra_body).flatMap(([name, value]) =>
    typeof value === 'string' && secretName.test(name) ? [value] : [],
  )
}
