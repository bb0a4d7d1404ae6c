import { dirname, join } from 'node:path'
import { lstat } from '@slipway/shared/tool-files'
import { readSmallFile } from './small-file.ts'

/** Files with instructions for a folder and all below it. */
const instructionFiles = ['AGENTS.md', 'CLAUDE.md'] as const
/** Of one file. */
const maxFileBytes = 32 * 1024
/** Folders above a workspace that may belong to its repository. */
const maxFolders = 20

export interface Instructions {
  /** Absolute. */
  readonly file: string
  readonly text: string
  readonly isTruncated: boolean
}

/**
 * The instructions in a folder: its AGENTS.md, and its CLAUDE.md unless that says the same or only names the
 * other. `within`: a real directory that must contain the files, links resolved.
 */
export async function readInstructions(folder: string, within: string): Promise<Instructions[]> {
  const found: Instructions[] = []
  for (const name of instructionFiles) {
    const file = join(folder, name)
    const read = await readSmallFile(file, { maxBytes: maxFileBytes, within })
    if (read === undefined || 'issue' in read) continue
    const text = read.text.trim()
    if (text === '' || namesOther(text) || found.some((other) => other.text === text)) continue
    found.push({ file, text, isTruncated: read.isTruncated })
  }
  return found
}

/** Whether a CLAUDE.md has nothing but an import of the AGENTS.md beside it. */
export function namesOther(text: string): boolean {
  return /^@(?:\.\/)?AGENTS\.md$/i.test(text)
}

/**
 * The folders of a repository above a directory in it, from its root on; none where it is the root, or in
 * none.
 */
export async function repositoryFoldersAbove(directory: string): Promise<string[]> {
  const root = await repositoryRoot(directory)
  if (root === undefined) return []
  const folders: string[] = []
  for (let folder = directory; folder !== root; folders.unshift(folder)) folder = dirname(folder)
  return folders.length > maxFolders ? [] : folders
}

/** The root of the working tree that a directory is in; undefined when it is in none. */
export async function repositoryRoot(directory: string): Promise<string | undefined> {
  for (let folder = directory; ; ) {
    if (await isRepositoryRoot(folder)) return folder
    const parent = dirname(folder)
    if (parent === folder) return undefined
    folder = parent
  }
}

/** Whether git would take a folder for the root of a working tree; its `.git` may be damaged. */
async function isRepositoryRoot(folder: string): Promise<boolean> {
  return await lstat(join(folder, '.git')).then(
    () => true,
    () => false,
  )
}
