import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { homedir } from 'node:os'
import { relative, resolve } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import { filesFor } from '@slipway/shared/tool-files'

/** A file of a repository that a command names. */
export interface NamedFile {
  /** Relative to the repository, links resolved. */
  readonly path: string
  /** SHA-256 of its size and its first bytes; of a larger file also of its time of change. */
  readonly hash: string
  readonly isExecutable: boolean
  /** The beginning of its text; undefined when it is binary. */
  readonly text: string | undefined
}

const maxBytes = 4 * 1024 * 1024
const maxFiles = 100
const maxWords = 500
const maxDirectories = 10
const maxTextBytes = 4096
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
/** Names of the directory in which hooks run. */
const rootNames = /\$\{?(?:(?:OPENHANDS|SLIPWAY|CLAUDE)_PROJECT_DIR|PWD)\}?(?=$|[/"'\s])/g

/**
 * The regular files below the root, a real path, that words of the commands name: relative to the root, to a
 * directory that another word names (`cd tools && ./check`), or absolute. At most 100. Never rejects.
 */
export async function readNamedFiles(root: string, commands: readonly string[]): Promise<NamedFile[]> {
  const paths = new Map<string, string>()
  for (const command of commands) {
    const words = commandWords(command)
    const bases = [root]
    for (const word of words) {
      const found = await findWithin(root, resolve(root, word))
      if (found?.isDirectory && found.path !== root && bases.length <= maxDirectories) bases.push(found.path)
    }
    for (const base of bases)
      for (const word of words) {
        const found = await findWithin(root, resolve(base, word))
        if (found !== undefined && !found.isDirectory) paths.set(relative(root, found.path), found.path)
      }
  }
  const sorted = [...paths].toSorted(([a], [b]) => (a < b ? -1 : 1)).slice(0, maxFiles)
  const files = await Promise.all(sorted.map(([path, real]) => readNamedFile(path, real)))
  return files.filter((file) => file !== undefined)
}

/** Words as a shell may read them: with and without quotes, and parts such as the value in `--file=value`. */
function commandWords(command: string): string[] {
  const text = command.replace(rootNames, '.')
  const quoted = [...text.matchAll(/"([^"]*)"|'([^']*)'/g)].map(
    ([, double, single]) => double ?? single ?? '',
  )
  const words = [...quoted, ...text.replace(/["'\\]/g, '').split(/[\s;|&()<>=`,:]+/)]
  const named = words
    .filter((word) => word !== '' && word.length <= 4096 && !word.includes('\0'))
    .map((word) => word.replace(/^~(?=\/)/, homedir()))
  return [...new Set(named)].slice(0, maxWords)
}

async function findWithin(root: string, path: string) {
  const { open, realpath } = filesFor(path)
  try {
    const real = await realpath(path)
    if (!isWithin(root, real)) return undefined
    await using file = await open(real, readFlags)
    const stats = await file.stat()
    if (!stats.isFile() && !stats.isDirectory()) return undefined
    return { path: real, isDirectory: stats.isDirectory() }
  } catch {
    return undefined
  }
}

async function readNamedFile(path: string, real: string): Promise<NamedFile | undefined> {
  try {
    await using file = await filesFor(real).open(real, readFlags)
    const { size, mode, mtimeMs } = await file.stat()
    const buffer = Buffer.alloc(Math.min(size, maxBytes))
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length, length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    const content = buffer.subarray(0, length)
    const hash = createHash('sha256')
      .update(`${size} ${size > maxBytes ? mtimeMs : 0}\0`)
      .update(content)
    return { path, hash: hash.digest('hex'), isExecutable: (mode & 0o111) !== 0, text: plainText(content) }
  } catch {
    return undefined
  }
}

function plainText(content: Buffer): string | undefined {
  const start = content.subarray(0, maxTextBytes)
  return start.includes(0) ? undefined : start.toString('utf8')
}
