import type { Client } from '@slipway/client'
import { Problem, type RepositoryConsent } from '@slipway/protocol'
import { listPendingActions } from '../../conversation/pending-actions.ts'
import { listConversations } from '../../conversation/source/list-conversations.ts'
import type { ConversationSource, ConversationSummary } from '../../conversation/source/source.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine, truncate } from '../../output/sanitize.ts'
import { paint, print, printNote, printResult, table } from '../../output/terminal.ts'

interface VerbContext {
  readonly source: ConversationSource
  readonly isJson: boolean
  /** Whole ids and times, nothing cut. */
  readonly isWide: boolean
  readonly signal: AbortSignal
}

const shortIdLength = 8

/** Lists the conversations that changed last. */
export async function listCommand(
  { source, isJson, isWide }: VerbContext,
  options: {
    readonly limit: number
    readonly all: boolean
    readonly status?: string
    readonly isQuiet: boolean
  },
): Promise<void> {
  let page_id: string | undefined
  let count = 0
  const { limit, all, status, isQuiet } = options
  do {
    const page = await source.list({ limit, page_id, status })
    if (isJson) await print(page.items.map(({ info }) => `${JSON.stringify(info)}\n`).join(''))
    else if (isQuiet) await print(page.items.map(({ id }) => `${id}\n`).join(''))
    else if (page.items.length > 0)
      await print(conversationTable(page.items, { isWide, hasHead: count === 0 }))
    count += page.items.length
    page_id = page.nextPageId
  } while (all && page_id !== undefined)
  if (isJson || isQuiet) return
  if (count === 0) printNote('There is no conversation yet. "slipway run MESSAGE" starts one.')
  if (page_id !== undefined) printNote('There are more: --all')
}

/** As wide as the terminal: titles are cut, and below 60 columns the time is left out. */
function conversationTable(
  items: readonly ConversationSummary[],
  { isWide, hasHead }: { isWide: boolean; hasHead: boolean },
): string {
  const isNarrow = !isWide && (process.stdout.columns ?? 200) < 60
  const rows = items.map(({ id, status, updatedAt, title }) => [
    isWide ? id : shortId(id),
    sanitizeLine(status.replaceAll('_', ' ')),
    ...(isNarrow ? [] : [isWide ? sanitizeLine(updatedAt).slice(0, 19) : relativeTime(updatedAt)]),
    sanitizeLine(title),
  ])
  const head = ['ID', 'STATUS', ...(isNarrow ? [] : ['CHANGED']), 'TITLE']
  const statusWidth = Math.max(10, ...rows.map(([, status = '']) => status.length + 2))
  const times = isNarrow ? [] : [isWide ? 21 : 12]
  return table(rows, [isWide ? 38 : shortIdLength + 2, statusWidth, ...times], hasHead ? head : undefined)
}

/** The first characters of an id, enough for a person. */
export function shortId(id: string): string {
  return sanitizeLine(id).slice(0, shortIdLength)
}

/** Shows a conversation: what it is, what it cost, what it waits for. */
export async function showCommand({ source, isJson, signal }: VerbContext, id: string): Promise<void> {
  const { info, ...summary } = await source.get(id)
  if (isJson) return await print(`${JSON.stringify(info)}\n`)
  const events = await source.countEvents(id, {})
  const metrics = asRecord(info.stats ?? info.metrics)
  const cost = metrics.accumulated_cost
  const llm = asRecord(asRecord(info.agent).llm)
  const model = llm.model ?? info.llm_model
  const rows: [string, unknown][] = [
    ['id', summary.id],
    ['title', summary.title],
    ['status', summary.status.replaceAll('_', ' ')],
    ['model', model],
    ['directory', asRecord(info.workspace).working_dir],
    ['sandbox', info.sandbox_id],
    ['created', summary.createdAt.slice(0, 19)],
    ['changed', `${summary.updatedAt.slice(0, 19)} (${relativeTime(summary.updatedAt)})`],
    ['events', events],
    ['cost', typeof cost === 'number' && cost > 0 ? `$${cost.toFixed(4)}` : undefined],
  ]
  const lines = rows
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => `${paint('bold', name.padEnd(10))} ${sanitizeLine(String(value))}\n`)
  await print(lines.join(''))
  if (summary.status !== 'waiting_for_confirmation') return
  const actions = await listPendingActions(await source.agent(id), id, signal)
  for (const { tool, text } of actions) await print(`${paint('yellow', 'waits     ')} ${tool}: ${text}\n`)
  printNote(`Answer with: slipway confirm ${shortId(id)}`)
}

