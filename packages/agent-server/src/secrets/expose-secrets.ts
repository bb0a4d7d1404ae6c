import { Problem } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import type { Cipher } from '@slipway/storage'
import { isSealedText, sealText } from './sealed-text.ts'

/** How secrets leave the server: not at all, as opaque tokens that it takes back, or as they are. */
export type Exposure = 'masked' | 'encrypted' | 'plaintext'

/** What stands where a secret's value stands. */
export const redactedText = '**********'

const exposureByHeader: Readonly<Record<string, Exposure>> = {
  encrypted: 'encrypted',
  true: 'encrypted',
  plaintext: 'plaintext',
}

/** What the header `X-Expose-Secrets` asks for; a Problem `bad_request` when that is nothing that is known. */
export function parseExposure(header: string | undefined): Exposure {
  const value = header?.trim().toLowerCase() ?? ''
  const exposure =
    value === '' ? 'masked' : Object.hasOwn(exposureByHeader, value) ? exposureByHeader[value] : undefined
  if (exposure !== undefined) return exposure
  throw new Problem('bad_request', 'X-Expose-Secrets is one of encrypted, plaintext and true')
}

type JsonObject = Readonly<Record<string, unknown>>

/** A copy for a caller. `stars` is what a masked secret looks like. */
export function exposeSecrets(
  value: JsonObject,
  exposure: Exposure,
  { cipher, placeholder }: { readonly cipher: Cipher; readonly placeholder: string | null },
): Record<string, unknown> {
  if (exposure === 'plaintext') return { ...value }
  const redacted = redactSecrets(value, placeholder)
  if (exposure === 'masked') return redacted
  return sealRedacted(value, redacted, cipher) as Record<string, unknown> // a map stays one
}

/** A copy without secrets: what `redact` hides, except the words in such places that say what kind of secret stands there. */
export function redactSecrets(value: JsonObject, placeholder: string | null): Record<string, unknown> {
  return restoreDescriptiveMembers(redact(value, placeholder), value, '') as Record<string, unknown> // a map stays one
}

/** How a server is told who is calling, without what it is told. */
const descriptiveAuthMembers = ['strategy', 'type', 'header_name', 'client_auth_method', 'scopes']

function restoreDescriptiveMembers(redacted: unknown, value: unknown, name: string): unknown {
  if (Array.isArray(value))
    return value.map((item, at) => restoreDescriptiveMembers(getMember(redacted, at), item, ''))
  if (typeof value !== 'object' || value === null) return redacted
  const isSource = name === 'secrets'
  const members = Object.entries(value).map(([member, inner]) => {
    const redactedMember = getMember(redacted, member)
    if (name === 'auth' && descriptiveAuthMembers.includes(member)) return [member, inner]
    return [
      member,
      isSource
        ? redactSecretSource(redactedMember, inner)
        : restoreDescriptiveMembers(redactedMember, inner, member),
    ]
  })
  return Object.fromEntries(members)
}

/** Of where a secret comes from only the value, the headers and what is secret in the address are hidden. */
function redactSecretSource(redacted: unknown, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('kind' in value)) return redacted
  const { kind, description, url } = { description: undefined, url: undefined, ...value }
  const descriptiveMembers = Object.entries({ kind, description, ...(redact({ url }, null) as object) })
  return {
    ...Object(redacted),
    ...Object.fromEntries(descriptiveMembers.filter(([, word]) => word !== undefined)),
  }
}

function getMember(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** What is shown otherwise than it is, sealed; and what would be taken for sealed when it comes back. */
function sealRedacted(value: unknown, redacted: unknown, cipher: Cipher): unknown {
  if (typeof value === 'string')
    return value === redacted && !isSealedText(value) ? value : sealText(cipher, value)
  if (typeof value === 'number') return value === redacted ? value : sealText(cipher, value)
  if (Array.isArray(value))
    return value.map((item, at) => sealRedacted(item, getMember(redacted, at), cipher))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      sealRedacted(member, getMember(redacted, name), cipher),
    ]),
  )
}
