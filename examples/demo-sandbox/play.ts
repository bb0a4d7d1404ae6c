import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  commandName,
  followStartTask,
  getAppConversation,
  print,
  remoteEvents,
  sanitizeLine,
  statusLine,
  TranscriptRenderer,
} from '@slipway/cli/toolkit'
import type { PositionedEvent } from '@slipway/client'
import type { SandboxInfo } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { printCommand, printHeading, verify } from '../demo/context.ts'
import { pollUntil, type SandboxConversation, type SandboxDemoContext } from './context.ts'
import { showEnd, showPause } from './pause.ts'
import { buildScript, lastWords, question, task } from './script.ts'

const outsideText = 'a file of this machine, outside of every sandbox'

/** Runs all parts in order. */
export async function runSandboxDemo(stage: SandboxDemoContext): Promise<void> {
  const { client } = stage
  await printHeading(stage, 'A sandbox server, its data in SQLite on disk')
  await printCommand(`${commandName} sandbox-server --port 0`)
  await print(`${client.url}\n`)
  const pair = await showStart(stage)
  await showIsolation(stage, pair)
  const events = await showAgentRun(stage, pair)
  await showPause(stage, pair, events)
  await showFollowUp(stage, pair, events.length)
  await showEnd(stage, pair)
}

async function showStart(stage: SandboxDemoContext): Promise<SandboxConversation> {
  const { client, isFast, signal, root } = stage
  await printHeading(stage, 'A conversation in its own sandbox')
  await print('The model is scripted, its shell is real. Each state of the start, live:\n')
  const secretFile = join(root, 'outside', 'secret')
  await writeFile(secretFile, `${outsideText}\n`, { mode: 0o644 })
  const llm = { model: 'scripted/demo', script: buildScript(secretFile, isFast) }
  await client.call('changeSettings', { body: { agent_settings_diff: { llm } }, signal })
  await printCommand(`${commandName} app start "${firstChars(task, 40)}..." --follow`)
  const startedAt = Date.now()
  const request = { initial_message: { content: task }, title: 'Counting' }
  for await (const { status, detail, ...start } of followStartTask(client, request, signal)) {
    await print(statusLine(Date.now() - startedAt, status, detail ?? ''))
    verify(status !== 'ERROR', `the conversation starts (${detail})`)
    if (status !== 'READY') continue
    const { app_conversation_id: conversation, sandbox_id: sandbox } = start
    if (conversation !== null && sandbox !== null) return { conversation, sandbox }
  }
  verify(false, 'the start ends')
  throw new Error('unreachable')
}

/** The isolation that the server reports. */
async function showIsolation(stage: SandboxDemoContext, { sandbox }: SandboxConversation): Promise<void> {
  const { client, signal } = stage
  await printHeading(stage, 'Its isolation on this machine')
  await printCommand(`${commandName} sandboxes`)
  const [info] = await client.call('getSandboxes', { query: { id: [sandbox] }, signal })
  verify(info?.status === 'RUNNING', `the sandbox runs (${info?.status})`)
  const { kind, notes } = info.isolation
  await print(`${sanitizeLine(info.id)}  ${info.status}  ${isolationTexts[kind]}\n`)
  await print(formatLimits(info))
  for (const note of notes) await print(`note: ${sanitizeLine(note)}\n`)
}

/** The limits of a sandbox, and whether they are enforced. */
function formatLimits({ resources, isolation }: SandboxInfo): string {
  const limits = Object.entries(resources).map(([name, value]) => {
    const isEnforced = isolation.enforced.includes(
      name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase()),
    )
    return `${name} ${value}${isEnforced ? '' : ' (not enforced here)'}`
  })
  return `limits: ${limits.join(', ') || 'none'}\n`
}

const isolationTexts: Readonly<Record<SandboxInfo['isolation']['kind'], string>> = {
  none: 'no isolation: ordinary processes',
  namespaces: 'namespaces: its own view of files, processes and users',
  container: 'a container',
}

/** The agent at work, followed through the ingested events. */
async function showAgentRun(
  stage: SandboxDemoContext,
  pair: SandboxConversation,
): Promise<readonly PositionedEvent[]> {
  await printHeading(stage, 'The agent at work: its events are ingested by the server')
  const events = await printRun(stage, pair, 0)
  const isVisible = events.some(({ text }) => text.includes(outsideText))
  const { client, signal } = stage
  const [info] = await client.call('getSandboxes', { query: { id: [pair.sandbox] }, signal })
  const isApart = info?.isolation.kind !== 'none'
  verify(isVisible !== isApart, `files of this machine are ${isApart ? 'not ' : ''}visible from inside`)
  await print(
    isApart
      ? 'The file that it tried to read exists on this machine and is invisible inside the sandbox.\n'
      : 'Warning: no isolation. Install bubblewrap or use Docker to separate sandboxes from this machine.\n',
  )
  return events
}

async function showFollowUp(
  stage: SandboxDemoContext,
  pair: SandboxConversation,
  after: number,
): Promise<void> {
  const { client, signal } = stage
  await printHeading(stage, 'The conversation continues')
  await printCommand(`${commandName} app send ${pair.conversation} "${question}" --follow`)
  const params = { conversation_id: pair.conversation }
  await client.call('sendAppMessage', { params, body: { content: question }, signal })
  const events = await printRun(stage, pair, after)
  verify(
    events.some(({ text }) => text.includes(lastWords)),
    'the agent answers after the resume',
  )
}

/** Prints the steps of a run until its end. */
async function printRun(
  stage: SandboxDemoContext,
  { conversation }: SandboxConversation,
  after: number,
): Promise<PositionedEvent[]> {
  const { client, signal } = stage
  const steps = new TranscriptRenderer({ columns: process.stdout.columns || 100 })
  const events: PositionedEvent[] = []
  for await (const item of remoteEvents(client, conversation, { signal, after, until: 'idle', pollMs: 50 })) {
    events.push(item)
    await print(steps.renderEvent(item.event))
  }
  signal.throwIfAborted()
  const { execution_status } = await pollUntil('the run ends', signal, async () => {
    const info = await getAppConversation(client, conversation, signal)
    return info.execution_status === 'running' ? undefined : info
  })
  verify(execution_status === 'finished', `the run is finished (${execution_status})`)
  return events
}
