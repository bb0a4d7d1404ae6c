/** Encodings with one byte for each character, the likelier ones first. */
const singleByteEncodings = [
  'latin-1',
  'windows-1252',
  'windows-1251',
  'koi8-u',
  'ibm866',
  'windows-1250',
  'iso-8859-2',
  'windows-1254',
  'windows-1253',
] as const

export type SingleByteEncoding = (typeof singleByteEncodings)[number]

/** The letters besides ASCII of languages, or of groups of similar ones. */
const languages: readonly RegExp[] = [
  /^[äöüß]*$/i,
  /^[éèêëàâçîïôûùüÿœæ]*$/i,
  /^[ñáéíóúüçàèòïºª]*$/i,
  /^[ãõáéíóúâêôàçüºª]*$/i,
  /^[àèéìòùîóº]*$/i,
  /^[åäöæøéüàá]*$/i,
  /^[ðþáéíóúýæö]*$/i,
  /^[ąćęłńóśźż]*$/i,
  /^[áčďéěíňóřšťúůýžľĺôŕä]*$/i,
  /^[áéíóöőúüű]*$/i,
  /^[čćđšž]*$/i,
  /^[ăâîșțşţ]*$/i,
  /^[çğıöşüİâî]*$/i,
  /^[\u0400-\u045f\u0490\u0491]*$/,
  /^[\u0386-\u03ce]*$/,
]
/** Signs that texts have between their letters. */
const signs = /^[\u00a0¡§©«°®´·»¿×–—‘’‚“”„†‡•…€№™£µ±²³¼½¾\u2500-\u25a0]*$/
/** The largest share of letters that may stand where a text of the encoding would not have them. */
const maxOddShare = 0.02
const maxExamined = 100_000

const tables = new Map<SingleByteEncoding, string>()

/** The characters of the bytes 0 to 255. */
function table(encoding: SingleByteEncoding): string {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
  const known =
    tables.get(encoding) ??
    (encoding === 'latin-1' ? bytes.toString('latin1') : new TextDecoder(encoding).decode(bytes))
  tables.set(encoding, known)
  return known
}

export function decodeSingleByte(bytes: Buffer, encoding: SingleByteEncoding): string {
  return encoding === 'latin-1' ? bytes.toString('latin1') : new TextDecoder(encoding).decode(bytes)
}

/** The bytes of a text; undefined when the encoding lacks one of its characters. */
export function encodeSingleByte(text: string, encoding: SingleByteEncoding): Buffer | undefined {
  const characters = table(encoding)
  const byteOf = new Map(Array.from(characters, (char, byte) => [char, byte] as const))
  const bytes = Buffer.alloc(text.length)
  for (let at = 0; at < text.length; at++) {
    const byte = byteOf.get(text[at] ?? '')
    if (byte === undefined || characters[byte] === '\ufffd') return undefined
    bytes[at] = byte
  }
  return bytes
}

/**
 * The encoding in which bytes above 127 are words of one language; undefined when none is. It decides by the
 * letters that occur, and by where they stand.
 */
export function detectSingleByte(bytes: Buffer): SingleByteEncoding | undefined {
  const used = [...new Set(bytes)].filter((byte) => byte > 127)
  const sample = bytes.subarray(0, maxExamined)
  const possible = singleByteEncodings.flatMap((encoding) => {
    const characters = table(encoding)
    const chars = used.map((byte) => characters[byte] ?? '')
    const letters = chars.filter((char) => /\p{L}/u.test(char)).join('')
    const others = chars.filter((char) => !/\p{L}/u.test(char)).join('')
    if (letters === '' || !signs.test(others) || !languages.some((language) => language.test(letters)))
      return []
    const text = decodeSingleByte(sample, encoding)
    const odd = oddShare(text)
    return odd > maxOddShare ? [] : [{ encoding, score: odd + frequencyScore(text) }]
  })
  const [best, second] = possible.sort((a, b) => a.score - b.score)
  // Two Cyrillic or Greek readings that are about as likely are no answer; of others the likelier encoding is
  // first.
  const isUnclear =
    best !== undefined && second !== undefined && best.score > 0.1 && second.score - best.score < 0.1
  return isUnclear ? undefined : best?.encoding
}

/** 0 for Latin letters; for Cyrillic and Greek ones lower with lower case and the commonest letters. */
function frequencyScore(text: string): number {
  const letters = text.match(/[\u0370-\u04ff]/g) ?? []
  if (letters.length === 0) return 0
  const share = (pattern: RegExp) => letters.filter((char) => pattern.test(char)).length / letters.length
  return 0.3 * share(/\p{Lu}/u) + share(/[^оеаинтсрвліαάοόιίεέτσςνηή]/i)
}

/** The share of letters besides ASCII that stand where they hardly do in a text. */
function oddShare(text: string): number {
  const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0
  const letters = count(/[\u0080-\uffff]/g)
  const mixed = count(/[A-Za-z](?=[\u0370-\u04ff])|[\u0370-\u04ff](?=[A-Za-z])/g)
  // In Latin scripts, words of such letters alone are rare.
  const bare = count(/(?<!\p{L})[\u00c0-\u024f]{2,}(?!\p{L})/gu)
  const caseChanges = count(/(?=[^\0-\x7f])\p{Ll}(?=\p{Lu})(?=[^\0-\x7f])/gu)
  const inWords = count(
    /(?<=\p{L})[¡§©«®»¿×²³¼½¾±µ](?=\p{L})|(?<=\p{L})[\u2500-\u25a0]|[\u2500-\u25a0](?=\p{L})/gu,
  )
  return letters === 0 ? 0 : (mixed + bare + caseChanges + inWords) / letters
}
