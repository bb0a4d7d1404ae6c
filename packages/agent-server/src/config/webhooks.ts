import { faultsOf, Secret, secretTexts, type WebhookSpec, webhookSpec } from '@slipway/protocol'

type Environment = Readonly<Record<string, string | undefined>>

/** More of them are a mistake. */
const maxReceivers = 100
/** Shorter ones would be words of other texts too. */
const minSecretLength = 8
const numbers = ['event_buffer_size', 'flush_delay', 'num_retries', 'retry_delay'] as const

/**
 * The receivers that the environment names: `SLIPWAY_WEBHOOKS` (a JSON array), else `OH_WEBHOOKS` (the same), else
 * `OH_WEBHOOKS_0_BASE_URL`, `OH_WEBHOOKS_0_HEADERS` (a JSON object), `OH_WEBHOOKS_0_FLUSH_DELAY` and so on, from 0 without a gap.
 * Throws an Error that names the variable at fault and never shows its value.
 */
export function webhooksOf(env: Environment): WebhookSpec[] {
  for (const name of ['SLIPWAY_WEBHOOKS', 'OH_WEBHOOKS']) {
    const text = env[name]?.trim() ?? ''
    if (text === '') continue
    const value = json(text, name)
    if (!Array.isArray(value)) throw new Error(`${name}: it is not a JSON array`)
    return value.map((item, index) => specOf(item, `${name}[${index}]`))
  }
  const specs: WebhookSpec[] = []
  for (let index = 0; index < maxReceivers; index++) {
    const prefix = `OH_WEBHOOKS_${index}`
    const base_url = env[`${prefix}_BASE_URL`]?.trim() ?? ''
    if (base_url === '') break
    const headers = env[`${prefix}_HEADERS`] ?? ''
    const members = numbers.flatMap((member) => {
      const text = env[`${prefix}_${member.toUpperCase()}`]?.trim() ?? ''
      return text === '' ? [] : [[member, Number(text)] as const]
    })
    const spec = { base_url, ...Object.fromEntries(members) }
    const named = headers === '' ? {} : { headers: json(headers, `${prefix}_HEADERS`) }
    specs.push(specOf({ ...spec, ...named }, prefix))
  }
  return specs
}

/** What of a receiver's settings is a secret: keys in its headers, and a password in its address. */
export function secretsOf({ base_url, headers }: WebhookSpec): Secret[] {
  const texts = secretTexts({ base_url, headers }).filter(
    ({ text, isNamed }) => text.length >= minSecretLength && (isNamed || /\d/.test(text)),
  )
  return texts.map(({ text }) => new Secret(text))
}

function specOf(value: unknown, place: string): WebhookSpec {
  const result = webhookSpec.safeParse(value)
  const [fault] = result.success ? [] : faultsOf(result.error, [], value)
  if (!result.success) throw new Error(`${place}: ${fault?.loc.join('.')}: ${fault?.msg}`)
  mustBeSendable(result.data, place)
  return result.data
}

/** What could never be sent is found at the start. */
function mustBeSendable({ base_url, headers }: WebhookSpec, place: string): void {
  if (!URL.canParse(base_url)) throw new Error(`${place}: base_url: it is not an address`)
  try {
    new Headers(headers)
  } catch {
    throw new Error(`${place}: headers: they are not headers`)
  }
}

function json(text: string, name: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${name}: it is not JSON`)
  }
}
