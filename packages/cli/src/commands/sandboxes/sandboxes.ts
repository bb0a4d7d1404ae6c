import { setTimeout as sleep } from 'node:timers/promises'
import { CallError } from '@slipway/client'
import type { OwnedSandbox, SandboxInfo, SandboxUse } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import { formatBytes } from '@slipway/shared/text'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { findOrgId, findUserId } from '../../context/find-user.ts'
import { listPages } from '../../output/list-pages.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { printNote, printResult, table } from '../../output/terminal.ts'

const pollMs = [100, 1_000] as const
const measuredMs = 1_000

/** Lists the sandboxes of the caller, the newest first. */
export async function sandboxesCommand(
  { client, isJson, signal }: SandboxServerContext,
  options: { readonly limit: string; readonly all: boolean },
): Promise<void> {
  await listPages({
    open: (page_id) => client.open('searchSandboxes', { query: { limit: options.limit, page_id }, signal }),
    table: sandboxTable,
    isJson,
    all: options.all,
    nothing:
      'There is no sandbox. "slipway sandbox start" creates one, "slipway app start" one with an agent.',
  })
}

function sandboxTable(items: readonly string[], hasHead: boolean): string {
  const rows = items.map((item) => {
    const { id, status, sandbox_spec_id, created_at, isolation, ...why }: SandboxInfo = JSON.parse(item)
    const created = sanitizeLine(created_at).slice(0, 19).replace('T', ' ')
    const spec = sanitizeLine(sandbox_spec_id)
    return [
      sanitizeLine(id),
      status,
      spec,
      isolation.kind,
      created,
      sanitizeLine(why.status_reason?.message ?? why.status_detail ?? ''),
    ]
  })
  const head = ['ID', 'STATUS', 'SPEC', 'ISOLATION', 'CREATED', 'DETAIL']
  return table(rows, [29, 10, 22, 12, 21], hasHead ? head : undefined)
}

export interface AllSandboxesFlags {
  /** By id or name. */
  readonly user?: string | undefined
  /** By id or name. */
  readonly org?: string | undefined
  readonly status?: string | undefined
  readonly text?: string | undefined
  readonly sort: keyof typeof sortOrders
  readonly limit: string
  readonly all: boolean
}

const sortOrders = { created: 'CREATED_AT_DESC', used: 'USED_AT_DESC', cost: 'COST_DESC' } as const

/** Lists the sandboxes of all users that the flags select; the newest, last used or most expensive first. */
export async function sandboxesOfUsersCommand(
  context: SandboxServerContext,
  { user, org, status, text, sort, limit, all }: AllSandboxesFlags,
): Promise<void> {
  const { client, isJson, signal } = context
  const user_id = user === undefined ? undefined : await findUserId(context, user)
  const org_id = org === undefined ? undefined : await findOrgId(context, org)
  const query = { limit, user_id, org_id, text, status: status?.toUpperCase(), sort_order: sortOrders[sort] }
  await listPages({
    open: (page_id) => client.open('listAllSandboxes', { query: { ...query, page_id }, signal }),
    table: ownedSandboxTable,
    isJson,
    all,
    nothing: 'There is no sandbox.',
  })
}

function ownedSandboxTable(items: readonly string[], hasHead: boolean): string {
  const rows = items.map((item) => {
    const { id, user_id, user_name, status, sandbox_spec_id, ...more }: OwnedSandbox = JSON.parse(item)
    const why = more.status_reason?.message ?? more.status_detail ?? ''
    return [
      sanitizeLine(id),
      status,
      sanitizeLine(user_name ?? user_id ?? ''),
      sanitizeLine(sandbox_spec_id),
      relativeTime(more.created_at),
      relativeTime(more.used_at),
      `$${more.cost.toFixed(2)}`,
      String(more.conversations),
      sanitizeLine(why),
    ]
  })
  const head = ['ID', 'STATUS', 'USER', 'SPEC', 'CREATED', 'USED', 'COST', 'CONV', 'DETAIL']
  return table(rows, [29, 10, 22, 18, 11, 11, 9, 6], hasHead ? head : undefined)
}

