import { dirname, isAbsolute, resolve } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode, isWithin } from '@slipway/shared/fs'
import { lstat, realpath } from '@slipway/shared/tool-files'
import type { ConversationRecord } from '@slipway/storage'
import { readStoredRequest } from './stored-request.ts'

/** The directory of a conversation's workspace; a Problem `not_found` without one. */
export function workspaceDirectory(record: ConversationRecord): string {
  const { workspace } = readStoredRequest(record)
  if (!workspace?.working_dir) throw new Problem('not_found', 'The conversation has no workspace')
  return workspace.working_dir
}

/**
 * Throws a Problem `invalid` unless a path is absolute and leads into a directory, links followed. The last
 * names may be missing. `name` is the parameter that the error names.
 */
export async function assertInWorkspace(directory: string, path: string, name: string): Promise<void> {
  const root = await realpath(directory).catch(() => resolve(directory))
  // Dots are resolved by name or after a link, as the handler does it.
  for (const form of [path, resolve(path)])
    if (!isAbsolute(path) || path.includes('\0') || !isWithin(root, (await resolveExisting(form)) ?? ''))
      throw new Problem('invalid', `${name} must be inside the conversation workspace`)
}

/** The real path of the part that exists, with the missing rest; undefined when that cannot be known. */
async function resolveExisting(path: string): Promise<string | undefined> {
  const missing: string[] = []
  for (let existing = path; ; existing = dirname(existing)) {
    try {
      return resolve(await realpath(existing), ...missing)
    } catch (error) {
      const isMissing = ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')
      const isDanglingLink = await lstat(existing).then(
        () => true,
        () => false,
      )
      if (!isMissing || isDanglingLink || dirname(existing) === existing) return undefined
      missing.unshift(existing.slice(existing.lastIndexOf('/') + 1))
    }
  }
}
