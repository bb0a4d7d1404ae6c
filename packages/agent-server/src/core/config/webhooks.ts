import { validationIssues, type WebhookSpec, webhookSpec } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { findSecretTexts, minSecretLength, Secret } from '@slipway/shared/redaction'

type Environment = Readonly<Record<string, string | undefined>>

/** Limit against a mistake. */
const maxReceivers = 100
const numericMembers = [
  'event_buffer_size',
  'max_batch_bytes',
  'flush_delay',
  'num_retries',
  'retry_delay',
] as const

/**
 * The receivers in the environment: `SLIPWAY_WEBHOOKS` or `OH_WEBHOOKS` (a JSON array), else
 * `OH_WEBHOOKS_0_BASE_URL`, `OH_WEBHOOKS_0_HEADERS` and so on. Throws an Error that names the variable, not
 * its value.
 */
export function readWebhooks(env: Environment): WebhookSpec[] {
  for (const name of ['SLIPWAY_WEBHOOKS', 'OH_WEBHOOKS']) {
    const text = env[name]?.trim() ?? ''
    if (text === '') continue
    const value = parseVariable(text, name)
    if (!Array.isArray(value)) throw new Error(`${name}: it is not a JSON array`)
    return value.map((item, index) => parseSpec(item, `${name}[${index}]`))
  }
  const specs: WebhookSpec[] = []
  for (let index = 0; index < maxReceivers; index++) {
    const prefix = `OH_WEBHOOKS_${index}`
    const base_url = env[`${prefix}_BASE_URL`]?.trim() ?? ''
    if (base_url === '') break
    const headers = env[`${prefix}_HEADERS`] ?? ''
    const members = numericMembers.flatMap((member) => {
      const text = env[`${prefix}_${member.toUpperCase()}`]?.trim() ?? ''
      return text === '' ? [] : [[member, Number(text)] as const]
    })
    const fullState = env[`${prefix}_FULL_STATE`]?.trim() ?? ''
    const spec = {
      base_url,
      ...Object.fromEntries(members),
      ...(fullState === '' ? {} : { full_state: parseVariable(fullState, `${prefix}_FULL_STATE`) }),
    }
    const headerMembers = headers === '' ? {} : { headers: parseVariable(headers, `${prefix}_HEADERS`) }
    specs.push(parseSpec({ ...spec, ...headerMembers }, prefix))
  }
  return specs
}

/** Secrets in a receiver's settings: keys in its headers, a password in its address. */
export function findWebhookSecrets({ base_url, headers }: WebhookSpec): Secret[] {
  const texts = findSecretTexts({ base_url, headers }).filter(
    ({ text, isNamed }) => text.length >= minSecretLength && (isNamed || /\d/.test(text)),
  )
  return texts.map(({ text }) => new Secret(text))
}

function parseSpec(value: unknown, location: string): WebhookSpec {
  const result = webhookSpec.safeParse(value)
  const [issue] = result.success ? [] : validationIssues(result.error, [], value)
  if (!result.success) throw new Error(`${location}: ${issue?.loc.join('.')}: ${issue?.msg}`)
  assertSendable(result.data, location)
  return result.data
}

/** Finds headers that cannot be sent at the start. */
function assertSendable({ base_url, headers }: WebhookSpec, location: string): void {
  if (!URL.canParse(base_url)) throw new Error(`${location}: base_url: it is not an address`)
  try {
    new Headers(headers)
  } catch {
    throw new Error(`${location}: headers: they are not headers`)
  }
}

function parseVariable(text: string, name: string): unknown {
  const value = parseJson(text)
  if (value === undefined) throw new Error(`${name}: it is not JSON`)
  return value
}