/** Prints a sandbox; of one that does not run why, and the next command. */
export async function showSandboxCommand(context: SandboxServerContext, id: string): Promise<void> {
  const { client, isJson, signal } = context
  const [info] = await client.call('getSandboxes', { query: { id: [id] }, signal })
  if (info === null || info === undefined) throw new Problem('not_found', 'There is no such sandbox')
  await printResult(isJson, info, sandboxLines(info))
}

/** One line a member, without its key. */
export function sandboxLines(info: SandboxInfo): string {
  const { exposed_urls, deletes_at } = info
  return labelledLines([
    ['Sandbox', info.id],
    ['Status', info.status],
    ...reasonRows(info),
    ['Spec', info.sandbox_spec_id],
    ['Isolation', info.isolation.kind],
    ['Created', info.created_at.slice(0, 19).replace('T', ' ')],
    ['Deleted', deletes_at?.slice(0, 19).replace('T', ' ')],
    ['Folder', info.working_dir],
    ...(exposed_urls ?? []).map(({ name, url }): Row => [name, url]),
  ])
}

type Row = readonly [label: string, value: string | null | undefined]

/** Why it does not run, and the next command. */
function reasonRows({ status_reason: reason, status_detail }: SandboxInfo): Row[] {
  return [
    ['Why', reason?.message],
    ['Next', reason?.next_command],
    ['Detail', status_detail],
  ]
}

/** The same for an error; empty where nothing is known. */
export function reasonLines(info: SandboxInfo): string {
  return labelledLines(reasonRows(info))
}

function labelledLines(rows: readonly Row[]): string {
  const shown = rows.filter(([, value]) => value)
  return shown.map(([name, value]) => `${`${name}:`.padEnd(14)}${sanitizeText(value ?? '')}`).join('\n')
}

/** Further lines of a detail stand below its first. */
function sanitizeText(text: string): string {
  return text
    .split('\n')
    .map(sanitizeLine)
    .join(`\n${' '.repeat(14)}`)
}

/** Prints what the running sandboxes use, measured for a second. */
export async function sandboxUseCommand(context: SandboxServerContext): Promise<void> {
  const { client, isJson, signal } = context
  const ids: string[] = []
  for (let page_id: string | undefined; ; ) {
    const page = await client.call('searchSandboxes', { query: { limit: '100', page_id }, signal })
    ids.push(...page.items.filter(({ status }) => status === 'RUNNING').map(({ id }) => id))
    if (page.next_page_id === null) break
    page_id = page.next_page_id
  }
  const before = await readUse(context, ids)
  const began = performance.now()
  if (ids.length > 0) await sleep(measuredMs, undefined, { signal })
  const after = await readUse(context, ids)
  const seconds = (performance.now() - began) / 1_000
  const uses = [...after.values()].map(({ sandbox_id, memory_bytes, cpu_seconds, processes }) => {
    const earlier = before.get(sandbox_id)?.cpu_seconds ?? cpu_seconds
    const cpus = Number((Math.max(0, cpu_seconds - earlier) / seconds).toFixed(2))
    return { sandbox_id, cpus, memory_bytes, processes }
  })
  const rows = uses.map(({ sandbox_id, cpus, memory_bytes, processes }) => [
    sanitizeLine(sandbox_id),
    cpus.toFixed(2),
    formatBytes(memory_bytes),
    String(processes),
  ])
  const text = table(rows, [29, 8, 12, 12], ['ID', 'CPUS', 'MEMORY', 'PROCESSES']).trimEnd()
  await printResult(isJson, { items: uses }, uses.length === 0 ? 'No sandbox runs.' : text)
}

