import { firstChars } from '@slipway/shared/text'
import { structuredPatch } from 'diff'
import { memo } from 'react'
import { LongText } from './long-text.tsx'

/** What changed between two texts, with three lines of context; a new text is all additions. */
export const Diff = memo(function Diff(props: { readonly before: string; readonly after: string }) {
  const { before, after } = props
  const isLarge = before.length + after.length > 400_000
  const patch = isLarge
    ? undefined
    : structuredPatch('', '', before, after, '', '', { context: 3, timeout: 300 })
  if (patch === undefined) return <LongText text={after} />
  const lines = patch.hunks.flatMap((hunk) => [`@@ line ${hunk.newStart}`, ...hunk.lines])
  return <DiffLines lines={lines} />
})

function DiffLines({ lines }: { readonly lines: readonly string[] }) {
  const most = 2_000
  if (lines.length === 0) return <p className="quiet">No difference.</p>
  return (
    <pre className="output diff">
      {lines.slice(0, most).map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one fixed text
        <span key={at} className={lineClass(line)}>
          {line.length > most ? `${firstChars(line, most)} …` : line}
          {'\n'}
        </span>
      ))}
      {lines.length > most && `… ${lines.length - most} more lines\n`}
    </pre>
  )
}

function lineClass(line: string): string {
  if (line.startsWith('@@')) return 'hunk'
  if (line.startsWith('+')) return 'added'
  if (line.startsWith('-')) return 'removed'
  return ''
}
