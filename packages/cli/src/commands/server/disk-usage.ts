import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { compact, DirectoryInUseError, measureUsage } from '@slipway/agent-server/maintenance'
import { exists } from '@slipway/shared/fs'
import { formatBytes } from '@slipway/shared/text'
import type { CommandContext } from '../../context/command-context.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

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

interface CompactedDatabase {
  readonly name: string
  readonly before_bytes: number
  readonly after_bytes: number
  readonly needs_stop?: boolean
}

interface CompactOptions {
  readonly isJson: boolean
  /** The server is named: the directory may be on another machine. */
  readonly isRemote: boolean
  connect(): Promise<CommandContext>
}

/** Gives free space of the databases back: on its own, or through the server that uses the directory. */
export async function compactCommand(
  findData: () => Promise<string>,
  { isJson, isRemote, connect }: CompactOptions,
): Promise<void> {
  let databases: readonly CompactedDatabase[]
  try {
    databases = isRemote ? await compactOnServer(await connect(), undefined) : await compact(await findData())
  } catch (error) {
    if (!(error instanceof DirectoryInUseError)) throw error
    const directory = await realpath(await findData())
    if (await exists(join(directory, 'control.db')))
      throw new Error(
        `${error.message} A sandbox server gives space back on its own: stop it to compact the rest.`,
      )
    const context = await connect()
    printNote(`${directory} is in use: asking the server at ${context.client.url}.`)
    databases = await compactOnServer(context, directory)
  }
  const freed_bytes = databases.reduce(
    (sum, { before_bytes, after_bytes }) => sum + before_bytes - after_bytes,
    0,
  )
  const lines = databases.map(({ name, before_bytes, after_bytes, needs_stop = false }) => {
    const note = needs_stop ? ' (of an earlier version: stop the server and repeat this)' : ''
    return `${name}: ${formatBytes(before_bytes)} -> ${formatBytes(after_bytes)}${note}`
  })
  lines.push(`${formatBytes(Math.max(0, freed_bytes))} came back.`)
  await printResult(isJson, { databases, freed_bytes }, lines.join('\n'))
}

/** Repeats the request, which ends after some seconds, until nothing more comes back. */
async function compactOnServer(
  { client, signal }: CommandContext,
  directory: string | undefined,
): Promise<CompactedDatabase[]> {
  const first = new Map<string, number>()
  for (let lastFree = Infinity; ; ) {
    const { databases, data_directory, is_complete } = await client.call('compactStorage', { signal })
    if (directory !== undefined && data_directory !== directory)
      throw new Error(
        `The server at ${client.url} uses ${data_directory}, not ${directory}. Name the right one with --url.`,
      )
    for (const { name, before_bytes } of databases) if (!first.has(name)) first.set(name, before_bytes)
    const free = databases.reduce((sum, { free_bytes }) => sum + free_bytes, 0)
    if (is_complete || free >= lastFree)
      return databases.map((one) => ({ ...one, before_bytes: first.get(one.name) ?? one.before_bytes }))
    lastFree = free
  }
}
