import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, resolve } from 'node:path'
import {
  bodyReaders,
  compileCacheFile,
  cutUsers,
  environmentReaders,
  frontDoors,
  gitFile,
  lazyImports,
  libraryFolders,
  packageImports,
  settingReaders,
  systemVariables,
  timerFolders,
  timerUsers,
  variableLookups,
  withoutSchemas,
} from './import-rules.ts'

const root = resolve(import.meta.dirname, '..')
const importPattern =
  /(?:^|\n)\s*(?:import|export)\b[^'"\n;]*?(?:\{[^}]*\}[^'"\n;]*?)?from\s*['"]([^'"]+)['"]|(?:^|[^\w.])import\(\s*['"]([^'"]+)['"]\s*\)|(?:^|\n)import\s*['"]([^'"]+)['"]/g

interface Source {
  /** From `packages/`: `http/src/core/app.ts`; or `examples/demo/demo.ts`. */
  readonly file: string
  readonly text: string
  readonly imports: readonly string[]
}

/** Every violation of the borders, as `file: what is wrong`. Type imports count. */
export function findViolations(sources: readonly Source[]): string[] {
  const production = sources.filter(({ file }) => !isTest(file))
  const files = graph(production, (file) => file)
  const inFolders = production.filter(({ file }) => !isWiring(file))
  const folders = graph(inFolders, dirname)
  const capabilities = graph(inFolders, capabilityOf)
  return [
    ...sources.flatMap(importViolations),
    ...cycles(files).map((path) => `import cycle between files: ${path.join(' -> ')}`),
    ...cycles(folders).map((path) => `import cycle between folders: ${path.join(' -> ')}`),
    ...cycles(capabilities).map((path) => `import cycle between capabilities: ${path.join(' -> ')}`),
  ]
}

/**
 * Tests, contracts, benches, the fixtures and fakes in `testing/` folders, and the programs of the READMEs.
 */
export function isTest(file: string): boolean {
  return /\.(test|contract|bench)\.ts$|\/testing\/|^examples\/(readme|client)\//.test(file)
}

/** Files at the top of `src`: the front door and the wiring of a package. */
function isWiring(file: string): boolean {
  return /^[^/]+\/src\/[^/]+$/.test(file)
}

/** `agent/src/conversation`: the folder directly below `src`. */
function capabilityOf(file: string): string {
  return file.split('/').slice(0, 3).join('/')
}

function importViolations({ file, text, imports }: Source): string[] {
  const found: string[] = []
  const own = file.split('/')[0] ?? ''
  for (const target of imports) {
    const violation = target.startsWith('.')
      ? localViolation(file, own, target)
      : moduleViolation({ file, text, own }, target)
    if (violation !== undefined) found.push(`${file}: ${violation}`)
  }
  if (!isTest(file) && /\bprocess\.env\b/.test(text) && !environmentReaders.includes(file)) {
    found.push(`${file}: reads process.env; only ${environmentReaders.join(', ')} may`)
  }
  if (!isTest(file) && own !== 'examples' && !settingReaders.includes(file))
    found.push(
      ...variablesRead(file, text).map((name) => `${file}: reads ${name}; make it a row of settings`),
    )
  if (!isTest(file) && /\benableCompileCache\b/.test(text) && file !== compileCacheFile)
    found.push(`${file}: calls enableCompileCache; only ${compileCacheFile} may`)
  if (
    !isTest(file) &&
    readsBody(text) &&
    own !== 'console' &&
    own !== 'examples' &&
    !bodyReaders.includes(file)
  )
    found.push(`${file}: reads a whole body; use readText, readJson or readLimited`)
  if (!isTest(file) && takesSchemas(text) && withoutSchemas[own]?.includes(file) === false)
    found.push(`${file}: loads all schemas; take values from @slipway/protocol/client`)
  if (!isTest(file) && startsGit(text) && file !== gitFile)
    found.push(`${file}: starts git; use gitCommand or RepositoryView, because only ${gitFile} may name it`)
  if (!isTest(file)) found.push(...errorClassViolations(text).map((what) => `${file}: ${what}`))
  if (!isTest(file) && usesTimers(text) && takesClock(file))
    found.push(`${file}: takes a timer of Node; use the clock that is passed in`)
  if (!isTest(file) && !cutUsers.includes(file))
    found.push(
      ...cutsOfTexts(text).map((cut) => `${file}: ${cut} may halve a character; use firstChars or lastChars`),
    )
  return found
}

/** Whether it takes more than types from the front door of `protocol`. */
function takesSchemas(text: string): boolean {
  const imports = text.matchAll(/^(?:import|export) (?!type\b)([^'"]*?) from '@slipway\/protocol'$/gm)
  return [...imports].some(([, names = '']) => !/^\{(?:\s*type \w+(?: as \w+)?,?)*\s*\}$/.test(names))
}

/**
 * A log line and a `ConversationErrorEvent` show the name of an error's class. `Problem` is a word of its
 * own.
 */
function errorClassViolations(text: string): string[] {
  const classes = text.matchAll(/\bclass (\w+) extends (?:Problem|\w*Error)\b[^{]*\{(.*?)\n?\}$/gms)
  return [...classes].flatMap(([, name = '', body = '']) => {
    if (name === 'Problem') return []
    if (!name.endsWith('Error')) return [`class ${name}: an error is called ${name}Error`]
    return body.includes(`name = '${name}'`) ? [] : [`class ${name}: an error sets its name`]
  })
}

/** Variables of the environment that are read by name, those of the system left out. */
function variablesRead(file: string, text: string): string[] {
  const members = [...text.matchAll(/\benv(?:ironment)?\??\.([A-Z]\w+)|\.((?:SLIPWAY|OH|LLM|OTEL)_\w+)/g)]
  const taken = text.matchAll(
    /\{([^{}]*)\} = (?:[\w.#]+\.)?env\b|\{([^{}]*\b(?:SLIPWAY|OH|LLM|OTEL)_\w[^{}]*)\}(?::| = )/g,
  )
  const names = [
    ...members.map(([, name = '', setting = '']) => name || setting),
    ...[...taken].flatMap(
      ([, list = '', settings = '']) => (list || settings).match(/\b[A-Z]\w+(?=[:,\s])/g) ?? [],
    ),
  ].filter((name) => !systemVariables.includes(name))
  return /\benv\[/.test(text) && !variableLookups.includes(file) ? [...names, 'env[...]'] : names
}

function takesClock(file: string): boolean {
  const isBelow = (folder: string) => file.startsWith(folder)
  return timerFolders.some(isBelow) && !Object.keys(timerUsers).some(isBelow)
}

/**
 * Cuts by a limit of characters, which are told from cuts of lists by their limit: a list has a small number,
 * or a name in the plural or of a participle (`maxFiles`, `maxNamed`).
 */
function cutsOfTexts(text: string): string[] {
  const cuts = text.matchAll(/\.slice\(\s*(?:0,\s*|-)(\d[\d_]*|\w+)(?: [-+] [\w.]+)?,?\s*\)(?!\.join\()/g)
  return [...cuts].flatMap(([cut, limit = '']) => {
    const isOfText = /^\d/.test(limit)
      ? Number(limit.replaceAll('_', '')) >= 40
      : /(?:Chars|Characters|Columns)$|^max[A-Z]\w*(?<!s|ed|own|Length)$/.test(limit)
    return isOfText ? [cut.replaceAll(/\s+/g, '')] : []
  })
}

/** `z.json()` is a schema. */
function readsBody(text: string): boolean {
  return /(?<!\bz)\??\.(?:text|json|arrayBuffer|blob|formData)\(\)|\b(?:response|answer)\??\.bytes\(\)/i.test(
    text,
  )
}

/** Also by a shell, and by a constant: a name of a program stands alone, or before its arguments. */
function startsGit(text: string): boolean {
  return (
    /\b(?:run|spawn|exec)\w*\(\s*['"`]git\b|\b(?:open\w*|fork)\(\s*['"`]git['"`]/.test(text) ||
    /\b(?:command|program|file)\w*\s*[:=]\s*['"`]git['"`]|\bexec git\b/.test(text)
  )
}

function usesTimers(text: string): boolean {
  return (
    /(?<![.\w])set(?:Timeout|Interval)\(|\bAbortSignal\.timeout\(/.test(text) ||
    /import \{[^}]*\bset(?:Timeout|Interval)\b[^}]*\} from 'node:timers/.test(text)
  )
}

function localViolation(file: string, own: string, target: string): string | undefined {
  const path = resolveLocal(file, target)
  if (!path.startsWith(`${own}/`)) return `imports ${target}: another package by path`
  if (isTest(file)) return undefined
  if (isTest(path)) return `imports ${target}: only tests may import tests and testing/`
  if (path === `${own}/src/index.ts`) return `imports ${target}: its own front door`
  if (path.endsWith('/main.js')) return `imports ${target}: main.js is a program`
  if (path.includes('/handlers/') && file.includes('/handlers/')) return `imports ${target}: another handler`
  return wingViolation(file, path)
}

/**
 * The wings of a server: the core imports no module, a module another one by its `module.ts` alone, and
 * nothing but the wing itself imports `compat`.
 */
function wingViolation(file: string, path: string): string | undefined {
  const [from, to] = [placeOf(file), placeOf(path)]
  if (to.wing === undefined || to.wing === 'core' || (from.wing === to.wing && from.module === to.module))
    return undefined
  if (from.wing === undefined)
    return isWiring(file) && path.endsWith(`/${to.wing}/modules.ts`)
      ? undefined
      : `imports ${path}: a module of a server`
  if (from.wing === 'core') return `imports ${path}: the core imports no module`
  if (to.wing === 'compat' && from.wing !== 'compat') return `imports ${path}: nothing imports compat`
  if (!path.endsWith('/module.ts')) return `imports ${path}: the inside of another module`
  return undefined
}

function placeOf(file: string): { readonly wing?: string | undefined; readonly module?: string | undefined } {
  const [, wing, module] = /^[^/]+\/src\/(core|modules|compat)\/(?:([^/]+)\/)?/.exec(file) ?? []
  return { wing, module }
}

function moduleViolation(
  { file, text, own }: { readonly file: string; readonly text: string; readonly own: string },
  target: string,
): string | undefined {
  const [, name = '', path] = /^@slipway\/([^/]+)(?:\/(.*))?$/.exec(target) ?? []
  if (name !== '') {
    const doors = frontDoors[name] ?? ['']
    if (!doors.includes(path ?? '')) return `imports ${target}: past the front door`
    if (isTest(file)) return undefined
    if (path?.endsWith('/testing')) return `imports ${target}: only tests may import tests and testing/`
    if (packageImports[own]?.includes(name)) return undefined
    if (lazyImports[own]?.includes(name) && !text.includes(`from '${target}'`)) return undefined
    return `imports ${target}: ${own} may import ${packageImports[own]?.join(', ') || 'nothing'}`
  }
  if (isTest(file)) return undefined
  for (const [library, places] of Object.entries(libraryFolders)) {
    const isMatch = library.endsWith('/')
      ? target.startsWith(library)
      : target === library || target.startsWith(`${library}/`)
    if (isMatch && !places.some((place) => file.startsWith(place))) {
      return `imports ${target}: allowed only in ${places.join(', ') || 'tests'}`
    }
  }
  return undefined
}

function resolveLocal(file: string, target: string): string {
  return posix.join(dirname(file), target)
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** The imports between nodes; `nodeOf` returns the node of a file. */
function graph(sources: readonly Source[], nodeOf: (file: string) => string): Graph {
  const edges = new Map<string, Set<string>>()
  for (const { file, imports } of sources) {
    const from = nodeOf(file)
    const targets = edges.get(from) ?? new Set()
    edges.set(from, targets)
    for (const target of imports.filter((name) => name.startsWith('.'))) {
      const to = nodeOf(resolveLocal(file, target))
      if (to !== from) targets.add(to)
    }
  }
  return edges
}

/** The cycles of a graph, each once. */
function cycles(edges: Graph): string[][] {
  const state = new Map<string, 'open' | 'done'>()
  const found: string[][] = []
  const visit = (node: string, path: readonly string[]): void => {
    if (state.get(node) === 'done') return
    if (state.get(node) === 'open') {
      found.push([...path.slice(path.indexOf(node)), node])
      return
    }
    state.set(node, 'open')
    for (const next of edges.get(node) ?? []) visit(next, [...path, node])
    state.set(node, 'done')
  }
  for (const node of edges.keys()) visit(node, [])
  return found
}

/** All sources below `packages/` and `examples/`. */
export function readSources(): Source[] {
  const paths = ['packages', 'examples'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  )
  return paths
    .filter((path) => /\.[jt]sx?$/.test(path) && !/\/(?:node_modules|dist)\//.test(path))
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8')
      return { file: path.replace(/^packages\//, ''), text, imports: parseImports(text) }
    })
}

/** The imports of a source text, types and dynamic imports included. */
export function parseImports(text: string): string[] {
  return [...text.matchAll(importPattern)].map((m) => m[1] ?? m[2] ?? m[3] ?? '')
}

if (import.meta.main) {
  const found = findViolations(readSources())
  for (const violation of found) console.error(violation)
  process.exitCode = found.length === 0 ? 0 : 1
}
