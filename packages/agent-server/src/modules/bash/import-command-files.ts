import { readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type LogFunction, parseInstant } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import type { BashEventRow, BashEvents } from '@slipway/storage'

const batchBytes = 2 * 1024 * 1024
const bytesPerSync = 16 * 1024 * 1024

/**
 * Imports the events of an older version, which had a file for each command with a line for each event. A
 * file is removed once its events are durable; a repeated import skips stored events and an incomplete last
 * line. An unreadable file, or one for which the disk has no room, is logged and stays.
 */
export async function importCommandFiles(
  directory: string,
  events: Pick<BashEvents, 'add' | 'sync'>,
  log: LogFunction,
): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  let imported: string[] = []
  let sizeBytes = 0
  const removeImported = async () => {
    events.sync()
    for (const path of imported) await rm(path, { force: true })
    imported = []
    sizeBytes = 0
  }
  for (const name of names.sort()) {
    const commandId = /^\d{20}_([0-9a-f]{32})\.jsonl$/.exec(name)?.[1]
    if (commandId === undefined) continue
    const path = join(directory, name)
    try {
      sizeBytes += await importFile(path, commandId, events)
      imported.push(path)
    } catch (error) {
      log('warn', 'a stored command cannot be read', { file: name, error: errorCode(error) ?? String(error) })
    }
    if (sizeBytes > bytesPerSync) await removeImported()
  }
  if (imported.length > 0) await removeImported()
  await rmdir(directory).catch(() => {})
}

async function importFile(path: string, commandId: string, events: Pick<BashEvents, 'add'>): Promise<number> {
  const bytes = await readFile(path)
  let batch: BashEventRow[] = []
  let batchStart = 0
  let start = 0
  for (;;) {
    const end = bytes.indexOf(10, start)
    const event = end === -1 ? undefined : parseLine(bytes.subarray(start, end), commandId, start === 0)
    if (event !== undefined) {
      batch.push(event)
      start = end + 1
    }
    if (event !== undefined && start - batchStart < batchBytes) continue
    events.add(batch)
    await nextTurn()
    if (event === undefined) return bytes.length
    batch = []
    batchStart = start
  }
}

/** Texts of commands and output are not parsed; their quotes are escaped, so they match nothing. */
const commandSuffix = /"timestamp":"([^"]+)","kind":"BashCommand"\}$/
const outputPrefix =
  /^\{"id":"([0-9a-f]{32})","timestamp":"([^"]+)","command_id":"[0-9a-f]{32}","order":(\d+),"exit_code":(null|-?\d+),/

function parseLine(body: Buffer, commandId: string, isFirst: boolean): BashEventRow | undefined {
  const [, time] = (isFirst && commandSuffix.exec(body.toString('latin1', body.length - 100))) || []
  const [, id = commandId, timestamp = time ?? '', order = -1, exitCode = 'null'] =
    (!isFirst && outputPrefix.exec(body.toString('latin1', 0, 300))) || []
  const instant = parseInstant(timestamp)
  if (instant === undefined) return undefined
  return {
    instant,
    id,
    commandId,
    conversationId: null,
    order: Number(order),
    isLast: exitCode !== 'null',
    body,
  }
}
