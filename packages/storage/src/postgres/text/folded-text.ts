import { messageTexts } from '@slipway/protocol/message-texts'
import { foldCase } from '../../text/case-folding.ts'

/** Begins an escape, and separates the parts of a text: a noncharacter. */
const mark = '\u{10fffe}'
const firstDigit = 0xfdd0
const digits = 5
/** What PostgreSQL's texts cannot have (NUL, lone surrogates), and what escapes are made of. */
const special = /[\0\ud800-\udfff\ufdd0-\ufdef\u{10fffe}]/gu

/**
 * The folded texts of a message, for a search with LIKE; undefined without one. A needle is contained in
 * a part exactly when `likePattern` of it matches.
 */
export function foldedMessage(body: Buffer): string | undefined {
  const texts = parseTexts(body)
  return texts.length === 0 ? undefined : texts.map(encode).join(mark)
}

/** A pattern of LIKE for the texts that contain a needle. */
export function likePattern(needle: string): string {
  return `%${encode(needle).replace(/[\\%_]/g, '\\$&')}%`
}

/**
 * Escapes have one length and digits that occur nowhere else, so that no needle begins or ends within one.
 */
function encode(text: string): string {
  return foldCase(text).replace(special, (char) => {
    let escaped = ''
    for (let code = char.codePointAt(0) ?? 0, i = 0; i < digits; i++, code >>= 5)
      escaped += String.fromCharCode(firstDigit + (code & 31))
    return mark + escaped
  })
}

function parseTexts(body: Buffer): string[] {
  try {
    return messageTexts(JSON.parse(body.toString('utf8')))
  } catch {
    return []
  }
}
