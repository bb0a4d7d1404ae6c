import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Message } from '@slipway/protocol'
import { textBlock } from '../../tools/core/tool.ts'
import { shorten } from '../view/content-blocks.ts'
import type { ViewEvent } from '../view/log-event.ts'
import { defaultMessageLimits } from '../view/message-limits.ts'
import { Projection } from '../view/projection.ts'
import { groupUnits } from '../view/view-units.ts'

const readPrompt = (name: string) => readFileSync(join(import.meta.dirname, name), 'utf8').trimEnd()
const summaryPrompt = readPrompt('summary-prompt.md')

/** The message that asks for a summary at the end of the conversation itself: its prefix is cached. */
export const summaryRequest = `${readPrompt('summary-request.md')}\n\n${summaryPrompt.slice(summaryPrompt.indexOf('Cover,'))}`

interface TranscriptEntry {
  readonly heading: string
  readonly text: string
}

type Transcript = readonly TranscriptEntry[]

interface SummaryInput {
  readonly forgotten: readonly ViewEvent[]
  /** The user's latest message when it comes after the summary though it stood among the forgotten events. */
  readonly latestUserMessage: ViewEvent | undefined
}

const maxEntryChars = 10_000
/** Shorter entries say nothing; then there are fewer of them. */
const minEntryChars = 200
/** A first guess; the real number is counted afterwards. */
const charsPerToken = 3
const maxTries = 6

/** The request for a summary, with at most `maxTokens` tokens by `count`. */
export function buildSummaryRequest(
  input: SummaryInput,
  maxTokens: number,
  count: (messages: readonly Message[]) => number,
): Message[] {
  const entries = transcriptEntries(input.forgotten)
  const latestEntries =
    input.latestUserMessage === undefined ? [] : transcriptEntries([input.latestUserMessage])
  let chars = Math.max(minEntryChars, maxTokens * charsPerToken)
  for (let tries = 1; ; tries++) {
    const messages = summaryMessages(fit(entries, chars), fit(latestEntries, chars / 10))
    const tokens = count(messages)
    if (tokens <= maxTokens || tries === maxTries || chars <= minEntryChars) return messages
    chars = Math.max(minEntryChars, Math.floor(chars * Math.min(0.9, (maxTokens / tokens) * 0.95)))
  }
}

function transcriptEntries(events: readonly ViewEvent[]): TranscriptEntry[] {
  const projection = new Projection({ ...defaultMessageLimits, chars: maxEntryChars })
  return groupUnits(events).flatMap((unit) => {
    const isSummary = unit.kind === 'single' && unit.event.kind === 'CondensationSummaryEvent'
    return projection.messagesOf(unit).map((message) => ({
      heading: isSummary ? 'Summary so far' : entryHeading(message),
      text: messageText(message),
    }))
  })
}

function entryHeading({ role, name }: Message): string {
  if (role === 'tool') return `Result of ${name ?? 'a tool'}`
  return role === 'assistant' ? 'Agent' : 'User'
}

function messageText({ content, tool_calls }: Message): string {
  const blocks = content.map((block) => (block.type === 'text' ? block.text : '[image]'))
  const calls = (tool_calls ?? []).map(({ name, arguments: args }) => `Calls ${name}: ${args}`)
  return [...blocks, ...calls].join('\n')
}

/** Cuts the longest entries first, then drops the oldest, but never a summary. */
function fit(entries: Transcript, chars: number): Transcript {
  const room = Math.max(1, Math.floor(chars / minEntryChars))
  const newest = entries.slice(-room)
  const dropped = entries.slice(0, Math.max(0, entries.length - room))
  const summaries = dropped.filter(({ heading }) => heading === 'Summary so far')
  const left = dropped.length - summaries.length
  const note = { heading: 'Note', text: `${left} older entries are left out here.` }
  const included = [...summaries, ...(left === 0 ? [] : [note]), ...newest]
  const lengths = included.map(({ heading, text }) => heading.length + text.length)
  const share = Math.min(maxEntryChars, fairShare(lengths, chars))
  return included.map(({ heading, text }) => ({ heading, text: shorten(text, share) }))
}

/** The largest bound for which the bounded lengths sum to at most `total`; infinite when all fit. */
export function fairShare(lengths: readonly number[], total: number): number {
  let left = total
  const sorted = lengths.toSorted((a, b) => a - b)
  for (const [index, length] of sorted.entries()) {
    const share = left / (sorted.length - index)
    if (length > share) return Math.floor(Math.max(0, share))
    left -= length
  }
  return Number.POSITIVE_INFINITY
}

function summaryMessages(entries: Transcript, latestEntries: Transcript): Message[] {
  const record = `The record, oldest first:\n\n${entries.map(formatEntry).join('\n\n')}`
  const orientation = `For orientation, the user's latest message. It stays in the agent's view, right after your summary; say what has been done about it:\n\n${latestEntries.map(formatEntry).join('\n\n')}`
  const parts = latestEntries.length === 0 ? [record] : [record, orientation]
  return [
    { role: 'system', content: [textBlock(summaryPrompt)], thinking_blocks: [] },
    { role: 'user', content: [...parts, 'Write the summary now.'].map(textBlock), thinking_blocks: [] },
  ]
}

function formatEntry({ heading, text }: TranscriptEntry): string {
  return `## ${heading}\n${text}`
}
