import type { SandboxEvent, UsageLine, UsageReport } from '@slipway/protocol'
import { readText } from '@slipway/shared/async'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { findOrgId } from '../../context/find-user.ts'
import { utcTime } from '../../output/relative-time.ts'
import { sanitizeLine, sanitizeLines } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'
import { waitAndReport } from './sandboxes.ts'

/** Prints what the agent server of a sandbox printed, also of one that was deleted some days ago. */
export async function sandboxLogsCommand(
  { client, isJson, signal }: SandboxServerContext,
  id: string,
  { tail }: { readonly tail?: number | undefined },
): Promise<void> {
  const log = await client.call('getSandboxLog', { params: { sandbox_id: id }, signal })
  const lines = log.text.split('\n')
  const text = tail === undefined ? log.text : lines.slice(-tail).join('\n')
  if (isJson) return await print(`${JSON.stringify({ ...log, text })}\n`)
  if (text === '') return printNote('It has printed nothing.')
  if (!log.is_live) printNote(`Its last output, kept at ${utcTime(log.time)}.`)
  await print(`${sanitizeLines(text).join('\n')}\n`)
}

/** Prints what happened to a sandbox, the oldest first. */
export async function sandboxEventsCommand(
  { client, isJson, signal }: SandboxServerContext,
  id: string,
): Promise<void> {
  const { items } = await client.call('listSandboxEvents', { params: { sandbox_id: id }, signal })
  if (isJson) return await print(items.map((item) => `${JSON.stringify(item)}\n`).join(''))
  await print(eventTable(items))
}

function eventTable(items: readonly SandboxEvent[]): string {
  const rows = items.map(({ time, kind, actor, detail }) => [
    utcTime(time),
    sanitizeLine(kind),
    sanitizeLine(actor ?? ''),
    sanitizeLine(detail ?? ''),
  ])
  return table(rows, [22, 10, 42], ['TIME', 'WHAT', 'WHO', 'DETAIL'])
}

/**
 * Runs a command in a sandbox. Returns its exit code; 124 after the timeout, 128 and the number of a signal.
 */
export async function execSandboxCommand(
  { client, isJson, signal }: SandboxServerContext,
  id: string,
  command: readonly string[],
  { cwd, timeout: timeout_seconds }: { readonly cwd?: string | undefined; readonly timeout: number },
): Promise<number> {
  const body = { command: command.join(' '), cwd, timeout_seconds }
  const result = await client.call('execInSandbox', { params: { sandbox_id: id }, body, signal })
  const { exit_code: exit } = result
  const code = exit === -1 ? 124 : exit < 0 ? 128 - exit : exit
  if (isJson) await print(`${JSON.stringify(result)}\n`)
  else {
    if (result.stdout !== '') await print(endLine(sanitizeLines(result.stdout).join('\n')))
    if (result.stderr !== '') printNote(sanitizeLines(result.stderr).join('\n').trimEnd())
    if (exit === -1) printNote(`It did not end in ${timeout_seconds} s.`)
  }
  return code
}

/** Ends the processes of a sandbox, starts it again on its files and waits until it runs. */
export async function restartSandboxCommand(context: SandboxServerContext, id: string): Promise<number> {
  const { client, signal } = context
  await client.call('restartSandbox', { params: { sandbox_id: id }, signal })
  return await waitAndReport(context, id)
}

type UsageGroup = UsageReport['by']

export interface UsageFlags {
  readonly by: UsageGroup
  readonly from?: string | undefined
  readonly to?: string | undefined
  /** By id or name. */
  readonly org?: string | undefined
  readonly csv: boolean
}
/** Prints what users have used; administrators may, and owners and admins of the organisation. */
export async function usageCommand(
  context: SandboxServerContext,
  { by, from, to, org, csv: isCsv }: UsageFlags,
): Promise<void> {
  const { client, isJson, signal } = context
  const org_id = org === undefined ? undefined : await findOrgId(context, org)
  const query = { by, from, to, org_id }
  if (isCsv) return await print(await readText(await client.open('downloadUsage', { query, signal })))
  const report = await client.call('getUsage', { query, signal })
  const lines = usageTable(by, report.items).trimEnd()
  await printResult(isJson, report, `${report.from} to ${report.to} (UTC)\n${lines}`)
}

function usageTable(by: UsageGroup, items: readonly UsageLine[]): string {
  const sum = (read: (line: UsageLine) => number) => items.reduce((total, line) => total + read(line), 0)
  const cells = (name: string, line: Pick<UsageLine, Exclude<keyof UsageLine, 'key' | 'name'>>) => [
    name,
    String(line.conversations),
    String(line.prompt_tokens),
    String(line.completion_tokens),
    String(line.cache_read_tokens),
    line.sandbox_hours === null ? '' : line.sandbox_hours.toFixed(1),
    `$${line.cost.toFixed(2)}`,
  ]
  const rows = items.map((line) => cells(sanitizeLine(line.name ?? line.key ?? '(none)'), line))
  // Conversations are not summed: one may be in several lines.
  const total = [
    'total',
    '',
    String(sum((line) => line.prompt_tokens)),
    String(sum((line) => line.completion_tokens)),
    String(sum((line) => line.cache_read_tokens)),
    by === 'model' ? '' : sum((line) => line.sandbox_hours ?? 0).toFixed(1),
    `$${sum((line) => line.cost).toFixed(2)}`,
  ]
  const head = [by.toUpperCase(), 'CONV', 'INPUT', 'OUTPUT', 'CACHED', 'HOURS', 'COST']
  return table([...rows, total], [38, 7, 13, 12, 13, 9], head)
}

function endLine(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`
}
