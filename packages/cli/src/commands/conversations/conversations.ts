import { isAbsolute, relative } from 'node:path'
import type { Client } from '@slipway/client'
import type { RepositoryConsent } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import { askYesOrNo, isInteractive } from '../../conversation/confirmation-prompt.ts'
import { questionText, readPendingQuestion } from '../../conversation/pending-actions.ts'
import { listConversations } from '../../conversation/source/list-conversations.ts'
import type { ConversationSource, ConversationSummary } from '../../conversation/source/source.ts'
import { relativeTime, utcTime } from '../../output/relative-time.ts'
import { sanitizeLine, truncate } from '../../output/sanitize.ts'
import { paint, print, printNote, printResult, table } from '../../output/terminal.ts'
import { costText, tokensText } from '../../output/usage.ts'

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
    /** Only those whose title contains it, in any case. */
    readonly title?: string | undefined
    /** Only those that work in this directory, or below it. */
    readonly directory?: string | undefined
  },
): Promise<void> {
  const { limit, all, status, isQuiet, title, directory } = options
  if (directory !== undefined && source.kind === 'sandbox')
    throw new Problem('bad_request', '--here is for an agent server: sandboxes have their own directories.')
  const isFiltered = title !== undefined || directory !== undefined
  const pages = isFiltered
    ? filteredPages(source, { status, limit }, (item) => isMatch(item, { title, directory }))
    : allPages(source, { status, limit })
  let count = 0
  for await (const { items, hasMore } of pages) {
    if (isJson) await print(items.map(({ info }) => `${JSON.stringify(info)}\n`).join(''))
    else if (isQuiet) await print(items.map(({ id }) => `${id}\n`).join(''))
    else if (items.length > 0) await print(conversationTable(items, { isWide, hasHead: count === 0 }))
    count += items.length
    if (all || !hasMore) continue
    if (!isJson && !isQuiet) printNote('There are more: --all')
    return
  }
  if (isJson || isQuiet || count > 0) return
  const isNone = !isFiltered && status === undefined
  printNote(isNone ? 'There is no conversation yet. "slipway run MESSAGE" starts one.' : 'None fits.')
}

interface ListPage {
  readonly items: readonly ConversationSummary[]
  readonly hasMore: boolean
}

async function* allPages(
  source: ConversationSource,
  query: { readonly limit: number; readonly status?: string | undefined },
): AsyncGenerator<ListPage> {
  let page_id: string | undefined
  do {
    const { items, nextPageId } = await source.list({ ...query, page_id })
    page_id = nextPageId
    yield { items, hasMore: nextPageId !== undefined }
  } while (page_id !== undefined)
}

/** Pages of those that match. */
async function* filteredPages(
  source: ConversationSource,
  { limit, status }: { readonly limit: number; readonly status?: string | undefined },
  matches: (item: ConversationSummary) => boolean,
): AsyncGenerator<ListPage> {
  let items: ConversationSummary[] = []
  for await (const item of listConversations(source, { status })) {
    if (!matches(item)) continue
    if (items.length === limit) {
      yield { items, hasMore: true }
      items = []
    }
    items.push(item)
  }
  yield { items, hasMore: false }
}

function isMatch(
  item: ConversationSummary,
  { title, directory }: { readonly title: string | undefined; readonly directory: string | undefined },
): boolean {
  if (title !== undefined && !item.title.toLowerCase().includes(title.toLowerCase())) return false
  return directory === undefined || isWithin(workingDirectory(item), directory)
}

function isWithin(path: string, directory: string): boolean {
  const rest = relative(directory, path)
  return path !== '' && !isAbsolute(rest) && rest !== '..' && !rest.startsWith('../')
}

/** On the machine of an agent server; empty in a sandbox. */
function workingDirectory({ info }: ConversationSummary): string {
  const { working_dir } = asRecord(info.workspace)
  return typeof working_dir === 'string' ? working_dir : ''
}

