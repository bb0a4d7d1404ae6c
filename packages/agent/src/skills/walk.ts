import { opendir } from 'node:fs/promises'
import { join } from 'node:path'
import type { SkillResources } from './skill.ts'

const maxDepth = 3
const maxEntries = 2_000
const maxResources = 100

/** The resources beside a `SKILL.md`, without links. */
export async function findResources(root: string): Promise<SkillResources> {
  const folders = ['scripts', 'references', 'assets']
  const lists = await Promise.all(folders.map((folder) => listFilesBelow(root, folder)))
  const [scripts = [], references = [], assets = []] = lists
  return { scripts, references, assets }
}

async function listFilesBelow(root: string, folder: string, depth = 1): Promise<string[]> {
  const { files, folders } = await listFolder(join(root, folder), maxEntries)
  const paths = files.sort().map((name) => `${folder}/${name}`)
  for (const name of depth < maxDepth ? folders.sort() : []) {
    if (paths.length >= maxResources) break
    paths.push(...(await listFilesBelow(root, `${folder}/${name}`, depth + 1)))
  }
  return paths.slice(0, maxResources)
}

/** A README is for people. */
export function isMarkdownFile(name: string): boolean {
  const lower = name.toLowerCase()
  return lower.endsWith('.md') && lower !== 'readme.md'
}

interface FolderListing {
  readonly files: string[]
  readonly folders: string[]
  readonly others: string[]
  readonly isTruncated: boolean
}

/** At most `max` entries of a folder; none when it cannot be read. */
export async function listFolder(folder: string, max: number): Promise<FolderListing> {
  const listing: Omit<FolderListing, 'isTruncated'> = { files: [], folders: [], others: [] }
  let count = 0
  try {
    for await (const entry of await opendir(folder)) {
      if (++count > max) break
      const kind = entry.isFile() ? listing.files : entry.isDirectory() ? listing.folders : listing.others
      kind.push(entry.name)
    }
  } catch {
    // A missing or unreadable folder has no skills.
  }
  return { ...listing, isTruncated: count > max }
}
