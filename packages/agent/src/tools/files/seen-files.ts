import { hash } from 'node:crypto'
import { LruMap } from '@slipway/shared/collections'
import type { Workspace } from '../../workspace/workspace.ts'

/** Remembered files of a conversation. */
const maxFiles = 1_000

const byWorkspace = new WeakMap<Workspace, LruMap<string, string>>()

/** A tool has shown or written a file; undefined: it is gone. Remembered while the conversation is loaded. */
export function markSeen(workspace: Workspace, real: string, bytes: Uint8Array | undefined): void {
  const seen = byWorkspace.get(workspace) ?? new LruMap<string, string>({ max: maxFiles })
  byWorkspace.set(workspace, seen)
  if (bytes === undefined) seen.delete(real)
  else seen.set(real, digest(bytes))
}

export function isSeen(workspace: Workspace, real: string): boolean {
  return byWorkspace.get(workspace)?.get(real) !== undefined
}

/**
 * For the model, when a file that it edits is another one than it was shown: by a command, a formatter, or
 * the user. The edit has matched, so it was made.
 */
export function staleNote(workspace: Workspace, real: string, bytes: Uint8Array): string {
  const known = byWorkspace.get(workspace)?.get(real)
  return known === undefined || known === digest(bytes)
    ? ''
    : ' Something else had changed the file since you last read it.'
}

function digest(bytes: Uint8Array): string {
  return hash('sha256', bytes)
}
