const secretName = /authorization|cookie|credential|encrypted_content|password|secret|session|token|keys?$/i
const secretSection = /^(auth|env|environment|headers)$/i

/**
 * A copy in which no text stands at or below a name that speaks of a secret (in any case, at any depth), nor in an
 * `auth`, `env`, `environment` or `headers` section: `mask` stands there instead. Numbers and booleans stay
 * (`max_output_tokens`). Plain JSON only.
 */
export function redact(value: unknown, mask: string | null = null): unknown {
  return copy(value, mask, false)
}

function copy(value: unknown, mask: string | null, isSecret: boolean): unknown {
  if (typeof value === 'string') return isSecret ? mask : value
  if (Array.isArray(value)) return value.map((item) => copy(item, mask, isSecret))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      copy(member, mask, isSecret || secretName.test(name) || secretSection.test(name)),
    ]),
  )
}
