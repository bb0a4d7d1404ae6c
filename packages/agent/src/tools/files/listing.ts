import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { failureText } from '../core/tool-failure.ts'

/** No directory is opened any more when this many entries are known. */
const maxKnownEntries = 100_000

export interface DirectoryEntry {
  /** Relative to the directory that is listed; what is no UTF-8 in a name is replaced. */
  readonly path: string
  readonly name: string
  /** The absolute path as the system knows it. */
  readonly rawPath: Buffer
  readonly isDirectory: boolean
  readonly isLink: boolean
}

export interface DirectoryListing {
  /** By name, what is in a directory right after it. */
  readonly entries: readonly DirectoryEntry[]
  /** Names that begin with a dot, left out. */
  readonly hiddenCount: number
  /** False when there was too much to look into every directory. */
  readonly isComplete: boolean
}

/** What is in a directory, one level deep or two. Links are listed and not followed; a directory that may not be read looks empty. */
export async function listDirectory(
  directory: string,
  { levels, includesHidden }: { readonly levels: 1 | 2; readonly includesHidden: boolean },
  signal: AbortSignal,
): Promise<DirectoryListing> {
  const entries: DirectoryEntry[] = []
  let hiddenCount = 0
  let isComplete = true
  const visit = async (raw: Buffer, prefix: string, level: number): Promise<void> => {
    for (const entry of await readEntries(raw, level === 1)) {
      signal.throwIfAborted()
      const name = entry.name.toString('utf8')
      if (!includesHidden && name.startsWith('.')) {
        hiddenCount++
        continue
      }
      const item: DirectoryEntry = {
        path: prefix + name,
        name,
        rawPath: Buffer.concat([raw, Buffer.from('/'), entry.name]),
        isDirectory: entry.isDirectory(),
        isLink: entry.isSymbolicLink(),
      }
      entries.push(item)
      if (!item.isDirectory || level === levels) continue
      if (entries.length < maxKnownEntries) await visit(item.rawPath, `${item.path}/`, level + 1)
      else isComplete = false
    }
  }
  await visit(Buffer.from(directory), '', 1)
  return { entries, hiddenCount, isComplete }
}

async function readEntries(directory: Buffer, isRoot: boolean): Promise<Dirent<Buffer>[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true, encoding: 'buffer' })
    return entries.sort((a, b) => Buffer.compare(a.name, b.name))
  } catch (error) {
    if (isRoot || failureText(error) === undefined) throw error
    return []
  }
}
