/** JSON that nests deeper is refused wherever it comes in: many clients cannot parse it. */
export const maxDepth = 500

/** Counts brackets outside strings of a JSON text; invalid JSON is for the parser to find. */
export function exceedsMaxDepth(bytes: Uint8Array): boolean {
  let depth = 0
  let inString = false
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]
    if (byte === 0x22) inString = !inString
    else if (inString) index += byte === 0x5c ? 1 : 0
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maxDepth) return true
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return false
}
