/** Longer names are texts. */
const maxNameChars = 500

/** Words that name a secret where they stand alone, as in `DB_PWD`, `smtpPass` or `jwt-2`. */
const secretWords = new Set(
  (
    'bearer cred creds csrf dsn hmac jwt key keys mnemonic otp passcode passwd pat pem pfx pin psk pw pwd salt ' +
    'sig signature totp xsrf'
  ).split(' '),
)
/** Parts of a word, or of a name without its separators, that name a secret. */
const secretPart =
  /apikey|authorization|basicauth|connectionstring|cookie|credential|encryptedcontent|jwt|key|passcode|passphrase|passwd|password|pwd|secret|sessid|session|signature|token/
/** `pass` as the last word or at its end: `DB_PASS`, `rootpass`; not in `passage` or `pass_rate`. */
const passEnd = /pass$/
/**
 * English words that begin with, or are, one of the parts; what follows them in the same word still counts.
 */
const englishStart =
  /^(?:cookiecutter|donkey|flunkey|hockey|jockey|keyboard|keyframe|keyhole|keymap|keynote|keypad|keypress|keyspace|keystone|keystroke|keyword|lackey|latchkey|malarkey|monkey|obsession|passwordless|possession|secretar|secretion|secretive|tokenism|turkey|turnkey|whiskey)/
const englishWord =
  /^(?:bypass|compass|dispossession|encompass|hotkey|keydown|keyed|keying|keyof|keyup|overpass|pallbearer|repossession|secreted?|secretes|smokey|surpass|trespass|underpass)s?$/
/** `tokenizer`, `detokenise`. */
const tokenizing = /tokeni[sz]/
/** Names that only sound like secrets: hooks of a session, the order of members, working directories. */
const nonSecretName = /^(?:session[-_]?(?:start|end)|sort[-_]?keys?)$/i
const directoryVariables = ['PWD', 'OLDPWD']

/** Words of a name whose value is an amount or a switch: `max_tokens`, `cookies_enabled`. */
const amountWords = new Set(
  (
    'age allow allowed attempts bits budget cost count counts days disable disabled enable enabled exp expiration ' +
    'expire expires expiry has hours interval is len length lifetime limit limits max maximum min minimum minutes ' +
    'ms per require required retries rotate rotation secs seconds secure size timeout total ttl usage ' +
    'use used uses verify window with'
  ).split(' '),
)
const amountText = /^\s*(?:true|false|yes|no|on|off|-?\d+(?:\.\d+)?\s?(?:ms|s|m|h|d|k)?)\s*$/i
/** Words under which a number is a secret; under others (`tokens`) it is a count. */
const numericSecretWord = /^(?:otp|pass|passcode|pin|pw|pwd|totp)$|credential|pass(?:word|wd|phrase)|secret/

/** Words of a name, in lower case: split at separators, and (`isCamel`) at digits and changes of case. */
function splitName(name: string, isCamel: boolean): string[] {
  const spaced = isCamel
    ? name
        .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
        .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
        .replace(/\d+/g, ' ')
    : name
  return spaced
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '')
}

/** Both splits: `apiKey` has two words, and so has `aPi_kEY`. */
function nameWords(name: string): string[] {
  return [...splitName(name, true), ...splitName(name, false)]
}

function isSecretWord(word: string): boolean {
  if (secretWords.has(word)) return true
  if (englishWord.test(word) || tokenizing.test(word)) return false
  const rest = word.replace(englishStart, '')
  return secretPart.test(rest)
}

/** Parts of two words: `connection-string`. */
const pairPart = /apikey|basicauth|connectionstring|encryptedcontent/

/**
 * Whether a name of a member, a variable or a header names a secret: one of its words does, or contains one
 * and is no English word (`monkey`, `secretary`). In doubt it does.
 */
export function isSecretName(name: string): boolean {
  if (name.length > maxNameChars) return secretPart.test(name.toLowerCase())
  if (nonSecretName.test(name) || directoryVariables.includes(name)) return false
  const words = splitName(name, false)
  const camelWords = splitName(name, true)
  const last = camelWords.at(-1) ?? ''
  return (
    [...camelWords, ...words].some(isSecretWord) ||
    (passEnd.test(last) && !englishWord.test(last)) ||
    (words.length > 1 && pairPart.test(words.join('')))
  )
}

/** Whether a text under a name of a secret is an amount or a switch, as in `MAX_TOKENS=5`. */
export function isAmount(name: string, text: string): boolean {
  return amountText.test(text) && hasAmountWord(name)
}

/** Whether a number under a name is a secret, as a PIN is, and no count. */
export function hidesNumbers(name: string): boolean {
  return nameWords(name).some((word) => numericSecretWord.test(word)) && !hasAmountWord(name)
}

function hasAmountWord(name: string): boolean {
  return nameWords(name).some((word) => amountWords.has(word))
}
