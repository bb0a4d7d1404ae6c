/** A line of a difference: removed, added, in both texts, or a remark about the line before it. */
export interface DiffLine {
  readonly mark: '-' | '+' | ' ' | '\\'
  readonly text: string
}

/** More comparisons than this are not made: the whole old text is removed, and the new one added. */
const maxComparisons = 1_000_000

/** All lines of both texts, those in both once: nothing is left out. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const [old, fresh] = [splitLines(before), splitLines(after)]
  let start = 0
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++
  let end = 0
  const most = Math.min(old.length, fresh.length) - start
  while (end < most && old[old.length - 1 - end] === fresh[fresh.length - 1 - end]) end++
  const [removed, added] = [old.slice(start, old.length - end), fresh.slice(start, fresh.length - end)]
  const middle =
    removed.length * added.length > maxComparisons
      ? [...marked('-', removed), ...marked('+', added)]
      : commonLines(removed, added)
  const isEndShown = before !== '' && after !== '' && before.endsWith('\n') !== after.endsWith('\n')
  return [
    ...marked(' ', old.slice(0, start)),
    ...middle,
    ...marked(' ', old.slice(old.length - end)),
  ].flatMap(({ mark, text }): DiffLine[] => {
    if (text.endsWith('\n')) return [{ mark, text: text.slice(0, -1) }]
    return [{ mark, text }, ...(isEndShown ? [{ mark: '\\', text: 'No line feed at the end' } as const] : [])]
  })
}

/** Each with its line feed. */
function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? []
}

function marked(mark: DiffLine['mark'], lines: readonly string[]): DiffLine[] {
  return lines.map((text) => ({ mark, text }))
}

/** By the longest common subsequence. */
function commonLines(old: readonly string[], fresh: readonly string[]): DiffLine[] {
  const width = fresh.length + 1
  const lengths = new Uint32Array((old.length + 1) * width)
  const length = (a: number, b: number) => lengths[a * width + b] ?? 0
  for (let a = old.length - 1; a >= 0; a--) {
    for (let b = fresh.length - 1; b >= 0; b--)
      lengths[a * width + b] =
        old[a] === fresh[b] ? length(a + 1, b + 1) + 1 : Math.max(length(a + 1, b), length(a, b + 1))
  }
  const lines: DiffLine[] = []
  let [a, b] = [0, 0]
  while (a < old.length || b < fresh.length) {
    const [gone, come] = [old[a], fresh[b]]
    if (gone !== undefined && gone === come) {
      lines.push({ mark: ' ', text: gone })
      a++
      b++
    } else if (gone !== undefined && (come === undefined || length(a + 1, b) >= length(a, b + 1))) {
      lines.push({ mark: '-', text: gone })
      a++
    } else {
      lines.push({ mark: '+', text: come ?? '' })
      b++
    }
  }
  return lines
}
