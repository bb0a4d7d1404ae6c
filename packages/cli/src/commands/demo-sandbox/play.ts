import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PositionedEvent } from '@slipway/client'
import type { SandboxInfo } from '@slipway/protocol'
import { appConversation, homeEvents } from '../../conversation/remote-events.ts'
import { startTasks } from '../../conversation/start-tasks.ts'
import { visible } from '../../output/sanitize.ts'
import { print } from '../../output/terminal.ts'
import { Steps } from '../../output/transcript.ts'
import { statusLine } from '../app-start.ts'
import { command, heading, promise } from '../demo/context.ts'
import { eventually, type Pair, type SandboxStage } from './context.ts'
import { showEnd, showPause } from './pause.ts'
import { lastWords, question, script, task } from './script.ts'

const secret = 'a file of this machine, outside of every sandbox'

/** The whole of it, in order. */
export async function playSandbox(stage: SandboxStage): Promise<void> {
  const { client } = stage
  await heading(stage, 'A sandbox server, its data in SQLite on disk')
  await command('npx slipway sandbox-server --port 0')
  await print(`${client.url}\n`)
  const pair = await showStart(stage)
  await showIsolation(stage, pair)
  const events = await showWork(stage, pair)
  await showPause(stage, pair, events)
  await showAnswer(stage, pair, events.length)
  await showEnd(stage, pair)
}

async function showStart(stage: SandboxStage): Promise<Pair> {
  const { client, isFast, signal, root } = stage
  await heading(stage, 'A conversation in a sandbox of its own')
  await print('The model plays a script, its shell is real. Each state of the start as it comes:\n')
  const secretFile = join(root, 'outside', 'secret')
  await writeFile(secretFile, `${secret}\n`, { mode: 0o644 })
  const llm = { model: 'scripted/demo', script: script(secretFile, isFast) }
  await client.call('changeSettings', { body: { agent_settings_diff: { llm } }, signal })
  await command(`npx slipway app start "${task.slice(0, 40)}..." --follow`)
  const startedAt = Date.now()
  const request = { initial_message: { content: task }, title: 'Counting' }
  for await (const { status, detail, ...start } of startTasks(client, request, signal)) {
    await print(statusLine(Date.now() - startedAt, status, detail ?? ''))
    promise(status !== 'ERROR', `the conversation starts (${detail})`)
    if (status !== 'READY') continue
    const { app_conversation_id: conversation, sandbox_id: sandbox } = start
    if (conversation !== null && sandbox !== null) return { conversation, sandbox }
  }
  promise(false, 'the start ends')
  throw new Error('unreachable')
}

/** What the server says of itself: never more than is true. */
async function showIsolation(stage: SandboxStage, { sandbox }: Pair): Promise<void> {
  const { client, signal } = stage
  await heading(stage, 'How it is kept apart here')
  await command('npx slipway sandboxes')
  const [info] = await client.call('getSandboxes', { query: { id: [sandbox] }, signal })
  promise(info?.status === 'RUNNING', `the sandbox runs (${info?.status})`)
  const { kind, notes } = info.isolation
  await print(`${visible(info.id)}  ${info.status}  ${kinds[kind]}\n`)
  await print(limitsOf(info))
  for (const note of notes) await print(`note: ${visible(note)}\n`)
}

/** The limits of a sandbox, and whether they hold. */
function limitsOf({ resources, isolation }: SandboxInfo): string {
  const all = Object.entries(resources).map(([name, value]) => {
    const isEnforced = isolation.enforced.includes(
      name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase()),
    )
    return `${name} ${value}${isEnforced ? '' : ' (not enforced here)'}`
  })
  return `limits: ${all.join(', ') || 'none'}\n`
}

const kinds: Readonly<Record<SandboxInfo['isolation']['kind'], string>> = {
  none: 'no isolation: processes like any other',
  namespaces: 'namespaces: its own view of files, processes and users',
  container: 'a container',
}

/** The agent at work, as its events come home. */
async function showWork(stage: SandboxStage, pair: Pair): Promise<readonly PositionedEvent[]> {
  await heading(stage, 'The agent at work: its events come home to the server')
  const events = await shown(stage, pair, 0)
  const found = events.some(({ text }) => text.includes(secret))
  const { client, signal } = stage
  const [info] = await client.call('getSandboxes', { query: { id: [pair.sandbox] }, signal })
  const isApart = info?.isolation.kind !== 'none'
  promise(found !== isApart, `files of this machine are ${isApart ? 'not ' : ''}seen from inside`)
  await print(
    isApart
      ? 'The file that it tried to read exists on this machine; from inside it does not.\n'
      : 'It could read a file of this machine: without bubblewrap or Docker there are no walls.\n',
  )
  return events
}

async function showAnswer(stage: SandboxStage, pair: Pair, after: number): Promise<void> {
  const { client, signal } = stage
  await heading(stage, 'The conversation goes on')
  await command(`npx slipway app send ${pair.conversation} "${question}" --follow`)
  const params = { conversation_id: pair.conversation }
  await client.call('sendAppMessage', { params, body: { content: question }, signal })
  const events = await shown(stage, pair, after)
  promise(
    events.some(({ text }) => text.includes(lastWords)),
    'the agent answers after the resume',
  )
}

/** Prints the steps of a run until it is over. */
async function shown(stage: SandboxStage, { conversation }: Pair, after: number): Promise<PositionedEvent[]> {
  const { client, signal } = stage
  const steps = new Steps({ columns: process.stdout.columns || 100 })
  const events: PositionedEvent[] = []
  for await (const item of homeEvents(client, conversation, { signal, after, until: 'idle', pollMs: 50 })) {
    events.push(item)
    await print(steps.event(item.event))
  }
  signal.throwIfAborted()
  const { execution_status } = await eventually('the run ends', signal, async () => {
    const info = await appConversation(client, conversation, signal)
    return info.execution_status === 'running' ? undefined : info
  })
  promise(execution_status === 'finished', `the run is finished (${execution_status})`)
  return events
}