/** Gives a conversation a title. */
export async function renameCommand(context: VerbContext, id: string, title: string): Promise<void> {
  if (title.trim() === '') throw new Problem('bad_request', 'The title is empty.')
  await context.source.rename(id, title)
  await printResult(context.isJson, { conversation_id: id, title }, 'renamed')
}

/** Deletes conversations with their logs. */
export async function removeCommand({ source, isJson }: VerbContext, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await source.remove(id)
    await printResult(isJson, { conversation_id: id, status: 'removed' }, `removed ${shortId(id)}`)
  }
}

/** Lists what waits for a person, over all conversations. */
export async function pendingCommand({ source, isJson, signal }: VerbContext): Promise<void> {
  let count = 0
  for await (const { id, title } of listConversations(source, { status: 'waiting_for_confirmation' })) {
    const agent = await source.agent(id)
    const actions = await listPendingActions(agent, id, signal)
    const consents = actions.length > 0 ? [] : await listWaitingConsents(agent, id, signal)
    count++
    if (isJson) {
      await print(`${JSON.stringify({ conversation_id: id, title, actions, consents })}\n`)
      continue
    }
    await print(`${paint('bold', shortId(id))}  ${truncate(sanitizeLine(title), 100)}\n`)
    for (const { tool, text, risk } of actions) await print(`  ${tool}: ${text}${risk ? ` [${risk}]` : ''}\n`)
    for (const { id, repository } of consents)
      await print(`  waits for consent to what ${sanitizeLine(repository)} brings: slipway trust ${id}\n`)
  }
  if (source.kind === 'sandbox') count += await printWaitingStarts(source, isJson)
  if (isJson) return
  printNote(count === 0 ? 'Nothing waits for an answer.' : 'Answer with: slipway confirm ID [--reject]')
}

/** The consent for which a run waits, if it waits for one. */
async function listWaitingConsents(
  agent: Client,
  id: string,
  signal: AbortSignal,
): Promise<RepositoryConsent[]> {
  const { items } = await agent.call('searchEvents', {
    params: { conversation_id: id },
    query: { kind: 'ConversationStateUpdateEvent', sort_order: 'TIMESTAMP_DESC' },
    signal,
  })
  const notice = items.map(asRecord).find(({ key }) => key === 'repository_consent')
  const { id: awaited } = asRecord(notice?.value)
  if (awaited === undefined) return []
  const { items: all } = await agent.call('listRepositoryConsents', { signal })
  return all.filter(({ id, decision }) => id === awaited && decision === 'pending')
}

/** Starts that wait for consent to the scripts of their repositories; returns how many. */
async function printWaitingStarts({ consents }: ConversationSource, isJson: boolean): Promise<number> {
  const { trust, items } = await consents.list()
  const waiting = trust === 'ask' ? items.filter(({ decision }) => decision === 'pending') : []
  for (const consent of waiting) {
    const { id, repository, items } = consent
    const paths = sanitizeLine(items.map(({ path }) => path).join(', '))
    const text = `consent to ${paths} of ${sanitizeLine(repository)}: slipway trust ${shortId(id)}`
    await print(isJson ? `${JSON.stringify({ consent })}\n` : `${paint('bold', shortId(id))}  ${text}\n`)
  }
  return waiting.length
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
