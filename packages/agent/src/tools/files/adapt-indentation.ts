import { ToolError } from '../core/tool-failure.ts'

/** One level: a tab, or this many spaces. */
type Unit = '\t' | number

const units: readonly Unit[] = ['\t', 2, 3, 4, 8]

interface Level {
  readonly levels: number
  /** What is no whole level, for alignment. */
  readonly rest: string
}

/**
 * A function from the indentation of a model's text to that of a file. `indents`: what is known from matched
 * lines; other indentations are converted level by level. It throws ToolError for one that could be read
 * in two ways.
 */
export function adaptIndentation(
  indents: ReadonlyMap<string, string>,
  context: { readonly text: readonly string[]; readonly file: string },
): (indent: string) => string {
  const isSame = [...indents].every(([own, inFile]) => own === inFile)
  if (isSame && !mixesStyles(indents, context)) return (indent) => indent
  let convert: ((indent: string) => string | undefined) | undefined
  return (indent) => {
    const known = indents.get(indent)
    if (known !== undefined) return known
    convert ??= converter(indents, context)
    const converted = convert(indent)
    if (converted !== undefined) return converted
    throw new ToolError(
      'The old text differs from the file in its indentation, and how to indent the new text is unclear. Copy the indentation from the file.',
    )
  }
}

/**
 * Whether the file's lines are indented as those of the text, but for one shift of all, in the style of either.
 */
export function hasOneShift(indents: ReadonlyMap<string, string>): boolean {
  return (
    plainShift(indents) !== undefined ||
    units.some((unit) => units.some((inFile) => constantShift(indents, unit, inFile) !== undefined))
  )
}

/** What all lines of the file have before the indentation of the text, or the reverse. */
function plainShift(
  indents: ReadonlyMap<string, string>,
): ((indent: string) => string | undefined) | undefined {
  const [[own, inFile] = ['', '']] = indents
  const isDeeper = inFile.endsWith(own)
  const shift = isDeeper
    ? inFile.slice(0, inFile.length - own.length)
    : own.slice(0, own.length - inFile.length)
  const isMixed = (indent: string) =>
    shift !== '' && indent !== '' && shift.includes('\t') !== indent.includes('\t')
  const move = (indent: string) => {
    if (isDeeper) return isMixed(indent) ? undefined : shift + indent
    return indent.startsWith(shift) ? indent.slice(shift.length) : undefined
  }
  return [...indents].every(([from, to]) => move(from) === to) ? move : undefined
}

/** Nothing that matched is indented, and the new text has tabs where the file has spaces, or the reverse. */
function mixesStyles(
  indents: ReadonlyMap<string, string>,
  { text, file }: { readonly text: readonly string[]; readonly file: string },
): boolean {
  const unit = detectUnit(fileIndents(file))
  if (unit === undefined || [...indents.keys()].some((own) => own !== '')) return false
  return text.some((indent) => indent.includes(unit === '\t' ? ' ' : '\t')) && detectUnit(text) !== undefined
}

function fileIndents(file: string): readonly string[] {
  return ['', ...file.split('\n').flatMap((line) => /^[ \t]*(?=\S)/.exec(line)?.[0] ?? [])]
}

function converter(
  indents: ReadonlyMap<string, string>,
  { text, file }: { readonly text: readonly string[]; readonly file: string },
): (indent: string) => string | undefined {
  const textUnit = detectUnit(text)
  const fileUnit = detectUnit(fileIndents(file))
  const rules = units.flatMap((unit) =>
    (fileUnit === undefined ? units : [fileUnit]).flatMap((inFile) => {
      const shift = constantShift(indents, unit, inFile)
      return shift === undefined ? [] : [{ unit, shift, fileUnit: inFile }]
    }),
  )
  // The text may have another style at the same depth, or its own style at another depth.
  const chosen = rules.filter(
    ({ shift, unit }) => unit === textUnit || (shift === 0 && isEvidence(indents, unit)),
  )
  if (chosen.length === 0) return plainShift(indents) ?? (() => undefined)
  return (indent) => {
    const results = new Set(
      chosen.map(({ unit, shift, fileUnit }) => {
        const { levels, rest } = splitLevels(indent, unit)
        return levels + shift < 0 ? undefined : oneLevel(fileUnit).repeat(levels + shift) + rest
      }),
    )
    return results.size === 1 ? [...results][0] : undefined
  }
}

/** A known indentation has a whole level in this unit, so the unit is not a guess. */
function isEvidence(indents: ReadonlyMap<string, string>, unit: Unit): boolean {
  return [...indents.keys()].some((own) => splitLevels(own, unit).levels > 0)
}

/** How many levels deeper the file is than the text, the same for all; undefined when it differs. */
function constantShift(indents: ReadonlyMap<string, string>, unit: Unit, fileUnit: Unit): number | undefined {
  const shifts = new Set<number>()
  for (const [own, inFile] of indents) {
    const [from, to] = [splitLevels(own, unit), splitLevels(inFile, fileUnit)]
    if (from.rest !== to.rest) return undefined
    shifts.add(to.levels - from.levels)
  }
  return shifts.size === 1 ? [...shifts][0] : undefined
}

function splitLevels(indent: string, unit: Unit): Level {
  const one = oneLevel(unit)
  let levels = 0
  while (indent.startsWith(one, levels * one.length)) levels++
  return { levels, rest: indent.slice(levels * one.length) }
}

function oneLevel(unit: Unit): string {
  return unit === '\t' ? unit : ' '.repeat(unit)
}

/** The commonest step to a deeper line; undefined when there is none. */
function detectUnit(indents: readonly string[]): Unit | undefined {
  const steps = new Map<Unit, number>()
  let before = indents[0] ?? ''
  for (const indent of indents) {
    const step = indent.startsWith(before) ? indent.slice(before.length) : ''
    const unit = step === '' ? undefined : step.startsWith('\t') ? '\t' : step.length
    // A single space aligns, as in block comments, and so do many.
    if (unit === '\t' || (unit !== undefined && unit > 1 && unit <= 8))
      steps.set(unit, (steps.get(unit) ?? 0) + 1)
    before = indent
  }
  return [...steps].sort(([, a], [, b]) => b - a)[0]?.[0]
}
