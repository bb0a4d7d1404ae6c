import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { commandName, print, sanitizeLine } from '@slipway/cli/toolkit'
import type { PositionedEvent } from '@slipway/client'
import { printCommand, printHeading, verify } from '../demo/context.ts'
import { findLeftovers } from './cleanup.ts'
import { pollUntil, type SandboxConversation, type SandboxDemoContext } from './context.ts'
import { counterFile } from './script.ts'
import { listZipEntries } from './zip-entries.ts'

const pauseCheckMs = 1_500

/** A pause, what is visible meanwhile, and a resume. */
export async function showPause(
  stage: SandboxDemoContext,
  pair: SandboxConversation,
  events: readonly PositionedEvent[],
): Promise<void> {
  const { client, signal } = stage
  const params = { sandbox_id: pair.sandbox }
  await printHeading(stage, 'Pause: the processes are frozen')
  const before = await pollUntil('the loop counts', signal, async () => {
    const count = await readCounter(stage, pair)
    return count >= 5 ? count : undefined
  })
  await print(`the loop in the sandbox has counted to ${before}\n`)
  await printCommand(`${commandName} sandbox pause ${pair.sandbox}`)
  const pausedAt = Date.now()
  await client.call('pauseSandbox', { params, signal })
  await print(`PAUSED after ${Date.now() - pausedAt} ms\n`)
  const first = await readCounterFile(stage)
  await sleep(pauseCheckMs, undefined, { signal })
  const second = await readCounterFile(stage)
  await print(`its file contains ${first}, and ${pauseCheckMs / 1000} s later ${second}\n`)
  verify(first > 0 && first === second, `a paused sandbox does not count (${first}, ${second})`)
  await showHistory(stage, pair, events)
  await printHeading(stage, 'Resume: the processes continue')
  await printCommand(`${commandName} sandbox resume ${pair.sandbox}`)
  const resumedAt = Date.now()
  await client.call('resumeSandbox', { params, signal })
  await pollUntil('the sandbox runs again', signal, () => isRunning(stage, pair))
  await print(`RUNNING after ${Date.now() - resumedAt} ms\n`)
  const after = await pollUntil('the loop counts on', signal, async () => {
    const count = await readCounter(stage, pair)
    return count > second ? count : undefined
  })
  await print(`and the loop has counted to ${after}: the same process as before\n`)
}

/** The ingested history can be read while the sandbox is paused. */
async function showHistory(
  stage: SandboxDemoContext,
  { conversation }: SandboxConversation,
  events: readonly PositionedEvent[],
): Promise<void> {
  const { client, signal } = stage
  const params = { conversation_id: conversation }
  await printHeading(stage, 'Its history is readable meanwhile')
  await printCommand(`${commandName} app tail ${conversation} --until-idle`)
  const count = await client.call('countHomeEvents', { params, query: {}, signal })
  verify(count >= events.length, `all ${events.length} events are ingested (${count})`)
  await print(`${count} events\n`)
  await printCommand(`${commandName} app download ${conversation}`)
  const response = await client.open('downloadAppConversation', { params, signal })
  const zip = Buffer.from(await response.arrayBuffer())
  const entries = listZipEntries(zip)
  for (const { name, sizeBytes } of entries)
    await print(`${String(sizeBytes).padStart(8)}  ${sanitizeLine(name)}\n`)
  verify(entries.length === count + 1, 'the zip has meta.json and a file for each event')
  await print(`${zip.length} bytes in all\n`)
}

/** Deletes everything and looks for leftovers. */
export async function showEnd(
  stage: SandboxDemoContext,
  { conversation }: SandboxConversation,
): Promise<void> {
  const { client, signal } = stage
  await printHeading(stage, 'The removal: nothing is left')
  const before = await findLeftovers(stage)
  verify(before.processes !== 0 && before.directories > 0, 'a sandbox has processes and a directory')
  await print(formatLeftovers(before))
  await printCommand(`${commandName} app rm ${conversation}`)
  await client.call('deleteAppConversation', { params: { conversation_id: conversation }, signal })
  const after = await pollUntil('the sandbox goes', signal, async () => {
    const traces = await findLeftovers(stage)
    return (traces.processes ?? 0) === 0 && traces.directories === 0 ? traces : undefined
  })
  const { items } = await client.call('searchSandboxes', { query: {}, signal })
  verify(items.length === 0, 'no sandbox is listed')
  await print(formatLeftovers(after))
}

function formatLeftovers({ processes, directories }: Awaited<ReturnType<typeof findLeftovers>>): string {
  const running = processes === undefined ? '' : `${processes} processes, `
  return `${running}${directories} ${directories === 1 ? 'directory' : 'directories'} of sandboxes\n`
}

async function isRunning(
  { client, signal }: SandboxDemoContext,
  { sandbox }: SandboxConversation,
): Promise<true | undefined> {
  const [info] = await client.call('getSandboxes', { query: { id: [sandbox] }, signal })
  return info?.status === 'RUNNING' ? true : undefined
}

/** The counter of the loop, as the API returns it. */
async function readCounter(
  { client, signal }: SandboxDemoContext,
  { conversation, sandbox }: SandboxConversation,
): Promise<number> {
  const [info] = await client.call('getSandboxes', { query: { id: [sandbox] }, signal })
  const params = { conversation_id: conversation }
  const query = { file_path: `${info?.working_dir}/${counterFile}` }
  return Number(await client.call('readAppFile', { params, query, signal }))
}

/** The same from the disk of this machine, because a paused sandbox cannot answer. */
async function readCounterFile({ data }: SandboxDemoContext): Promise<number> {
  const files = await readdir(join(data, 'sandboxes'), { recursive: true, withFileTypes: true })
  const file = files.find(({ name }) => name === counterFile)
  verify(file !== undefined, 'the file of the loop is on the disk')
  return Number(await readFile(join(file.parentPath, file.name), 'utf8'))
}
