/** What a name says that speaks of a secret, wherever in it. */
const secretWord =
  /access_key|authorization|cookie|credential|encrypted_?content|pass_?(?:word|wd|phrase)|secret|session|token/i
/** `key` is a word of its own in `MY_KEY_ID`, `api-key-2` and `keyId`, and may stand at the end of any; not in `keywords`. */
const keyWord = /keys?$|(?:^|[-_.\s])keys?(?=[-_.\s\d])|api_?key/i
const camelKey = /(?:^key|[a-z\d]Keys?)(?=[A-Z\d_-])/
/** Members of the contract that only sound like it: hooks of a session. */
const nonSecretName = /^session_?(?:start|end)$/i
const secretSection = /^(auth|env|environment|(extra_)?headers)$/i
/** Under these names a number is a secret too; under others it is a count (`max_output_tokens`). */
const numericSecretName = /credential|pass_?(?:word|wd|phrase)|secret/i

/** What an address may carry: a user with a password, and parameters that speak of a secret. */
const urlCredentials = /\b([a-z][a-z0-9+.-]{0,40}:\/\/)([^\s/?#]*)@/gi
const urlSecretParameter = /([?&][^=&#\s]*(?:key|token|secret|password|signature)=)([^&#\s"']+)/gi
/** A header of authorization: what follows the scheme is the secret. */
const authorizationValue = /^(?:basic|bearer|token)\s+(\S+)$/i
/** An argument of a program that brings a value: `--api-key=x`, `API_KEY=x`, `Authorization: Bearer x`. */
const argumentWithValue = /^(-{0,2}([\w.-]{1,100})(?:=|:\s*))(.+)$/s
const flagPattern = /^--?([\w.-]{1,100})$/
const maskedText = '****'

/**
 * A copy in which no text stands at or below a name that speaks of a secret (in any case, at any depth), nor in an
 * `auth`, `env`, `environment`, `headers` or `extra_headers` section: `mask` stands there instead, also for numbers in such a
 * section and under names such as `password`. Other numbers (`max_output_tokens`) and booleans stay. Users, passwords and keys
 * in addresses are stars, and so are the values that arguments of a program name (`["--token", "x"]`). Plain JSON only.
 */
export function redact(
  value: Readonly<Record<string, unknown>>,
  mask?: string | null,
): Record<string, unknown>
export function redact(value: unknown, mask?: string | null): unknown
export function redact(value: unknown, mask: string | null = null): unknown {
  return redactValue(value, mask, { isSecret: false, isNamed: false, redactsNumbers: false })
}

/**
 * The texts that `redact` hides, with whether their own name says so (`isNamed`) or only the section or the arguments that they
 * stand in, where harmless ones stand too.
 */
export function findSecretTexts(value: unknown): { readonly text: string; readonly isNamed: boolean }[] {
  const secrets: SecretText[] = []
  collectSecrets(value, { isSecret: false, isNamed: false, redactsNumbers: false }, secrets)
  return secrets
}

/** Whether a name of a member, a variable or a header speaks of a secret. */
export function isSecretName(name: string): boolean {
  return (secretWord.test(name) || keyWord.test(name) || camelKey.test(name)) && !nonSecretName.test(name)
}

/** Where a value stands. */
interface RedactionContext {
  readonly isSecret: boolean
  /** A name says so, and not only a section. */
  readonly isNamed: boolean
  readonly redactsNumbers: boolean
}

interface SecretText {
  readonly text: string
  readonly isNamed: boolean
}

function childContext(parent: RedactionContext, name: string): RedactionContext {
  const isNamed = parent.isNamed || isSecretName(name)
  const isSection = secretSection.test(name)
  return {
    isSecret: parent.isSecret || isNamed || isSection,
    isNamed,
    redactsNumbers: parent.redactsNumbers || isSection || numericSecretName.test(name),
  }
}

function redactValue(value: unknown, mask: string | null, context: RedactionContext): unknown {
  if (typeof value === 'string') return context.isSecret ? mask : redactUrls(value)
  if (typeof value === 'number' || typeof value === 'bigint') return context.redactsNumbers ? mask : value
  if (Array.isArray(value)) {
    const { isSecret } = context
    return value.map((item, at) => {
      const secretArgument = isSecret ? undefined : findSecretArgument(value, at)
      return secretArgument === undefined ? redactValue(item, mask, context) : secretArgument.shown
    })
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      redactValue(member, mask, childContext(context, name)),
    ]),
  )
}

function collectSecrets(value: unknown, context: RedactionContext, secrets: SecretText[]): void {
  const { isSecret, isNamed } = context
  if (typeof value === 'string') {
    if (isSecret) secrets.push(...secretVariants(value).map((text) => ({ text, isNamed })))
    else secrets.push(...urlSecrets(value).map((text) => ({ text, isNamed: true })))
  } else if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      const secretArgument = isSecret ? undefined : findSecretArgument(value, at)
      if (secretArgument === undefined) collectSecrets(item, context, secrets)
      else secrets.push(...secretVariants(secretArgument.secret).map((text) => ({ text, isNamed: false })))
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value))
      collectSecrets(member, childContext(context, name), secrets)
  }
}

