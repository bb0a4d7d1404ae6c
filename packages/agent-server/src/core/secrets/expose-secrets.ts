import { Problem } from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import { redact } from '@slipway/shared/redaction'
import type { Cipher } from '@slipway/storage'
import { getMember, replaceRedacted } from './replace-redacted.ts'
import { isSealedText, sealText } from './sealed-text.ts'

/** How secrets leave the server: not at all, as opaque tokens that it accepts back, or in clear. */
export type Exposure = 'masked' | 'encrypted' | 'plaintext'

const exposureByHeader: Readonly<Record<string, Exposure>> = {
  '': 'masked',
  encrypted: 'encrypted',
  true: 'encrypted',
  plaintext: 'plaintext',
}

/** The value of the header `X-Expose-Secrets`; a Problem `bad_request` when it is unknown. */
export function parseExposure(header: string | undefined): Exposure {
  const exposure = ownMember(exposureByHeader, header?.trim().toLowerCase() ?? '')
  if (exposure !== undefined) return exposure
  throw new Problem('bad_request', 'X-Expose-Secrets is one of encrypted, plaintext and true')
}

type JsonObject = Readonly<Record<string, unknown>>

/** A copy for a caller. `placeholder` replaces a redacted secret. */
export function exposeSecrets(
  value: JsonObject,
  exposure: Exposure,
  { cipher, placeholder }: { readonly cipher: Cipher; readonly placeholder: string | null },
): Record<string, unknown> {
  if (exposure === 'plaintext') return { ...value }
  const redacted = redactSecrets(value, placeholder)
  if (exposure === 'masked') return redacted
  const sealed = replaceRedacted(value, redacted, {
    replace: (secret) => sealText(cipher, secret as string | number), // what differs or looks sealed
    mustReplace: (text) => typeof text === 'string' && isSealedText(text),
  })
  return sealed as Record<string, unknown> // the copy of an object
}

/** A redacted copy that still shows of which kind the secrets are. */
export function redactSecrets(value: JsonObject, placeholder: string | null): Record<string, unknown> {
  return restoreDescriptiveMembers(redact(value, placeholder), value, '') as Record<string, unknown> // the copy of an object
}

/** Members of `auth` that say how a client signs in, without its credentials. */
const descriptiveAuthMembers = ['strategy', 'type', 'header_name', 'client_auth_method', 'scopes']

function restoreDescriptiveMembers(redacted: unknown, value: unknown, name: string): unknown {
  if (Array.isArray(value))
    return value.map((item, at) => restoreDescriptiveMembers(getMember(redacted, at), item, ''))
  if (typeof value !== 'object' || value === null) return redacted
  const members = Object.entries(value).map(([member, inner]) => {
    if (name === 'auth' && descriptiveAuthMembers.includes(member)) return [member, inner]
    const redactedMember = getMember(redacted, member)
    const restored =
      name === 'secrets'
        ? redactSecretSource(redactedMember, inner)
        : restoreDescriptiveMembers(redactedMember, inner, member)
    return [member, restored]
  })
  return Object.fromEntries(members)
}

/** Of a secret source, only the value, the headers and the credentials of the URL are redacted. */
function redactSecretSource(redacted: unknown, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('kind' in value)) return redacted
  const { kind, description, url } = { description: undefined, url: undefined, ...value }
  const descriptiveMembers = Object.entries({ kind, description, ...redact({ url }) })
  return {
    ...Object(redacted),
    ...Object.fromEntries(descriptiveMembers.filter(([, member]) => member !== undefined)),
  }
}
