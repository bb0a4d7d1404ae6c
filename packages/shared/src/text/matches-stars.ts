/**
 * Whether a text is as a pattern, in which each `*` stands for any text, also none. In time proportional to
 * the product of the lengths, whatever the pattern.
 */
export function matchesStars(text: string, pattern: string): boolean {
  let at = 0
  let patternAt = 0
  let star = -1
  let starText = 0
  while (at < text.length) {
    if (pattern[patternAt] === '*') {
      star = patternAt++
      starText = at
    } else if (pattern[patternAt] === text[at]) {
      patternAt++
      at++
    } else if (star >= 0) {
      patternAt = star + 1
      at = ++starText
    } else return false
  }
  while (pattern[patternAt] === '*') patternAt++
  return patternAt === pattern.length
}
