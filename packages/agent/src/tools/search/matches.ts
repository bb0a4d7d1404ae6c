import { join } from 'node:path'
import { limitForEvent, printableName } from '../files/lines.ts'
import type { SearchResult } from './ripgrep.ts'

/**
 * The newest found files that fit into an event, as absolute paths and as text for the model. `none`: the
 * text without matches; `narrower`: what to narrow to see others.
 */
export function limitMatches(
  directory: string,
  { files, isComplete }: SearchResult,
  { none, narrower }: { readonly none: string; readonly narrower: string },
) {
  const paths = files.map((path) => join(directory, path))
  const matches = limitForEvent(paths, 100)
  const truncated = matches.length < files.length || !isComplete
  const note = `[Only the newest ${matches.length} are listed; use a narrower ${narrower} for others.]`
  const notes = truncated ? [note] : []
  const lines = [...matches.map(printableName), ...notes]
  return { matches, truncated, notes, content: matches.length === 0 ? none : lines.join('\n') }
}

/** Whether a pattern of paths names something that begins with a dot. */
export function namesHidden(pattern: string): boolean {
  return /(^|[/{,])\.[^/]/.test(pattern)
}
