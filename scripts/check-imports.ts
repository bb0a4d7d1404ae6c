import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { environment, libraries, packages, sideDoors } from './import-rules.ts'

const root = resolve(import.meta.dirname, '../packages')
const importPattern =
  /(?:^|\n)\s*(?:import|export)\b[^'"\n;]*?(?:\{[^}]*\}[^'"\n;]*?)?from\s*['"]([^'"]+)['"]|(?:^|[^\w.])import\(\s*['"]([^'"]+)['"]\s*\)|(?:^|\n)import\s*['"]([^'"]+)['"]/g

interface Source {
  readonly file: string
  readonly text: string
  readonly imports: readonly string[]
}

/** Every fault of the sources against the borders, as `file: what is wrong`. Type imports count. */
export function faults(sources: readonly Source[]): string[] {
  return [...sources.flatMap(faultsOf), ...rings(sources)]
}

function faultsOf({ file, text, imports }: Source): string[] {
  const found: string[] = []
  const own = file.split('/')[0] ?? ''
  const isTest = /\.(test|contract|bench)\.ts$/.test(file)
  for (const target of imports) {
    const fault = target.startsWith('.')
      ? localFault(file, own, target, isTest)
      : moduleFault(file, own, target, isTest)
    if (fault !== undefined) found.push(`${file}: ${fault}`)
  }
  if (!isTest && /\bprocess\.env\b/.test(text) && !environment.includes(file)) {
    found.push(`${file}: reads process.env; only ${environment.join(', ')} may`)
  }
  return found
}

function localFault(file: string, own: string, target: string, isTest: boolean): string | undefined {
  const path = resolveLocal(file, target)
  if (!path.startsWith(`${own}/`)) return `imports ${target}: another package by path`
  if (/\.(test|contract)\.ts$/.test(path) && !isTest) return `imports ${target}: a test`
  if (path === `${own}/src/index.ts` && !isTest) return `imports ${target}: its own front door`
  if (path.endsWith('/main.ts')) return `imports ${target}: main.ts is imported by nobody`
  if (path.includes('/handlers/') && file.includes('/handlers/') && !isTest)
    return `imports ${target}: another handler`
  return undefined
}

function moduleFault(file: string, own: string, target: string, isTest: boolean): string | undefined {
  const inside = /^@slipway\/([^/]+)(\/.*)?$/.exec(target)
  if (inside !== null) {
    const [, name = '', path] = inside
    if (path !== undefined && !sideDoors.includes(target)) return `imports ${target}: past the front door`
    if (isTest || packages[own]?.includes(name)) return undefined
    return `imports ${target}: ${own} may import ${packages[own]?.join(', ') || 'nothing'}`
  }
  if (isTest) return undefined
  for (const [library, places] of Object.entries(libraries)) {
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
  return join(dirname(file), target)
}

/** Files that import each other in a circle, each circle once. */
function rings(sources: readonly Source[]): string[] {
  const edges = new Map(
    sources.map(({ file, imports }) => [
      file,
      imports.filter((i) => i.startsWith('.')).map((i) => resolveLocal(file, i)),
    ]),
  )
  const state = new Map<string, 'open' | 'done'>()
  const found: string[] = []
  const visit = (file: string, path: readonly string[]): void => {
    if (state.get(file) === 'done') return
    if (state.get(file) === 'open') {
      found.push(`ring: ${[...path.slice(path.indexOf(file)), file].join(' -> ')}`)
      return
    }
    state.set(file, 'open')
    for (const next of edges.get(file) ?? []) visit(next, [...path, file])
    state.set(file, 'done')
  }
  for (const file of edges.keys()) visit(file, [])
  return found
}

/** All sources below `packages/`. */
export function readSources(): Source[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
    .map((file) => {
      const text = readFileSync(join(root, file), 'utf8')
      return { file: relative(root, join(root, file)), text, imports: importsOf(text) }
    })
}

/** What a source text imports, types and dynamic imports too. */
export function importsOf(text: string): string[] {
  return [...text.matchAll(importPattern)].map((m) => m[1] ?? m[2] ?? m[3] ?? '')
}

if (import.meta.main) {
  const found = faults(readSources())
  for (const fault of found) console.error(fault)
  process.exitCode = found.length === 0 ? 0 : 1
}
