const secretName =
  /access_key_id|authorization|cookie|credential|encrypted_content|password|secret|session|token|keys?$/i
const secretSection = /^(auth|env|environment|(extra_)?headers)$/i

/** What an address may carry: a user with a password, and parameters that speak of a secret. */
const userOfAddress = /\b([a-z][a-z0-9+.-]*:\/\/)([^\s/?#]*)@/gi
const parameterOfAddress = /([?&][^=&#\s]*(?:key|token|secret|password|signature)=)([^&#\s"']+)/gi
/** A header of authorization: what follows the scheme is the secret. */
const authorization = /^(?:basic|bearer|token)\s+(\S+)$/i

/**
 * A copy in which no text stands at or below a name that speaks of a secret (in any case, at any depth), nor in an
 * `auth`, `env`, `environment`, `headers` or `extra_headers` section: `mask` stands there instead. Numbers and booleans stay
 * (`max_output_tokens`). Users, passwords and keys in addresses are stars. Plain JSON only.
 */
export function redact(value: unknown, mask: string | null = null): unknown {
  return copy(value, mask, false)
}

function copy(value: unknown, mask: string | null, isSecret: boolean): unknown {
  if (typeof value === 'string') return isSecret ? mask : withStars(value)
  if (Array.isArray(value)) return value.map((item) => copy(item, mask, isSecret))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      copy(member, mask, isSecret || secretName.test(name) || secretSection.test(name)),
    ]),
  )
}

function withStars(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(userOfAddress, '$1****@').replace(parameterOfAddress, '$1****')
}

function addressSecrets(text: string): string[] {
  if (!text.includes('://')) return []
  const users = [...text.matchAll(userOfAddress)].flatMap(([, , user = '']) => user.split(':').slice(1))
  return [...users, ...[...text.matchAll(parameterOfAddress)].map(([, , value = '']) => value)]
}

/**
 * The texts that `redact` hides, with whether their own name says so (`isNamed`) or only the section that they stand in, where
 * harmless ones stand too.
 */
export function secretTexts(value: unknown): { readonly text: string; readonly isNamed: boolean }[] {
  const found: { text: string; isNamed: boolean }[] = []
  collect(value, { isSecret: false, isNamed: false }, found)
  return found
}

function collect(
  value: unknown,
  place: { readonly isSecret: boolean; readonly isNamed: boolean },
  found: { text: string; isNamed: boolean }[],
): void {
  if (typeof value === 'string') {
    const { isSecret, isNamed } = place
    if (!isSecret) found.push(...addressSecrets(value).map((text) => ({ text, isNamed: true })))
    else for (const text of [value, authorization.exec(value)?.[1] ?? value]) found.push({ text, isNamed })
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      const isNamed = place.isNamed || secretName.test(name)
      collect(member, { isSecret: place.isSecret || isNamed || secretSection.test(name), isNamed }, found)
    }
  }
}
