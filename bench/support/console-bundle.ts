import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'

const root = resolve(import.meta.dirname, '../..')

/** A part of the console that is loaded at once, with the most that it may weigh, in bytes, compressed. */
export interface BundlePart {
  readonly name: string
  readonly bytes: number
  readonly budget: number
}

/** In bytes, compressed. Those of a part are what it adds to every part that loads it. */
const budgets: Readonly<Record<string, number>> = {
  'first load': 250_000,
  'conversation/page.tsx': 50_000,
  'sandbox/app-conversation.tsx': 50_000,
  'sandbox/page.tsx': 20_000,
  'settings/page.tsx': 20_000,
  'settings/new-conversation.tsx': 10_000,
  'ui/markdown.tsx': 65_000,
  'panels/usage.tsx': 35_000,
  'ui/highlight.ts': 75_000,
}
/** A grammar, with those that it includes: Ruby brings those of all that it can be written in. */
const grammarBudget = 200_000
const otherBudget = 10_000

interface Chunk {
  readonly file: string
  readonly css?: readonly string[]
  readonly imports?: readonly string[]
  readonly dynamicImports?: readonly string[]
  readonly isEntry?: boolean
  readonly isDynamicEntry?: boolean
}

/** Builds the console into a directory and weighs what each page and each library on demand makes load. */
export async function weighBundle(directory: string): Promise<BundlePart[]> {
  const vite = join(root, 'node_modules/vite/bin/vite.js')
  await promisify(execFile)(
    process.execPath,
    [vite, 'build', '--outDir', directory, '--emptyOutDir', '--manifest', '--logLevel', 'error'],
    { cwd: join(root, 'packages/console'), env: { ...process.env, NODE_ENV: 'production' } },
  )
  const manifest = JSON.parse(await readFile(join(directory, '.vite/manifest.json'), 'utf8')) as Record<
    string,
    Chunk
  >
  const filesOf = (name: string, found = new Set<string>()): Set<string> => {
    const chunk = manifest[name]
    if (chunk === undefined || found.has(chunk.file)) return found
    for (const file of [chunk.file, ...(chunk.css ?? [])]) found.add(file)
    for (const other of chunk.imports ?? []) filesOf(other, found)
    return found
  }
  const weigh = async (files: Iterable<string>) => {
    let bytes = 0
    for (const file of files) bytes += gzipSync(await readFile(join(directory, file))).length
    return bytes
  }
  const entry = Object.keys(manifest).find((name) => manifest[name]?.isEntry)
  if (entry === undefined) throw new Error('The build has no entry')
  const first = filesOf(entry)
  const parts = [part('first load', await weigh(['index.html', ...first]))]
  const grammars: BundlePart[] = []
  for (const [name, chunk] of Object.entries(manifest)) {
    if (!chunk.isDynamicEntry) continue
    const loaders = Object.keys(manifest).filter((other) => manifest[other]?.dynamicImports?.includes(name))
    const before = loaders
      .map((loader) => filesOf(loader))
      .reduce((a, b) => a.intersection(b))
      .union(first)
    const added = [...filesOf(name)].filter((file) => !before.has(file))
    const isGrammar = name.includes('shiki/dist/langs/')
    const weighed = part(name.replace(/^src\/|^.*\/langs\//, ''), await weigh(added))
    if (isGrammar) grammars.push({ ...weighed, budget: grammarBudget })
    else parts.push(weighed)
  }
  const heaviest = grammars.toSorted((a, b) => b.bytes - a.bytes)[0]
  if (heaviest === undefined) throw new Error('The build has no grammars')
  return [...parts, { ...heaviest, name: `heaviest of ${grammars.length} grammars: ${heaviest.name}` }]
}

function part(name: string, bytes: number): BundlePart {
  return { name, bytes, budget: budgets[name] ?? otherBudget }
}
