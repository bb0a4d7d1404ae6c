/** Percent-decoded text (a path, a header, a parameter); undefined when it is malformed, where `decodeURIComponent` throws. */
export function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
