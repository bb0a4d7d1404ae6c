import { dirname } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import { isTest, readSources } from './check-imports.ts'
import { sizeExceptions } from './size-exceptions.ts'

/** Source files of a folder, tests not counted; lines of a file, of a function and of a React component. */
export const maxSizes = { folder: 20, file: 500, function: 80, component: 120 } as const

interface Source {
  readonly file: string
  readonly text: string
}

interface Large {
  /** `http/src/core`, `http/src/app.ts`, or `http/src/app.ts App.close`. */
  readonly place: string
  readonly size: number
  readonly kind: keyof typeof maxSizes
}

/** Every folder, file and function of the sources that is larger than `maxSizes`, in the order of places. */
export function findLarge(sources: readonly Source[]): Large[] {
  const folders = [...Map.groupBy(sources, ({ file }) => dirname(file))].map(
    ([place, { length }]): Large => ({ place, size: length, kind: 'folder' }),
  )
  const files = sources.map(
    ({ file, text }): Large => ({ place: file, size: countLines(text), kind: 'file' }),
  )
  return [...folders, ...files, ...sources.flatMap(functionSizes)]
    .filter(({ size, kind }) => size > maxSizes[kind])
    .toSorted((a, b) => (a.place < b.place ? -1 : 1))
}

/** What is larger than its exception allows, and exceptions that nothing needs any more. */
export function findSizeViolations(
  large: readonly Large[],
  exceptions: Readonly<Record<string, number>>,
): string[] {
  const places = new Set(large.map(({ place }) => place))
  const unit = (kind: Large['kind']) => (kind === 'folder' ? 'source files' : 'lines')
  return [
    ...large
      .filter(({ place, size }) => size > (exceptions[place] ?? 0))
      .map(
        ({ place, size, kind }) =>
          `${place}: ${size} ${unit(kind)}; a ${kind} has at most ${exceptions[place] ?? maxSizes[kind]}`,
      ),
    ...Object.keys(exceptions)
      .filter((place) => !places.has(place))
      .map((place) => `${place}: is small enough; remove it from scripts/size-exceptions.ts`),
  ]
}

function countLines(text: string): number {
  return text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
}

/** A node of a syntax tree: its members are values, nodes, or lists of nodes. */
interface Node extends Readonly<Record<string, unknown>> {
  readonly type: string
  readonly start: number
  readonly end: number
}

/**
 * Functions within functions are counted too, each once. A place that several functions have is the longest.
 */
function functionSizes({ file, text }: Source): Large[] {
  if (!/\.tsx?$/.test(file)) return []
  const found = new Map<string, Large>()
  const visit = (node: Node, names: readonly string[]): void => {
    const name = nameOf(node)
    const path = name === undefined ? names : [...names, name]
    if (isFunction(node)) {
      const place = `${file} ${path.join('.') || 'default'}`
      const size = countLines(text.slice(node.start, node.end))
      const isComponent = file.endsWith('.tsx') && /^[A-Z]/.test(path.at(-1) ?? '')
      if (size > (found.get(place)?.size ?? 0))
        found.set(place, { place, size, kind: isComponent ? 'component' : 'function' })
    }
    for (const child of childrenOf(node)) visit(child, path)
  }
  visit(parseAst(text, { lang: file.endsWith('x') ? 'tsx' : 'ts' }, file) as unknown as Node, [])
  return [...found.values()]
}

function isFunction({ type, body }: Node): boolean {
  const isKind = /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type)
  return isKind && body !== null
}

/** The name that a declaration, a variable, a class, a method or a member gives to the function in it. */
function nameOf({ type, id, key }: Node): string | undefined {
  if (!/^(?:FunctionDeclaration|VariableDeclarator|Class\w*|MethodDefinition|Property\w*)$/.test(type))
    return undefined
  const named = id ?? key
  if (!isNode(named)) return undefined
  return typeof named.name === 'string' ? named.name : undefined
}

function childrenOf(node: Node): Node[] {
  return Object.values(node)
    .flatMap((value) => (Array.isArray(value) ? value : [value]))
    .filter(isNode)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value
}

if (import.meta.main) {
  const sources = readSources().filter(({ file }) => /^[^/]+\/src\//.test(file) && !isTest(file))
  const large = findLarge(sources)
  const violations = findSizeViolations(large, sizeExceptions)
  const summary = Object.keys(maxSizes).map(
    (kind) =>
      `${large.filter((each) => each.kind === kind).length} ${kind}s above ${maxSizes[kind as keyof typeof maxSizes]}`,
  )
  console.log(summary.join(', '))
  for (const { place, size } of large) console.log(`  ${place}: ${size}`)
  for (const violation of violations) console.error(violation)
  process.exitCode = violations.length === 0 ? 0 : 1
}
