import type { Llm } from '@slipway/protocol'
import { Secrets } from '../secrets/secrets.ts'

/** Values of headers and of extra members shorter than this are words, not secrets. */
const minLength = 8
const secretName = /auth|credential|key|password|secret|session|token/i

/** Hides what in the settings of a model is nobody's business: keys, values of headers, passwords in the address. */
export function llmSecrets(llm: Llm): Secrets {
  const secrets = new Secrets()
  for (const value of [
    llm.api_key,
    llm.aws_access_key_id,
    llm.aws_secret_access_key,
    llm.aws_session_token,
  ]) {
    if (value !== undefined) redactForms(secrets, value)
  }
  for (const value of [...headerValues(llm), ...urlValues(llm.base_url), ...extraValues(llm)]) {
    if (value.length >= minLength) redactForms(secrets, value)
  }
  return secrets
}

/** A provider may say a key back as it came in a header or an address. */
function redactForms(secrets: Secrets, value: string): void {
  secrets.addValue(value)
  secrets.addValue(encodeURIComponent(value.toWellFormed()))
  const hex = Buffer.from(value).toString('hex')
  for (const form of [...base64Forms(value), hex, hex.toUpperCase()])
    if (form.length >= minLength) secrets.addValue(form)
}

/** What of the base64 of a longer text is this value's alone: it depends on where in the text the value begins. */
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
  return [password, decodeOrSame(password), ...searchParams.values()]
}

function decodeOrSame(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function extraValues({ litellm_extra_body }: Llm): string[] {
  return Object.entries(litellm_extra_body).flatMap(([name, value]) =>
    typeof value === 'string' && secretName.test(name) ? [value] : [],
  )
}
