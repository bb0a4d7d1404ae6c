/** Percent-decoded text; undefined for malformed text, where `decodeURIComponent` throws. */
export function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