/** As wide as the terminal: titles are cut, and below 60 columns the time is left out. */
function conversationTable(
  items: readonly ConversationSummary[],
  { isWide, hasHead }: { isWide: boolean; hasHead: boolean },
): string {
  const isNarrow = !isWide && (process.stdout.columns ?? 200) < 60
  const rows = items.map((item) => [
    isWide ? item.id : shortId(item.id),
    sanitizeLine(item.status.replaceAll('_', ' ')),
    ...(isNarrow ? [] : [isWide ? sanitizeLine(utcTime(item.updatedAt)) : relativeTime(item.updatedAt)]),
    ...(isWide ? [sanitizeLine(workingDirectory(item))] : []),
    sanitizeLine(item.title),
  ])
  const head = ['ID', 'STATUS', ...(isNarrow ? [] : ['CHANGED']), ...(isWide ? ['DIRECTORY'] : []), 'TITLE']
  const widest = (column: number, atLeast: number) =>
    Math.max(atLeast, ...rows.map((row) => (row[column] ?? '').length + 2))
  const times = isNarrow ? [] : [isWide ? 22 : 12]
  const widths = [
    isWide ? 38 : shortIdLength + 2,
    widest(1, 10),
    ...times,
    ...(isWide ? [widest(3, 11)] : []),
  ]
  return table(rows, widths, hasHead ? head : undefined)
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
  const llm = asRecord(asRecord(info.agent).llm)
  const model = llm.model ?? info.llm_model
  const rows: [string, unknown][] = [
    ['id', summary.id],
    ['title', summary.title],
    ['status', summary.status.replaceAll('_', ' ')],
    ['model', model],
    ['directory', asRecord(info.workspace).working_dir],
    ['sandbox', info.sandbox_id],
    ['created', utcTime(summary.createdAt)],
    ['changed', `${utcTime(summary.updatedAt)} (${relativeTime(summary.updatedAt)})`],
    ['events', events],
    ['tokens', tokensText(info.metrics)?.replace(' tokens', '')],
    ['cost', costText(info.metrics)],
  ]
  const lines = rows
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => `${paint('bold', name.padEnd(10))} ${sanitizeLine(String(value))}\n`)
  await print(lines.join(''))
  if (summary.status !== 'waiting_for_confirmation') return
  const { actions } = await readPendingQuestion(await source.agent(id), id, signal)
  for (const { lines } of actions) {
    const text = lines().join(`\n${' '.repeat(11)}`)
    await print(`${paint('yellow', 'waits     ')} ${text}\n`)
  }
  printNote(`Answer with: slipway confirm ${shortId(id)}`)
}

/** Gives a conversation a title. */
export async function renameCommand(context: VerbContext, id: string, title: string): Promise<void> {
  if (title.trim() === '') throw new Problem('bad_request', 'The title is empty.')
  await context.source.rename(id, title)
  await printResult(context.isJson, { conversation_id: id, title }, 'renamed')
}

/** Deletes conversations with their logs. A terminal asks first; a program has named what it means. */
export async function removeCommand(
  { source, isJson, signal }: VerbContext,
  ids: readonly string[],
  { isConfirmed }: { readonly isConfirmed: boolean },
): Promise<void> {
  const found = await Promise.all(ids.map((id) => source.get(id)))
  const lines = found.map(({ id, title }) =>
    `${shortId(id)}  ${truncate(sanitizeLine(title), 100)}`.trimEnd(),
  )
  const question = ['Delete with the log, for good?', ...lines].join('\n')
  if (!isConfirmed && isInteractive() && !(await askYesOrNo(question, signal))) {
    printNote('Nothing was deleted.')
    return
  }
  for (const [at, { id, title }] of found.entries()) {
    await source.remove(id)
    await printResult(isJson, { conversation_id: id, title, status: 'removed' }, `removed ${lines[at]}`)
  }
}

/** Lists what waits for a person, over all conversations. */
export async function pendingCommand({ source, isJson, signal }: VerbContext): Promise<void> {
  let count = 0
  for await (const { id, title } of listConversations(source, { status: 'waiting_for_confirmation' })) {
    const agent = await source.agent(id)
    const { actions, digest } = await readPendingQuestion(agent, id, signal)
    const consents = actions.length > 0 ? [] : await listWaitingConsents(agent, id, signal)
    count++
    if (isJson) {
      const values = actions.map(({ lines: _, ...action }) => action)
      const question = { actions: values, actions_digest: digest, consents }
      await print(`${JSON.stringify({ conversation_id: id, title, ...question })}\n`)
      continue
    }
    await print(`${paint('bold', shortId(id))}  ${truncate(sanitizeLine(title), 100)}\n`)
    if (actions.length > 0) await print(`${questionText(actions)}\n`)
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
