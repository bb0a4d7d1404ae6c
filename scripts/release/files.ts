import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join, posix, resolve } from 'node:path'

export const root = resolve(import.meta.dirname, '../..')

/** The members of our `package.json` files that the release reads. */
export interface PackageInfo {
  readonly name: string
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string>>
}

/** The folders of all packages, from the root: `examples`, `packages/agent`, ... */
export const packageFolders: readonly string[] = [
  'examples',
  ...readdirSync(join(root, 'packages'))
    .toSorted()
    .map((name) => `packages/${name}`),
]

export function readPackage(folder: string): PackageInfo {
  const text = readFileSync(join(root, folder, 'package.json'), 'utf8')
  const { name, version, dependencies = {}, exports = {} } = JSON.parse(text)
  return { name, version, dependencies, exports }
}

/**
 * The file of each front door, from the root: `@slipway/shared/url` is `packages/shared/src/url/index.ts`.
 */
export const frontDoors: ReadonlyMap<string, string> = new Map(
  packageFolders.flatMap((folder) => {
    const { name, exports } = readPackage(folder)
    return Object.entries(exports).map(
      ([door, file]) => [posix.join(name, door), posix.join(folder, file)] as const,
    )
  }),
)

/**
 * Whether a source is part of the product: no test, contract or bench, no fixture of these, no
 * program of a page.
 */
export function isReleased(path: string): boolean {
  return !/\.(test|contract|bench|d)\.ts$|(^|\/)testing\/|^(readme|client)\//.test(path)
}

export async function writeJson(file: string, value: unknown): Promise<void> {
  await writeFile(file, `${JSON.stringify(value, null, 2)}\n`)
}

/** Relative paths of all files below a directory, sorted. */
export async function listFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .toSorted()
}

/** Runs a program to its end; rejects with its output when it fails. */
export async function runProgram(program: string, args: readonly string[], directory: string): Promise<void> {
  const child = spawn(program, args, { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk))
  await new Promise<void>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ended with ${code}: ${Buffer.concat(output)}`)),
    )
  })
}
