/** A case of the conformance suites, as its file defines it. */
export interface ConformanceCase {
  /** The requirement: `F07.replay` of the map, method and path of the wire; undefined of other tests. */
  readonly id: string | undefined
  /** The text as written, with the placeholders of tables. */
  readonly title: string
  readonly file: string
}

/** An id of the map is written once, as an argument or in a table: no helper hides it. */
const mapPattern = /(['"])(F\d\d\.[\w-]+)\1/g
const wirePattern = /\bwireCase(?:WithKey)?\(/g
const testPattern = /(?<![\w.])(?:test|it|\w+Test)(?:\.(\w+))?\(/g
const literalPattern = /\s*(?:(['"`])((?:\\.|(?!\1)[^\\])*)\1)/y

/** The cases that files define, found in their text: no file is run. */
export function findCases(files: readonly string[], read: (file: string) => string): ConformanceCase[] {
  return files.flatMap((file) => {
    const text = read(file)
    return [...findMapCases(text), ...findWireCases(text), ...findTests(text)].map((found) => ({
      ...found,
      file,
    }))
  })
}

type Found = Omit<ConformanceCase, 'file'>

function* findMapCases(text: string): Generator<Found> {
  for (const { 0: match, 2: id = '', index } of text.matchAll(mapPattern))
    yield { id, title: readNext(text, index + match.length)?.value ?? '' }
}

function* findWireCases(text: string): Generator<Found> {
  for (const { 0: match, index } of text.matchAll(wirePattern)) {
    const id = readLiteral(text, index + match.length)
    if (id !== undefined) yield { id: id.value, title: readNext(text, id.end)?.value ?? '' }
  }
}

function* findTests(text: string): Generator<Found> {
  for (const { 0: match, 1: modifier, index } of text.matchAll(testPattern)) {
    const start = index + match.length
    // `test.each(table)('title', ...)`: the title is in the second pair of parentheses.
    const isTable = ['each', 'for', 'skipIf', 'runIf'].includes(modifier ?? '')
    const title = readLiteral(text, isTable ? skipArguments(text, start) + 1 : start)
    // The frame itself names a test by an id that it is given.
    if (title !== undefined && !title.value.startsWith('[$')) yield { id: undefined, title: title.value }
  }
}

/**
 * Cases of `before` that `after` lacks, in whatever file they were: ids of the map, and of other cases the id
 * with the title.
 */
export function missingCases(
  before: readonly ConformanceCase[],
  after: readonly ConformanceCase[],
): ConformanceCase[] {
  const left = new Map<string, number>()
  for (const each of after) left.set(caseKey(each), (left.get(caseKey(each)) ?? 0) + 1)
  return before.filter((each) => {
    const count = left.get(caseKey(each)) ?? 0
    left.set(caseKey(each), count - 1)
    return count <= 0
  })
}

function caseKey({ id = '', title }: ConformanceCase): string {
  return /^F\d\d\./.test(id) ? id : `${id} ${title}`
}

interface Literal {
  readonly value: string
  readonly end: number
}

function readLiteral(text: string, at: number): Literal | undefined {
  literalPattern.lastIndex = at
  const found = literalPattern.exec(text)
  return found === null ? undefined : { value: found[2] ?? '', end: literalPattern.lastIndex }
}

/** The literal after a comma. */
function readNext(text: string, at: number): Literal | undefined {
  return text[at] === ',' ? readLiteral(text, at + 1) : undefined
}

/** The place after the parenthesis that closes the one before `at`. */
function skipArguments(text: string, at: number): number {
  let depth = 1
  let end = at
  while (depth > 0 && end < text.length) {
    const literal = `'"\``.includes(text[end] ?? '') ? readLiteral(text, end) : undefined
    if ('([{'.includes(text[end] ?? '')) depth += 1
    if (')]}'.includes(text[end] ?? '')) depth -= 1
    end = literal?.end ?? end + 1
  }
  return end
}
