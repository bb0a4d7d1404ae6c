import { parseInstant } from '@slipway/protocol/client'
import { isFailedObservation, observationExitCode, observationText } from '@slipway/protocol/event-text'
import { readText } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import { listConversations } from '../../conversation/source/list-conversations.ts'
import type { ConversationSource } from '../../conversation/source/source.ts'
import { asObject, asString } from '../../output/action-text.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine, truncate } from '../../output/sanitize.ts'
import { paint, print, printNote } from '../../output/terminal.ts'
import { parseRawPage } from '../../parsing/raw-page.ts'

/** Of the output of a failed command. */
const maxLines = 3

interface OutputQuery {
  /** In the command or in what it printed, in any case. */
  readonly text: string | undefined
  /** Only commands that failed. */
  readonly isFailed: boolean
  readonly status?: string | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
  /** Most results. */
  readonly limit: number
}

interface SearchContext {
  readonly source: ConversationSource
  readonly isJson: boolean
  /** Whole times instead of ages. */
  readonly isWide: boolean
}

interface Hit {
  readonly time: string
  readonly command: string
  readonly exitCode: number | undefined
  /** The line of the output that has the text, else the last lines. */
  readonly lines: readonly string[]
}

/**
 * Prints the commands and results of all conversations that match, those of the conversation that changed
 * last first. It reads the logs: no index has outputs.
 */
export async function searchOutputsCommand(
  { source, isJson, isWide }: SearchContext,
  query: OutputQuery,
): Promise<void> {
  let found = 0
  const { status } = query
  const since = parseInstant(query.since ?? '') ?? -Infinity
  for await (const conversation of listConversations(source, { status })) {
    // What has not changed since then has no newer event.
    if ((parseInstant(conversation.updatedAt) ?? Infinity) < since) continue
    let hasHead = false
    for await (const event of readResults(source, conversation.id, query)) {
      const hit = matchResult(event, query)
      if (hit === undefined) continue
      if (found >= query.limit) return printNote('There may be more: --limit')
      found++
      if (isJson) {
        await print(`${JSON.stringify({ conversation_id: conversation.id, event })}\n`)
        continue
      }
      if (!hasHead) await print(`${conversation.id}  ${sanitizeLine(conversation.title)}\n`)
      hasHead = true
      await print(hitLines(hit, isWide))
    }
  }
  if (found === 0 && !isJson) printNote(query.isFailed ? 'No command failed.' : 'No result contains this.')
}

async function* readResults(
  source: ConversationSource,
  id: string,
  { since, until }: OutputQuery,
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  let page_id: string | undefined
  do {
    const query = { kind: 'ObservationEvent', limit: '100', timestamp__gte: since, timestamp__lt: until }
    const response = await source.openEvents(id, { ...query, page_id })
    const { items, next_page_id } = parseRawPage(await readText(response))
    for (const item of items) {
      const event = parseJson(item)
      if (isRecord(event)) yield event
    }
    page_id = next_page_id ?? undefined
  } while (page_id !== undefined)
}

/** Undefined when it does not match. */
export function matchResult(
  event: Readonly<Record<string, unknown>>,
  { text, isFailed }: Pick<OutputQuery, 'text' | 'isFailed'>,
): Hit | undefined {
  const { command } = asObject(event.observation)
  const exitCode = observationExitCode(event.observation)
  if (isFailed && !isFailedObservation(event.observation)) return undefined
  const output = observationText(event.observation)
  const words = text?.toLowerCase() ?? ''
  const printed = outputLines(output)
  const line = words === '' ? undefined : printed.find((one) => one.toLowerCase().includes(words))
  const title = asString(command) || asString(event.tool_name)
  if (line === undefined && !title.toLowerCase().includes(words)) return undefined
  const lines = line === undefined ? (isFailed ? printed.slice(-maxLines) : []) : [line]
  return { time: asString(event.timestamp), command: title, exitCode, lines }
}

/** Lines with text, without what the terminal tool notes after the output. */
function outputLines(output: string): string[] {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  if (/^\[Exit code -?\d+\b.*\]$/.test(lines.at(-1)?.trim() ?? '')) lines.pop()
  return lines
}

function hitLines({ time, command, exitCode, lines }: Hit, isWide: boolean): string {
  const code = exitCode === undefined || exitCode === 0 ? '' : `  exit ${exitCode}`
  const age = paint('dim', isWide ? sanitizeLine(time) : relativeTime(time).padEnd(10))
  const head = `  ${age}  ${paint('bold', truncate(sanitizeLine(command), 200))}${paint('red', code)}\n`
  return [head, ...lines.map((line) => `              ${truncate(sanitizeLine(line), 200)}\n`)].join('')
}
