import type { Dirent } from 'node:fs'
import { join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { readdir } from '@slipway/shared/tool-files'
import { assertAbsolutePath, toFileProblem } from './file-access.ts'

interface Subdirectory {
  readonly name: string
  readonly path: string
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
  {
    limit,
    includeHidden,
    pageId,
  }: { readonly limit: number; readonly includeHidden: boolean; readonly pageId?: string | undefined },
): Promise<{ items: Subdirectory[]; next_page_id: string | null }> {
  const directory = assertAbsolutePath(path)
  const start = parsePageId(pageId ?? '')
  const candidates = (await listCandidates(directory))
    .filter(({ name }) => includeHidden || !name.startsWith('.'))
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

type SortKey = readonly [lower: string, name: string]

/** No name has a slash in it. */
function parsePageId(pageId: string): SortKey {
  const [lower = '', name = ''] = pageId.split('/', 2)
  return [lower, name]
}

function compareKeys(a: SortKey, b: SortKey): number {
  const index = a[0] === b[0] ? 1 : 0
  if (a[index] === b[index]) return 0
  return a[index] < b[index] ? -1 : 1
}

async function listCandidates(directory: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.filter((entry) => entry.isDirectory())
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR') throw new Problem('bad_request', 'Path is not a directory')
    throw toFileProblem(error, 'not_found', 'Directory not found')
  }
}
