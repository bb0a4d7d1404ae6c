import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { waitingTests } from './import-rules.ts'

const root = resolve(import.meta.dirname, '..')

/** The longest literal wait of a test whose kind is not named by its suffix. */
const maxWaitMs = 500
/** Kinds of tests that wait for programs: no clock can be passed to them. */
const freeKinds = /\.(?:process|crash|sandbox|docker|k8s|browser|python|pg)\./
const number = String.raw`(\d[\d_]*(?:\s*\*\s*\d[\d_]*)*)`

interface TextFile {
  /** From the root. */
  readonly file: string
  readonly text: string
}

/** Every literal wait that is too long, as `file:line: what is wrong`. */
export function findLongWaits(
  tests: readonly TextFile[],
  allowed: Readonly<Record<string, string>> = waitingTests,
): string[] {
  const found = tests.flatMap(({ file, text }) => {
    if (freeKinds.test(file)) return []
    return longWaits(text).map(({ line, ms }) => ({ file, line, ms }))
  })
  const files = new Set(found.map(({ file }) => file))
  return [
    ...found
      .filter(({ file }) => !Object.hasOwn(allowed, file))
      .map(({ file, line, ms }) => `${file}:${line}: waits ${ms} ms; pass a clock (FakeClock), or poll`),
    ...Object.keys(allowed)
      .filter((file) => !files.has(file))
      .map((file) => `${file}: waits no more; remove it from waitingTests`),
  ]
}

function longWaits(text: string): { readonly line: number; readonly ms: number }[] {
  const aliases = [...text.matchAll(/\bsetTimeout as (\w+)/g)].map(([, name = '']) => name)
  const call =
    aliases.length === 0
      ? []
      : [new RegExp(String.raw`\b(?:${aliases.join('|')})\(\s*${number}([^\n]*)`, 'g')]
  // The last argument of the global one, behind a name or a function.
  const global = new RegExp(
    String.raw`\bsetTimeout\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*?,\s*${number}\s*()\)`,
    'g',
  )
  return [...call, global].flatMap((pattern) =>
    [...text.matchAll(pattern)].flatMap(({ index, 1: product = '', 2: rest = '' }) => {
      const ms = product.split('*').reduce((total, factor) => total * Number(factor.replaceAll('_', '')), 1)
      // A limit of something else in a race, which is not waited for.
      if (ms <= maxWaitMs || rest.includes('ref: false')) return []
      return [{ line: text.slice(0, index).split('\n').length, ms }]
    }),
  )
}

export function readTests(): TextFile[] {
  const pattern = '{packages,conformance,examples,scripts,fuzz,bench}/**/*.test.{ts,tsx}'
  return globSync(pattern, { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'] }).map((file) => ({
    file,
    text: readFileSync(join(root, file), 'utf8'),
  }))
}

if (import.meta.main) {
  const found = findLongWaits(readTests())
  for (const violation of found) console.error(violation)
  process.exitCode = found.length === 0 ? 0 : 1
}
