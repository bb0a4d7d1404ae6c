import { stat } from 'node:fs/promises'
import type { Backend } from './backend.ts'

/** Directories of backends that are on another file system than this one, by the names of the backends. */
export async function findOtherDisks(
  directory: string,
  backends: Iterable<Pick<Backend, 'name' | 'diskDirectory'>>,
): Promise<ReadonlyMap<string, string>> {
  const { dev } = await stat(directory)
  const found = new Map<string, string>()
  for (const backend of backends) {
    const other = await backend.diskDirectory?.()
    if (other !== undefined && (await stat(other)).dev !== dev) found.set(backend.name, other)
  }
  return found
}
