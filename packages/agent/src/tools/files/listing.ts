import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { failureText } from '../core/file-access.ts'

/** No directory is opened any more when this many entries are known. */
const maxRead = 100_000

export interface Entry {
  /** Relative to the directory that is listed; what is no UTF-8 in a name is replaced. */
  readonly path: string
  readonly name: string
  /** The absolute path as the system knows it. */
  readonly raw: Buffer
  readonly isDirectory: boolean
  readonly isLink: boolean
}

export interface Listing {
  /** By name, what is in a directory right after it. */
  readonly entries: readonly Entry[]
  /** Names that begin with a dot, left out. */
  readonly hidden: number
  /** False when there was too much to look into every directory. */
  readonly isComplete: boolean
}

/** What is in a directory, one level deep or two. Links are listed and not followed; a directory that may not be read looks empty. */
export async function listDirectory(
  directory: string,
  { levels, isHiddenListed }: { readonly levels: 1 | 2; readonly isHiddenListed: boolean },
  signal: AbortSignal,
): Promise<Listing> {
  const entries: Entry[] = []
  let hidden = 0
  let isComplete = true
  const visit = async (raw: Buffer, prefix: string, level: number): Promise<void> => {
    for (const entry of await read(raw, level === 1)) {
      signal.throwIfAborted()
      const name = entry.name.toString('utf8')
      if (!isHiddenListed && name.startsWith('.')) {
        hidden++
        continue
      }
      const found: Entry = {
        path: prefix + name,
        name,
        raw: Buffer.concat([raw, Buffer.from('/'), entry.name]),
        isDirectory: entry.isDirectory(),
        isLink: entry.isSymbolicLink(),
      }
      entries.push(found)
      if (!found.isDirectory || level === levels) continue
      if (entries.length < maxRead) await visit(found.raw, `${found.path}/`, level + 1)
      else isComplete = false
    }
  }
  await visit(Buffer.from(directory), '', 1)
  return { entries, hidden, isComplete }
}

async function read(directory: Buffer, isRoot: boolean): Promise<Dirent<Buffer>[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true, encoding: 'buffer' })
    return entries.sort((a, b) => Buffer.compare(a.name, b.name))
  } catch (error) {
    if (isRoot || failureText(error) === undefined) throw error
    return []
  }
}