/** An item of a list that is the value of an argument, or brings one; with what may be shown of it. */
function findSecretArgument(
  list: readonly unknown[],
  at: number,
): { shown: string; secret: string } | undefined {
  const [previous, item] = [list[at - 1], list[at]]
  if (typeof item !== 'string') return undefined
  const [, prefix = '', name = '', secret = ''] = argumentWithValue.exec(item) ?? []
  if (secret !== '' && !secret.startsWith('//') && isSecretName(name))
    return { shown: prefix + maskedText, secret }
  const flagName = typeof previous === 'string' ? flagPattern.exec(previous)?.[1] : undefined
  const isValue = flagName !== undefined && isSecretName(flagName) && !item.startsWith('-')
  return isValue ? { shown: maskedText, secret: item } : undefined
}

/** A secret as it stands, and without the scheme of authorization in front. */
function secretVariants(text: string): string[] {
  return [text, authorizationValue.exec(text)?.[1] ?? text]
}

function redactUrls(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(urlCredentials, `$1${maskedText}@`).replace(urlSecretParameter, `$1${maskedText}`)
}

function urlSecrets(text: string): string[] {
  if (!text.includes('://')) return []
  const users = [...text.matchAll(urlCredentials)].flatMap(([, , user = '']) => user.split(':').slice(1))
  return [...users, ...[...text.matchAll(urlSecretParameter)].map(([, , value = '']) => value)]
}

/** `"api_key": "x"`, `password='x'`, `X-API-Key: x`, `Authorization: Bearer x`, `token=x`; escaped quotes too. */
const namedSecret =
  /((\\?["']?)(?<![\w-])[\w-]{0,60}(?:authorization|cookie|credential|key|passw(?:or)?d|passphrase|secret|session|token)[\w-]{0,60}\2\s{0,5}[:=]\s{0,5})(?:\\?"[^"\\]*|\\?'[^'\\]*|(?:(?:basic|bearer|token)\s+)?[^\s,;&"'<>()[\]{}\\]+)/gi
const numericValue = /[:=]\s*[\d.]+$/
/** Keys that can be told by how they begin. */
const keyPattern =
  /\b(?:sk-[\w-]{12,}|(?:gsk|hf|tgp_v1|ghp|gho|ghu|ghs|ghr|github_pat)_\w{12,}|(?:glpat|xox[abeprs])-[\w-]{8,}|AIza[\w-]{20,}|A[KS]IA[A-Z\d]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)/g

/**
 * A text for people without what looks like a secret: values that stand behind a name that speaks of one, keys that can be told by
 * how they begin, users and keys in addresses. What may be a number of tokens stays. A net below what knows the secrets themselves.
 */
export function redactText(text: string): string {
  return redactUrls(text)
    .replace(namedSecret, (all, name: string) => (numericValue.test(all) ? all : `${name}<redacted>`))
    .replace(keyPattern, '<redacted>')
}