/** In groups of 100 ids. */
async function readUse(
  { client, signal }: SandboxServerContext,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SandboxUse>> {
  const uses = new Map<string, SandboxUse>()
  for (let start = 0; start < ids.length; start += 100) {
    const id = ids.slice(start, start + 100)
    for (const use of await client.call('getSandboxUse', { query: { id }, signal }))
      if (use !== null) uses.set(use.sandbox_id, use)
  }
  return uses
}

/** Starts a sandbox and waits until it runs. Returns the exit code. */
export async function startSandboxCommand(
  context: SandboxServerContext,
  { spec }: { readonly spec?: string | undefined },
): Promise<number> {
  const { client, signal } = context
  const query = spec === undefined ? {} : { sandbox_spec_id: spec }
  const { id } = await client.call('startSandbox', { query, signal })
  return await waitAndReport(context, id)
}

/** Pauses a sandbox. */
export async function pauseSandboxCommand(context: SandboxServerContext, id: string): Promise<void> {
  const { client, signal } = context
  await client.call('pauseSandbox', { params: { sandbox_id: id }, signal })
  await reportStatus(context, id, 'PAUSED')
  if (!context.isJson) printNote(`Resume it with: slipway sandbox resume ${sanitizeLine(id)}`)
}

/** Resumes a sandbox, or restarts it on its files, and waits until it runs. Returns the exit code. */
export async function resumeSandboxCommand(context: SandboxServerContext, id: string): Promise<number> {
  const { client, signal } = context
  await client.call('resumeSandbox', { params: { sandbox_id: id }, signal })
  return await waitAndReport(context, id)
}

/** Deletes the files of a sandbox; the histories of its conversations stay, and they continue in others. */
export async function archiveSandboxCommand(context: SandboxServerContext, id: string): Promise<void> {
  const { client, signal } = context
  await client.call('archiveSandbox', { params: { sandbox_id: id }, signal })
  await reportStatus(context, id, 'archived')
  if (!context.isJson)
    printNote('Continue a conversation of it: slipway app start --conversation ID "your message"')
}

/** Deletes a sandbox and its files; the history of its conversations stays. */
export async function removeSandboxCommand(context: SandboxServerContext, id: string): Promise<void> {
  const { client, signal } = context
  const params = { sandbox_id: id }
  try {
    await client.call('deleteSandbox', { params, query: {}, signal })
  } catch (error) {
    // An administrator means the sandbox of another user, which is missing among their own.
    if (!isStatus(error, 404)) throw error
    await client.call('deleteAnySandbox', { params, signal }).catch((refusal: unknown) => {
      throw isStatus(refusal, 403) ? error : refusal
    })
  }
  await reportStatus(context, id, 'removed')
}

function isStatus(error: unknown, status: number): boolean {
  return error instanceof CallError && error.status === status
}

/** Returns the exit code. */
export async function waitAndReport(context: SandboxServerContext, id: string): Promise<number> {
  const { isJson } = context
  if (!isJson) printNote(`Sandbox ${sanitizeLine(id)}`)
  const info = await waitUntilStarted(context, id)
  const { status, exposed_urls } = info
  const urls = (exposed_urls ?? []).map(({ url }) => sanitizeLine(url))
  await printResult(isJson, info, [status, ...urls].join('  '))
  if (status === 'RUNNING') return 0
  printNote(reasonLines(info) || 'The server does not say why.')
  return 1
}

/** The sandbox as soon as it is not STARTING any more. */
export async function waitUntilStarted(
  { client, signal }: SandboxServerContext,
  id: string,
): Promise<SandboxInfo> {
  for (let waitMs: number = pollMs[0]; ; waitMs = Math.min(pollMs[1], waitMs * 1.5)) {
    const [info] = await client.call('getSandboxes', { query: { id: [id] }, signal })
    if (info === null || info === undefined) throw new Problem('not_found', 'The sandbox was deleted.')
    if (info.status !== 'STARTING') return info
    await sleep(waitMs, undefined, { signal })
  }
}

async function reportStatus({ isJson }: SandboxServerContext, id: string, status: string): Promise<void> {
  await printResult(isJson, { id, status }, status)
}
