import { Problem, redact } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { looksSealed, sealText } from './sealed-text.ts'

/** How secrets leave the server: not at all, as opaque tokens that it takes back, or as they are. */
export type Exposure = 'masked' | 'encrypted' | 'plaintext'

/** What stands where a secret's value stands. */
export const mask = '**********'

const exposures: Readonly<Record<string, Exposure>> = {
  encrypted: 'encrypted',
  true: 'encrypted',
  plaintext: 'plaintext',
}

/** What the header `X-Expose-Secrets` asks for; a Problem `bad_request` when that is nothing that is known. */
export function exposureOf(header: string | undefined): Exposure {
  const word = header?.trim().toLowerCase() ?? ''
  const exposure = word === '' ? 'masked' : Object.hasOwn(exposures, word) ? exposures[word] : undefined
  if (exposure !== undefined) return exposure
  throw new Problem('bad_request', 'X-Expose-Secrets is one of encrypted, plaintext and true')
}

type Json = Readonly<Record<string, unknown>>

/** A copy for a caller. `stars` is what a masked secret looks like. */
export function exposed(
  value: Json,
  exposure: Exposure,
  { cipher, stars }: { readonly cipher: Cipher; readonly stars: string | null },
): Record<string, unknown> {
  if (exposure === 'plaintext') return { ...value }
  const visible = masked(value, stars)
  if (exposure === 'masked') return visible
  return sealed(value, visible, cipher) as Record<string, unknown> // a map stays one
}

/** A copy without secrets: what `redact` hides, except the words in such places that say what kind of secret stands there. */
export function masked(value: Json, stars: string | null): Record<string, unknown> {
  return withWords(redact(value, stars), value, '') as Record<string, unknown> // a map stays one
}

/** How a server is told who is calling, without what it is told. */
const authWords = ['strategy', 'type', 'header_name', 'client_auth_method', 'scopes']

function withWords(visible: unknown, value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value.map((item, at) => withWords(below(visible, at), item, ''))
  if (typeof value !== 'object' || value === null) return visible
  const isSource = name === 'secrets'
  const members = Object.entries(value).map(([member, inner]) => {
    const shown = below(visible, member)
    if (name === 'auth' && authWords.includes(member)) return [member, inner]
    return [member, isSource ? source(shown, inner) : withWords(shown, inner, member)]
  })
  return Object.fromEntries(members)
}

/** Of where a secret comes from only the value, the headers and what is secret in the address are hidden. */
function source(visible: unknown, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('kind' in value)) return visible
  const { kind, description, url } = { description: undefined, url: undefined, ...value }
  const words = Object.entries({ kind, description, ...(redact({ url }, null) as object) })
  return { ...Object(visible), ...Object.fromEntries(words.filter(([, word]) => word !== undefined)) }
}

function below(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** What is shown otherwise than it is, sealed; and what would be taken for sealed when it comes back. */
function sealed(value: unknown, visible: unknown, cipher: Cipher): unknown {
  if (typeof value === 'string')
    return value === visible && !looksSealed(value) ? value : sealText(cipher, value)
  if (typeof value === 'number') return value === visible ? value : sealText(cipher, value)
  if (Array.isArray(value)) return value.map((item, at) => sealed(item, below(visible, at), cipher))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, sealed(member, below(visible, name), cipher)]),
  )
}
