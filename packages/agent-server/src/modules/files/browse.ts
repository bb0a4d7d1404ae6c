import type { Dirent } from 'node:fs'
import { join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { lstat, readdir } from '@slipway/shared/tool-files'
import { assertAbsolutePath, toFileProblem } from './file-access.ts'

interface Subdirectory {
  readonly name: string
  readonly path: string
}

interface DirectoryEntry extends Subdirectory {
  readonly kind: 'file' | 'directory' | 'link' | 'other'
  /** Of a file, in bytes. */
  readonly size_bytes: number | null
  /** Null when the entry is gone by now. */
  readonly modified_at: string | null
}

interface Listing {
  readonly limit: number
  readonly includeHidden: boolean
  readonly pageId?: string | undefined
}

const maxFavorites = 50

/** Usual directories of a home directory, and the roots of a search. */
export async function listHomeLocations(homeDirectory: string, includeHidden: boolean) {
  const favorites = await listSubdirectories(homeDirectory, { limit: maxFavorites, includeHidden }).catch(
    () => undefined,
  )
  return {
    home: homeDirectory,
    favorites: (favorites?.items ?? []).map(({ name, path }) => ({ label: name, path })),
    locations: [{ label: '/', path: '/' }],
  }
}

/**
 * One page of subdirectories, without links, by lower-cased name, then name. A page id is the
 * lower-cased name at which the page begins, then `/` and the name where that is ambiguous.
 */
export async function listSubdirectories(
  path: string,
  { limit, includeHidden, pageId }: Listing,
): Promise<{ items: Subdirectory[]; next_page_id: string | null }> {
  const directory = assertAbsolutePath(path)
  const start = parsePageId(pageId ?? '')
  const candidates = (await readEntries(directory))
    .filter((entry) => entry.isDirectory() && (includeHidden || !entry.name.startsWith('.')))
    .map((entry) => ({ entry, key: [entry.name.toLowerCase(), entry.name] as const }))
    .filter(({ key }) => compareKeys(key, start) >= 0)
    .sort((a, b) => compareKeys(a.key, b.key))
  const items: Subdirectory[] = []
  for (const [index, { entry, key }] of candidates.entries()) {
    const path = join(directory, entry.name)
    if (items.length === limit) {
      const isUnambiguous = candidates[index - 1]?.key[0] !== key[0]
      return { items, next_page_id: isUnambiguous ? key[0] : key.join('/') }
    }
    items.push({ name: entry.name, path })
  }
  return { items, next_page_id: null }
}

/**
 * One page of what is in a directory: directories first, then by lower-cased name, then name. A page id is
 * `d` or `f` for directories or the rest, `/`, and the name of the first entry of the page.
 */
export async function listDirectory(
  path: string,
  { limit, includeHidden, pageId }: Listing,
): Promise<{ items: DirectoryEntry[]; next_page_id: string | null }> {
  const directory = assertAbsolutePath(path)
  const entries = (await readEntries(directory))
    .filter(({ name }) => includeHidden || !name.startsWith('.'))
    .map((entry) => ({ entry, key: entryKey(entry.isDirectory() ? 'd' : 'f', entry.name) }))
    .sort((a, b) => compareKeys(a.key, b.key))
  const slash = pageId?.indexOf('/') ?? -1
  const start =
    pageId === undefined ? [] : entryKey(pageId.startsWith('d') ? 'd' : 'f', pageId.slice(slash + 1))
  const first = entries.findIndex(({ key }) => compareKeys(key, start) >= 0)
  const page = first === -1 ? [] : entries.slice(first, first + limit)
  const next = first === -1 ? undefined : entries[first + limit]
  return {
    items: await Promise.all(page.map(({ entry }) => describeEntry(join(directory, entry.name), entry))),
    next_page_id: next === undefined ? null : `${next.key[0]}/${next.entry.name}`,
  }
}

async function describeEntry(path: string, entry: Dirent): Promise<DirectoryEntry> {
  const stats = await lstat(path).catch(() => undefined)
  const kind = entry.isDirectory()
    ? 'directory'
    : entry.isFile()
      ? 'file'
      : entry.isSymbolicLink()
        ? 'link'
        : 'other'
  return {
    name: entry.name,
    path,
    kind,
    size_bytes: kind === 'file' && stats !== undefined ? stats.size : null,
    modified_at: stats === undefined ? null : stats.mtime.toISOString(),
  }
}

function entryKey(rank: 'd' | 'f', name: string): readonly string[] {
  return [rank, name.toLowerCase(), name]
}

/** Compares lists part by part; what is missing comes first. */
function compareKeys(a: readonly string[], b: readonly string[]): number {
  for (const [index, part] of a.entries()) {
    const other = b[index] ?? ''
    if (part !== other) return part < other ? -1 : 1
  }
  return 0
}

/** No name has a slash in it. */
function parsePageId(pageId: string): readonly [lower: string, name: string] {
  const [lower = '', name = ''] = pageId.split('/', 2)
  return [lower, name]
}

async function readEntries(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true })
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR') throw new Problem('bad_request', 'Path is not a directory')
    throw toFileProblem(error, 'not_found', 'Directory not found')
  }
}
