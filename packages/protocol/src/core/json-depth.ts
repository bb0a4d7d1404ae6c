/** JSON that nests deeper is refused wherever it comes in: many clients cannot parse it. */
export const maxDepth = 500

/** Counts brackets outside of strings in a JSON text of UTF-8; what is not JSON is found when it is parsed. */
export function isTooDeep(bytes: Uint8Array): boolean {
  let depth = 0
  let isText = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === 0x22) isText = !isText
    else if (isText) at += byte === 0x5c ? 1 : 0
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maxDepth) return true
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return false
}
