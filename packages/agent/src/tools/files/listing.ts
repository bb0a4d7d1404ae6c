import type { Dirent } from 'node:fs'
import { readdir } from '@slipway/shared/tool-files'
import { failureText } from '../core/tool-failure.ts'
import { printableName } from './lines.ts'

/** After this many entries no further directory is opened. */
const maxKnownEntries = 100_000

export interface DirectoryEntry {
  /** Relative to the listed directory; invalid UTF-8 is replaced. */
  readonly path: string
  readonly name: string
  /** The absolute path in the bytes of the system. */
  readonly rawPath: Buffer
  readonly isDirectory: boolean
  readonly isLink: boolean
}

interface DirectoryListing {
  /** Sorted by name; the entries of a directory follow it. */
  readonly entries: readonly DirectoryEntry[]
  /** Omitted names that begin with a dot. */
  readonly hiddenCount: number
  /** False when directories were skipped because of the limit. */
  readonly isComplete: boolean
}

/**
 * Lists a directory one or two levels deep. Links are not followed; an unreadable subdirectory looks empty.
 */
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

/** The path for the model, with what it is. */
export function entryLabel({ path, isDirectory, isLink }: DirectoryEntry): string {
  return printableName(path) + (isDirectory ? '/' : isLink ? ' (link)' : '')
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
