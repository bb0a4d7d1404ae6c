/** What a name says that speaks of a secret, wherever in it. */
const secretWord =
  /access_key|authorization|cookie|credential|encrypted_?content|pass_?(?:word|wd|phrase)|secret|session|token/i
/** `key` is a word of its own in `MY_KEY_ID`, `api-key-2` and `keyId`, and may stand at the end of any; not in `keywords`. */
const keyWord = /keys?$|(?:^|[-_.\s])keys?(?=[-_.\s\d])|api_?key/i
const camelKey = /(?:^key|[a-z\d]Keys?)(?=[A-Z\d_-])/
/** Members of the contract that only sound like it: hooks of a session. */
const harmlessName = /^session_?(?:start|end)$/i
const secretSection = /^(auth|env|environment|(extra_)?headers)$/i
/** Under these names a number is a secret too; under others it is a count (`max_output_tokens`). */
const numberName = /credential|pass_?(?:word|wd|phrase)|secret/i

/** What an address may carry: a user with a password, and parameters that speak of a secret. */
const userOfAddress = /\b([a-z][a-z0-9+.-]{0,40}:\/\/)([^\s/?#]*)@/gi
const parameterOfAddress = /([?&][^=&#\s]*(?:key|token|secret|password|signature)=)([^&#\s"']+)/gi
/** A header of authorization: what follows the scheme is the secret. */
const authorization = /^(?:basic|bearer|token)\s+(\S+)$/i
/** An argument of a program that brings a value: `--api-key=x`, `API_KEY=x`, `Authorization: Bearer x`. */
const argument = /^(-{0,2}([\w.-]{1,100})(?:=|:\s*))(.+)$/s
const flag = /^--?([\w.-]{1,100})$/
const stars = '****'

/**
 * A copy in which no text stands at or below a name that speaks of a secret (in any case, at any depth), nor in an
 * `auth`, `env`, `environment`, `headers` or `extra_headers` section: `mask` stands there instead, also for numbers in such a
 * section and under names such as `password`. Other numbers (`max_output_tokens`) and booleans stay. Users, passwords and keys
 * in addresses are stars, and so are the values that arguments of a program name (`["--token", "x"]`). Plain JSON only.
 */
export function redact(value: unknown, mask: string | null = null): unknown {
  return copy(value, mask, { isSecret: false, isNamed: false, hidesNumbers: false })
}

/**
 * The texts that `redact` hides, with whether their own name says so (`isNamed`) or only the section or the arguments that they
 * stand in, where harmless ones stand too.
 */
export function secretTexts(value: unknown): { readonly text: string; readonly isNamed: boolean }[] {
  const found: Found[] = []
  collect(value, { isSecret: false, isNamed: false, hidesNumbers: false }, found)
  return found
}

/** Whether a name of a member, a variable or a header speaks of a secret. */
export function isSecretName(name: string): boolean {
  return (secretWord.test(name) || keyWord.test(name) || camelKey.test(name)) && !harmlessName.test(name)
}

/** Where a value stands. */
interface Place {
  readonly isSecret: boolean
  /** A name says so, and not only a section. */
  readonly isNamed: boolean
  readonly hidesNumbers: boolean
}

interface Found {
  readonly text: string
  readonly isNamed: boolean
}

function below(place: Place, name: string): Place {
  const isNamed = place.isNamed || isSecretName(name)
  const isSection = secretSection.test(name)
  return {
    isSecret: place.isSecret || isNamed || isSection,
    isNamed,
    hidesNumbers: place.hidesNumbers || isSection || numberName.test(name),
  }
}

function copy(value: unknown, mask: string | null, place: Place): unknown {
  if (typeof value === 'string') return place.isSecret ? mask : withStars(value)
  if (typeof value === 'number' || typeof value === 'bigint') return place.hidesNumbers ? mask : value
  if (Array.isArray(value)) {
    const { isSecret } = place
    return value.map((item, at) => {
      const hidden = isSecret ? undefined : argumentAt(value, at)
      return hidden === undefined ? copy(item, mask, place) : hidden.shown
    })
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, copy(member, mask, below(place, name))]),
  )
}

function collect(value: unknown, place: Place, found: Found[]): void {
  const { isSecret, isNamed } = place
  if (typeof value === 'string') {
    if (isSecret) found.push(...forms(value).map((text) => ({ text, isNamed })))
    else found.push(...addressSecrets(value).map((text) => ({ text, isNamed: true })))
  } else if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      const hidden = isSecret ? undefined : argumentAt(value, at)
      if (hidden === undefined) collect(item, place, found)
      else found.push(...forms(hidden.secret).map((text) => ({ text, isNamed: false })))
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) collect(member, below(place, name), found)
  }
}

/** An item of a list that is the value of an argument, or brings one; with what may be shown of it. */
function argumentAt(list: readonly unknown[], at: number): { shown: string; secret: string } | undefined {
  const [before, item] = [list[at - 1], list[at]]
  if (typeof item !== 'string') return undefined
  const [, open = '', name = '', secret = ''] = argument.exec(item) ?? []
  if (secret !== '' && !secret.startsWith('//') && isSecretName(name)) return { shown: open + stars, secret }
  const asking = typeof before === 'string' ? flag.exec(before)?.[1] : undefined
  const isValue = asking !== undefined && isSecretName(asking) && !item.startsWith('-')
  return isValue ? { shown: stars, secret: item } : undefined
}

/** A secret as it stands, and without the scheme of authorization in front. */
function forms(text: string): string[] {
  return [text, authorization.exec(text)?.[1] ?? text]
}

function withStars(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(userOfAddress, `$1${stars}@`).replace(parameterOfAddress, `$1${stars}`)
}

function addressSecrets(text: string): string[] {
  if (!text.includes('://')) return []
  const users = [...text.matchAll(userOfAddress)].flatMap(([, , user = '']) => user.split(':').slice(1))
  return [...users, ...[...text.matchAll(parameterOfAddress)].map(([, , value = '']) => value)]
}

/** `"api_key": "x"`, `password='x'`, `X-API-Key: x`, `Authorization: Bearer x`, `token=x`; escaped quotes too. */
const named =
  /((\\?["']?)(?<![\w-])[\w-]{0,60}(?:authorization|cookie|credential|key|passw(?:or)?d|passphrase|secret|session|token)[\w-]{0,60}\2\s{0,5}[:=]\s{0,5})(?:\\?"[^"\\]*|\\?'[^'\\]*|(?:(?:basic|bearer|token)\s+)?[^\s,;&"'<>()[\]{}\\]+)/gi
const count = /[:=]\s*[\d.]+$/
/** Keys that can be told by how they begin. */
const knownKeys =
  /\b(?:sk-[\w-]{12,}|(?:gsk|hf|tgp_v1|ghp|gho|ghu|ghs|ghr|github_pat)_\w{12,}|(?:glpat|xox[abeprs])-[\w-]{8,}|AIza[\w-]{20,}|A[KS]IA[A-Z\d]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)/g

/**
 * A text for people without what looks like a secret: values that stand behind a name that speaks of one, keys that can be told by
 * how they begin, users and keys in addresses. What may be a number of tokens stays. A net below what knows the secrets themselves.
 */
export function redactText(text: string): string {
  return withStars(text)
    .replace(named, (all, name: string) => (count.test(all) ? all : `${name}<redacted>`))
    .replace(knownKeys, '<redacted>')
}
