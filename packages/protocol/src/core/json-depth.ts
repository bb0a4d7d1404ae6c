/** JSON that nests deeper is refused wherever it comes in: many clients cannot parse it. */
export const maxDepth = 500

export function exceedsMaxDepth(bytes: Uint8Array): boolean {
  return countJsonMembers(bytes) === undefined
}

/**
 * The members of all objects in a JSON text, duplicates included; undefined when it nests deeper than
 * `maxDepth`. Counts brackets and colons outside strings; invalid JSON is for the parser to find.
 */
export function countJsonMembers(bytes: Uint8Array): number | undefined {
  let depth = 0
  let members = 0
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]
    if (byte === 0x22) {
      for (index++; index < bytes.length && bytes[index] !== 0x22; index++) if (bytes[index] === 0x5c) index++
    } else if (byte === 0x3a) members++
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maxDepth) return undefined
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return members
}
