import { join } from 'node:path'
import { limitForEvent, printableName } from '../files/lines.ts'
import type { SearchResult } from './ripgrep.ts'

const maxFiles = 100

/** The absolute paths of the newest found files that fit into an event, and whether others are omitted. */
export function limitMatches(directory: string, { files, isComplete }: SearchResult) {
  const matches = limitForEvent(
    files.map((path) => join(directory, path)),
    maxFiles,
  )
  return { matches, truncated: matches.length < files.length || !isComplete }
}

/** The matches for the model, one a line; `narrower`: what to narrow to see others. */
export function formatMatches(matches: readonly string[], truncated: boolean, narrower: string): string {
  const note = `[Only the newest ${matches.length} are listed; use a narrower ${narrower} for others.]`
  return [...matches.map(printableName), ...(truncated ? [note] : [])].join('\n')
}
