import { hidesNumbers, isAmount, isSecretName } from './secret-names.ts'

const secretSection = /^(auth|env|environment|(extra_)?headers)$/i
/** Secrets in a URL: a user with a password, and parameters. */
const urlCredentials = /\b([a-z][a-z0-9+.-]{0,40}:\/\/)([^\s/?#]*)@/gi
const urlParameter = /([?&]([^=&#\s]{1,200})=)([^&#\s"']+)/g
/** An authorization header: the secret follows the scheme. */
const authorizationValue = /^(?:basic|bearer|token)\s+(\S+)$/i
/** A program argument with a value: `--api-key=x`, `API_KEY=x`, `Authorization: Bearer x`. */
const argumentWithValue = /^(-{0,2}([\w.-]{1,100})(?:=|:\s*))(.+)$/s
const flagPattern = /^--?([\w.-]{1,100})$/
const maskedText = '****'

/**
 * A copy in which `mask` replaces every string at or below a name of a secret (in any case, at any depth) and
 * in an `auth`, `env`, `environment`, `headers` or `extra_headers` section; also numbers in such a section
 * and under names such as `password`. Other numbers, booleans, and amounts as texts (`MAX_TOKENS: "5"`) stay.
 * Stars replace users, passwords and keys in URLs, and values of program arguments (`["--token", "x"]`).
 * Plain JSON only.
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

function childContext(parent: RedactionContext, name: string, value: unknown): RedactionContext {
  const isNamed = parent.isNamed || isSecretMember(name, value)
  const isSection = secretSection.test(name)
  return {
    isSecret: parent.isSecret || isNamed || isSection,
    isNamed,
    redactsNumbers: parent.redactsNumbers || isSection || hidesNumbers(name),
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
      redactValue(member, mask, childContext(context, name, member)),
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
      collectSecrets(member, childContext(context, name, member), secrets)
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
  if (secret !== '' && !secret.startsWith('//') && isSecretMember(name, secret))
    return { shown: prefix + maskedText, secret }
  const flagName = typeof previous === 'string' ? flagPattern.exec(previous)?.[1] : undefined
  const isValue = flagName !== undefined && isSecretMember(flagName, item) && !item.startsWith('-')
  return isValue ? { shown: maskedText, secret: item } : undefined
}

/** Whether a value is a secret because of its name. */
function isSecretMember(name: string, value: unknown): boolean {
  return isSecretName(name) && !(typeof value === 'string' && isAmount(name, value))
}

/** A secret, with and without an authorization scheme in front. */
function secretVariants(text: string): string[] {
  return [text, authorizationValue.exec(text)?.[1] ?? text]
}

function redactUrls(text: string): string {
  if (!text.includes('://')) return text
  return text
    .replace(urlCredentials, `$1${maskedText}@`)
    .replace(urlParameter, (all, start: string, name: string, value: string) =>
      isSecretMember(name, value) ? start + maskedText : all,
    )
}

function urlSecrets(text: string): string[] {
  if (!text.includes('://')) return []
  const users = [...text.matchAll(urlCredentials)].flatMap(([, , user = '']) => user.split(':').slice(1))
  const parameters = [...text.matchAll(urlParameter)]
    .filter(([, , name = '', value]) => isSecretMember(name, value))
    .map(([, , , value = '']) => value)
  return [...users, ...parameters]
}

/** `"api_key": "x"`, `password='x'`, `Authorization: Bearer x`, `token=x`; escaped quotes too. */
const namedValue =
  /(\\?["']?)(?<![\w-])([\w-]{0,60}(?:auth|cookie|cred|csrf|dsn|jwt|key|otp|pass|pat|pin|psk|pw|salt|secret|sess|sig|token|bearer|connection|encrypted|mnemonic|hmac|pem|pfx)[\w-]{0,60})\1\s{0,5}[:=]\s{0,5}/gi
const valueAfterName = /\\?"[^"\\]*|\\?'[^'\\]*|(?:(?:basic|bearer|token)\s+)?[^\s,;&"'<>()[\]{}\\]+/iy

function redactNamedValues(text: string): string {
  let [done, from] = ['', 0]
  for (const match of text.matchAll(namedValue)) {
    const end = match.index + match[0].length
    if (match.index < from) continue
    valueAfterName.lastIndex = end
    const [value = ''] = valueAfterName.exec(text) ?? []
    const name = match[2] ?? ''
    const plain = value.replace(/^\\?["']/, '')
    if (value === '' || !isSecretName(name) || isAmount(name, plain) || isCount(name, plain)) continue
    done += `${text.slice(from, end)}<redacted>`
    from = end + value.length
  }
  return done + text.slice(from)
}

/** A number under a name of which numbers are no secrets: `tokens: 5`. */
function isCount(name: string, text: string): boolean {
  return /^[\d.]+$/.test(text) && !hidesNumbers(name)
}

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
  return redactNamedValues(redactUrls(text))
    .replace(keyPattern, '<redacted>')
    .replace(assignedText, (all, name: string, value: string) =>
      isRandom(value) ? `${name}<redacted>` : all,
    )
}
