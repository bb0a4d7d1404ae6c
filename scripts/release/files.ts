import { spawn } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

export const root = resolve(import.meta.dirname, '../..')

/** What the release reads of a `package.json` of ours. */
export interface PackageInfo {
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
}

export async function readPackage(name: string): Promise<PackageInfo> {
  const { version, dependencies = {} } = JSON.parse(
    await readFile(join(root, 'packages', name, 'package.json'), 'utf8'),
  )
  return { version, dependencies }
}

export async function writeJson(file: string, value: unknown): Promise<void> {
  await writeFile(file, `${JSON.stringify(value, null, 2)}\n`)
}

/** Paths of all files below a directory, relative to it, in one order everywhere. */
export async function listFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .toSorted()
}

/** Runs a program to its end; rejects with what it said when that was a failure. */
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
