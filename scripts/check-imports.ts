import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { environmentReaders, libraryFolders, packageImports, allowedSubpaths } from './import-rules.ts'

const root = resolve(import.meta.dirname, '../packages')
const importPattern =
  /(?:^|\n)\s*(?:import|export)\b[^'"\n;]*?(?:\{[^}]*\}[^'"\n;]*?)?from\s*['"]([^'"]+)['"]|(?:^|[^\w.])import\(\s*['"]([^'"]+)['"]\s*\)|(?:^|\n)import\s*['"]([^'"]+)['"]/g

interface Source {
  readonly file: string
  readonly text: string
  readonly imports: readonly string[]
}

/** Every fault of the sources against the borders, as `file: what is wrong`. Type imports count. */
export function findViolations(sources: readonly Source[]): string[] {
  return [...sources.flatMap(fileViolations), ...findCycles(sources)]
}

function fileViolations({ file, text, imports }: Source): string[] {
  const violations: string[] = []
  const own = file.split('/')[0] ?? ''
  const isTest = /\.(test|contract|bench)\.ts$/.test(file)
  for (const target of imports) {
    const violation = target.startsWith('.')
      ? localImportViolation(file, own, target, isTest)
      : packageImportViolation(file, own, target, isTest)
    if (violation !== undefined) violations.push(`${file}: ${violation}`)
  }
  if (!isTest && /\bprocess\.env\b/.test(text) && !environmentReaders.includes(file)) {
    violations.push(`${file}: reads process.env; only ${environmentReaders.join(', ')} may`)
  }
  return violations
}

function localImportViolation(file: string, own: string, target: string, isTest: boolean): string | undefined {
  const path = resolveLocal(file, target)
  if (!path.startsWith(`${own}/`)) return `imports ${target}: another package by path`
  if (/\.(test|contract)\.ts$/.test(path) && !isTest) return `imports ${target}: a test`
  if (path === `${own}/src/index.ts` && !isTest) return `imports ${target}: its own front door`
  if (path.endsWith('/main.ts')) return `imports ${target}: main.ts is imported by nobody`
  if (path.includes('/handlers/') && file.includes('/handlers/') && !isTest)
    return `imports ${target}: another handler`
  return undefined
}

function packageImportViolation(file: string, own: string, target: string, isTest: boolean): string | undefined {
  const ownPackage = /^@slipway\/([^/]+)(\/.*)?$/.exec(target)
  if (ownPackage !== null) {
    const [, name = '', path] = ownPackage
    if (path !== undefined && !allowedSubpaths.includes(target)) return `imports ${target}: past the front door`
    if (isTest || packageImports[own]?.includes(name)) return undefined
    return `imports ${target}: ${own} may import ${packageImports[own]?.join(', ') || 'nothing'}`
  }
  if (isTest) return undefined
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
  return join(dirname(file), target)
}

/** Files that import each other in a circle, each circle once. */
function findCycles(sources: readonly Source[]): string[] {
  const edges = new Map(
    sources.map(({ file, imports }) => [
      file,
      imports.filter((i) => i.startsWith('.')).map((i) => resolveLocal(file, i)),
    ]),
  )
  const state = new Map<string, 'open' | 'done'>()
  const cycles: string[] = []
  const visit = (file: string, path: readonly string[]): void => {
    if (state.get(file) === 'done') return
    if (state.get(file) === 'open') {
      cycles.push(`ring: ${[...path.slice(path.indexOf(file)), file].join(' -> ')}`)
      return
    }
    state.set(file, 'open')
    for (const next of edges.get(file) ?? []) visit(next, [...path, file])
    state.set(file, 'done')
  }
  for (const file of edges.keys()) visit(file, [])
  return cycles
}

/** All sources below `packages/`. */
export function readSources(): Source[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
    .map((file) => {
      const text = readFileSync(join(root, file), 'utf8')
      return { file: relative(root, join(root, file)), text, imports: parseImports(text) }
    })
}

/** What a source text imports, types and dynamic imports too. */
export function parseImports(text: string): string[] {
  return [...text.matchAll(importPattern)].map((m) => m[1] ?? m[2] ?? m[3] ?? '')
}

if (import.meta.main) {
  const found = findViolations(readSources())
  for (const fault of found) console.error(fault)
  process.exitCode = found.length === 0 ? 0 : 1
}
