/** Names, without case and punctuation, of members that hold secrets, and of maps whose every value is one. */
const secretName =
  /(api|access|private|secret|session|encryption)key(id)?$|(password|passwd|passphrase|secret|token|authorization|cookie|credentials?|encryptedcontent)$/
const secretMap = /^(secrets|headers|env)$/
/** What nests deeper is left out. */
const maxDepth = 200

/**
 * A copy of a JSON value for a log line, a screen or a record, in which each secret is null: members named like
 * `api_key`, `password`, `session_token` or `encrypted_content` in any case and spelling, and all values of maps
 * named `secrets`, `headers` or `env`. The value itself stays as it is.
 */
export function redact(value: unknown): unknown {
  return copy(value, 0)
}

function copy(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth >= maxDepth) return null
  if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const plain = name.toLowerCase().replace(/[^a-z]/g, '')
      if (secretName.test(plain)) return [name, null]
      if (secretMap.test(plain) && typeof member === 'object' && member !== null)
        return [name, hidden(member)]
      return [name, copy(member, depth + 1)]
    }),
  )
}

function hidden(map: object): unknown {
  return Array.isArray(map) ? [] : Object.fromEntries(Object.keys(map).map((name) => [name, null]))
}
