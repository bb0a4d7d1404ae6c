import { hash } from 'node:crypto'
import { lstat, mkdir, readdir, readlink, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { errorCode } from '../fs/error-code.ts'

/** Longest path of a Unix socket that all systems accept, in bytes. */
const maxPathBytes = 103

/**
 * The path of a socket in a folder, through a link to the folder if it is too long. Links are in the first of
 * these folders in which they are short enough: `near`, `/run/user/UID/slipway`, `slipway-UID` below the
 * directory of temporary files, and below `/tmp`. Undefined when none is, or all are other users' to write.
 */
export async function shortSocketPath(
  folder: string,
  name: string,
  near: readonly string[] = [],
): Promise<string | undefined> {
  const path = join(folder, name)
  if (isShort(path)) return path
  for (const links of [...near, ...privateFolders()]) {
    const link = join(links, linkName(folder))
    const short = join(link, name)
    if (!isShort(short) || !(await makePrivate(links))) continue
    await makeLink(folder, link)
    return short
  }
  return undefined
}

/**
 * Removes the links of a folder that `shortSocketPath` has made, and those in `near` whose folder is gone:
 * earlier versions named them otherwise.
 */
export async function removeSocketLinks(folder: string, near: readonly string[] = []): Promise<void> {
  for (const links of [...near, ...privateFolders()]) {
    const link = join(links, linkName(folder))
    if ((await readlink(link).catch(() => undefined)) === folder) await rm(link, { force: true })
  }
  for (const links of near)
    for (const name of await readdir(links).catch(() => []))
      if (await isDangling(join(links, name))) await rm(join(links, name), { force: true })
}

async function isDangling(path: string): Promise<boolean> {
  if ((await readlink(path).catch(() => undefined)) === undefined) return false
  return await stat(path).then(
    () => false,
    (error: unknown) => errorCode(error) === 'ENOENT',
  )
}

function isShort(path: string): boolean {
  return Buffer.byteLength(path) <= maxPathBytes
}

function linkName(folder: string): string {
  return hash('sha256', folder).slice(0, 12)
}

function privateFolders(): readonly string[] {
  const uid = process.geteuid?.()
  if (uid === undefined) return []
  const temporary = [...new Set([tmpdir(), '/tmp'])].map((parent) => join(parent, `slipway-${uid}`))
  return [`/run/user/${uid}/slipway`, ...temporary]
}

/** Makes a folder that is this user's alone; false where it is not, or another user could replace it. */
async function makePrivate(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      if (errorCode(error) !== 'EEXIST') throw error
    })
    const own = await lstat(folder)
    const parent = await lstat(dirname(folder))
    const uid = process.geteuid?.()
    const isSafeParent =
      (parent.uid === 0 || parent.uid === uid) &&
      ((parent.mode & 0o022) === 0 || (parent.mode & 0o1000) !== 0)
    return isSafeParent && own.uid === uid && (own.mode & 0o170077) === 0o040000
  } catch {
    return false
  }
}

async function makeLink(target: string, link: string): Promise<void> {
  if ((await readlink(link).catch(() => undefined)) === target) return
  await rm(link, { force: true })
  await symlink(target, link).catch((error: unknown) => {
    // Made at the same time.
    if (errorCode(error) !== 'EEXIST') throw error
  })
}
