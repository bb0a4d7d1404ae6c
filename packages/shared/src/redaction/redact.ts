/** Parts of a name that name a secret, anywhere in it. */
const secretWord =
  /access_key|authorization|cookie|connection_?string|credential|encrypted_?content|pass_?(?:word|wd|phrase)|secret|session|token(?!iz)/i
/**
 * Short words that name a secret where they stand alone, as in `DB_PWD` or `jwt-2`; not in `spinner` or
 * `path`.
 */
const shortWord = /(?:^|[-_.\s])(?:pwd|pin|bearer|jwt|pat|dsn|otp|signature)(?=$|[-_.\s\d])/i
/** `key` as a word, as in `MY_KEY_ID`, `api-key-2`, `keyId`, or at the end of a name; not in `keywords`. */
const keyWord = /keys?$|(?:^|[-_.\s])keys?(?=[-_.\s\d])|api_?key/i
const camelKey = /(?:^key|[a-z\d]Keys?)(?=[A-Z\d_-])/
/** Names that only sound like secrets: hooks of a session, the order of members, animals. */
const nonSecretName = /^session_?(?:start|end)$|^sort_?keys?$|(?:^|[-_.\s])(?:mon|don|tur)keys?$/i
/** The working directory in an environment. */
const directoryVariable = 'PWD'
const secretSection = /^(auth|env|environment|(extra_)?headers)$/i
/** Names under which a number is a secret; under others it is a count (`max_output_tokens`). */
const numericSecretName =
  /credential|pass_?(?:word|wd|phrase)|secret|(?:^|[-_.\s])(?:pin|otp)(?=$|[-_.\s\d])/i

/** Secrets in a URL: a user with a password, and parameters. */
const urlCredentials = /\b([a-z][a-z0-9+.-]{0,40}:\/\/)([^\s/?#]*)@/gi
const urlSecretParameter = /([?&][^=&#\s]*(?:key|token|secret|password|signature)=)([^&#\s"']+)/gi
/** An authorization header: the secret follows the scheme. */
const authorizationValue = /^(?:basic|bearer|token)\s+(\S+)$/i
/** A program argument with a value: `--api-key=x`, `API_KEY=x`, `Authorization: Bearer x`. */
const argumentWithValue = /^(-{0,2}([\w.-]{1,100})(?:=|:\s*))(.+)$/s
const flagPattern = /^--?([\w.-]{1,100})$/
const maskedText = '****'

/**
 * A copy in which `mask` replaces every string at or below a name of a secret (in any case, at any depth) and
 * in an `auth`, `env`, `environment`, `headers` or `extra_headers` section; also numbers in such a section
 * and under names such as `password`. Other numbers (`max_output_tokens`) and booleans stay. Stars replace
 * users, passwords and keys in URLs, and values of program arguments (`["--token", "x"]`). Plain JSON only.
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
 * The texts that `redact` replaces. `isNamed`: because of a name of a secret, not only of a section or a
 * program argument, which may contain harmless texts too.
 */
export function findSecretTexts(value: unknown): SecretText[] {
  const secrets: SecretText[] = []
  collectSecrets(value, { isSecret: false, isNamed: false, redactsNumbers: false }, secrets)
  return secrets
}

/** Whether a name of a member, a variable or a header names a secret. */
export function isSecretName(name: string): boolean {
  const isSecret = [secretWord, shortWord, keyWord, camelKey].some((pattern) => pattern.test(name))
  return isSecret && name !== directoryVariable && !nonSecretName.test(name)
}

/** What the names above a value say about it. */
interface RedactionContext {
  readonly isSecret: boolean
  /** Because of a name, not only of a section. */
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

/** An item of a list that is or contains the secret value of a program argument, with its redacted form. */
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

/** A secret, with and without an authorization scheme in front. */
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

/** `"api_key": "x"`, `password='x'`, `Authorization: Bearer x`, `token=x`; escaped quotes too. */
const namedSecret =
  /((\\?["']?)(?<![\w-])[\w-]{0,60}(?:authorization|cookie|credential|key|passw(?:or)?d|passphrase|pwd|secret|session|token)[\w-]{0,60}\2\s{0,5}[:=]\s{0,5})(?:\\?"[^"\\]*|\\?'[^'\\]*|(?:(?:basic|bearer|token)\s+)?[^\s,;&"'<>()[\]{}\\]+)/gi
const numericValue = /[:=]\s*[\d.]+$/
/** Keys with a known prefix. */
const keyPattern =
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\w\s+/=\\]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?|\b(?:sk-[\w-]{12,}|(?:gsk|hf|tgp_v1|ghp|gho|ghu|ghs|ghr|github_pat)_\w{12,}|(?:glpat|xox[abeprs])-[\w-]{8,}|AIza[\w-]{20,}|A[KS]IA[A-Z\d]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)/g

/** The value of an assignment that may be a random key, whatever its name. */
const assignedText = /(=\s{0,2}["']?)([\w+/-]{24,200}={0,2})(?![\w+/.-])/g

/**
 * Letters of both cases and digits, mixed as chance mixes them; names, paths, hex digests and UUIDs are not.
 */
function isRandom(text: string): boolean {
  if (!/[a-z]/.test(text) || !/[A-Z]/.test(text) || !/\d/.test(text)) return false
  const counts = new Map<string, number>()
  for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1)
  const bits = [...counts.values()].reduce(
    (sum, n) => sum - (n / text.length) * Math.log2(n / text.length),
    0,
  )
  return bits >= 3.8
}

/**
 * Replaces what looks like a secret in a text for people: values after a name of a secret, keys with a known
 * form (prefix, JWT, PEM), random texts after `=`, users and keys in URLs. Possible token counts stay. A
 * second line of defense behind `Redactor`, which knows the values.
 */
export function redactText(text: string): string {
  return redactUrls(text)
    .replace(namedSecret, (all, name: string) => (numericValue.test(all) ? all : `${name}<redacted>`))
    .replace(keyPattern, '<redacted>')
    .replace(assignedText, (all, name: string, value: string) =>
      isRandom(value) ? `${name}<redacted>` : all,
    )
}
