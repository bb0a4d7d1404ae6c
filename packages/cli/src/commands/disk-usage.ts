import { compact, measureUsage } from '@slipway/agent-server/maintenance'
import { formatBytes } from '../output/bytes.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { print, printResult, table } from '../output/terminal.ts'

/** Prints what a data directory takes, and its largest conversations. */
export async function usageCommand(data: string, limit: number, isJson: boolean): Promise<void> {
  const usage = await measureUsage(data)
  const conversations = usage.log.conversations.slice(0, limit)
  if (isJson) return await print(`${JSON.stringify({ ...usage, log: { ...usage.log, conversations } })}\n`)
  const files = usage.entries.map(({ path, bytes }) => [formatBytes(bytes), sanitizeLine(path)])
  const rows = conversations.map(({ id, events, bytes }) => [formatBytes(bytes), String(events), id])
  const lines = [
    table([...files, [formatBytes(usage.total_bytes), 'total']], [12, 60], ['DISK', 'FILE']),
    table(rows, [12, 10, 40], ['EVENTS', 'COUNT', 'CONVERSATION']),
  ]
  const { free_bytes } = usage.log
  if (free_bytes > 0)
    lines.push(`${formatBytes(free_bytes)} of log.db are free: "slipway compact" gives them back.\n`)
  await print(lines.join('\n'))
}

/** Gives free space of the databases back. */
export async function compactCommand(data: string, isJson: boolean): Promise<void> {
  const done = await compact(data)
  const lines = done.map(
    ({ name, before_bytes, after_bytes }) =>
      `${name}: ${formatBytes(before_bytes)} -> ${formatBytes(after_bytes)}`,
  )
  await printResult(isJson, { databases: done }, lines.join('\n'))
}
