import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { unixFetch } from '@slipway/http'
import { must } from '@slipway/protocol'
import { programRoot } from '@slipway/shared/process/testing'
import { systemClock } from '@slipway/shared/time'
import { expect, onTestFinished, test } from 'vitest'
import { ProcessBackend } from '../backends/process/process-backend.ts'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Sandboxes } from './sandboxes.ts'
import type { SandboxesOptions } from './state/context.ts'
import { ann, createSpecs, eventually, fastOptions } from './testing/sandboxes-fixture.ts'

const root = realpathSync(programRoot)
const soon = () => AbortSignal.timeout(60_000)

/** Sandboxes that are processes of the real agent server; tests of the backend cover limits and isolation. */
async function real(specs: Parameters<typeof createSpecs>[0]) {
  const { controlPlane, cipher, path, ...opened } = await openTestControlPlane()
  const open = async (options: Partial<SandboxesOptions> = {}) => {
    const backend = new ProcessBackend({
      directory: join(path, 'sandboxes'),
      ledgerId: controlPlane.id,
      agentCommand: [process.execPath, join(root, 'packages/agent-server/src/main.js')],
      readable: [root],
      log: () => {},
      isolate: 'none',
      limit: 'none',
    })
    const sandboxes = new Sandboxes({
      ...fastOptions,
      startMs: 120_000,
      controlPlane,
      cipher,
      backends: [backend],
      specs: createSpecs(specs, 'process'),
      log: () => {},
      publicUrl: () => 'http://127.0.0.1:9000',
      hostPort: () => 9,
      reconcileMs: 200,
      ...options,
    })
    await sandboxes.startReconciling()
    return { sandboxes, backend }
  }
  onTestFinished(async () => {
    const { backend, sandboxes } = await open({ specs: createSpecs([{}], 'process') })
    await sandboxes[Symbol.asyncDispose]()
    for (const { id } of await backend.list()) await backend.remove(id)
    await opened[Symbol.asyncDispose]()
  })
  return { open, ledger: controlPlane }
}

test('a real agent server starts with its key, is paused and resumed, and survives its control plane', async () => {
  const at = await real([{ env: { COLOUR: 'blue' } }])
  const { sandboxes } = await at.open()
  const { id } = await sandboxes.start(ann)
  const row = await sandboxes.waitSettled(id, soon())
  expect(row).toMatchObject({ status: 'RUNNING', detail: null })
  const reached = sandboxes.getConnection(row)
  expect(await reached?.client.call('countConversations', {})).toBe(0)
  expect((await unixFetch(`${reached?.url}/api/conversations/count`)).status).toBe(401)
  const result = await reached?.client.call('executeBashCommand', {
    body: { command: 'echo "$COLOUR $OH_X"; pwd' },
  })
  expect(JSON.stringify(result)).toContain('blue')
  expect(JSON.stringify(result)).toContain(reached?.workingDir)
  await sandboxes.pause(row)
  await sandboxes[Symbol.asyncDispose]()
  const again = await at.open()
  const paused = await again.sandboxes.get(ann, id)
  expect(paused).toMatchObject({ status: 'PAUSED', epoch: row.epoch })
  await again.sandboxes.resume(paused)
  const resumed = await again.sandboxes.waitSettled(id, soon())
  expect(resumed).toMatchObject({ status: 'RUNNING', epoch: row.epoch })
  expect(again.sandboxes.getConnection(resumed)?.key.reveal()).toBe(reached?.key.reveal())
  await again.sandboxes.remove(resumed)
  await eventually(async () => expect(await again.backend.list()).toEqual([]))
  await again.sandboxes[Symbol.asyncDispose]()
}, 120_000)

test('one of the warm pool runs when it is claimed, and again after a crash', async () => {
  const at = await real([{ warm: 1 }])
  const { sandboxes } = await at.open()
  await eventually(async () => {
    const [spare] = await at.ledger.sandboxes.listRunning(null)
    expect(spare?.status).toBe('RUNNING')
  })
  const [spare] = await at.ledger.sandboxes.listRunning(null)
  const claimed = await sandboxes.start(ann)
  expect(claimed.id).toBe(spare?.id)
  const row = await sandboxes.waitSettled(claimed.id, soon())
  expect(row).toMatchObject({ status: 'RUNNING', detail: null })
  const reached = sandboxes.getConnection(row)
  expect(await reached?.client.call('countConversations', {})).toBe(0)
  // It ends itself, as after a crash.
  const end = { command: 'kill -9 $PPID; sleep 5; true' }
  await reached?.client.call('executeBashCommand', { body: end }).catch(() => undefined)
  await eventually(async () => expect((await sandboxes.find([row.id]))[0]?.status).toBe('ERROR'))
  await sandboxes.resume(row)
  const resumed = await sandboxes.waitSettled(row.id, soon())
  expect(resumed).toMatchObject({ status: 'RUNNING', detail: null })
  expect(await sandboxes.getConnection(resumed)?.client.call('countConversations', {})).toBe(0)
  await sandboxes[Symbol.asyncDispose]()
}, 120_000)

test('an agent server that is killed and started again in its sandbox has its key, settings and conversations', async () => {
  // A supervisor in the sandbox, as images of others have one.
  const loop = 'while :; do "$@"; sleep 0.1; done'
  const main = [process.execPath, join(root, 'packages/agent-server/src/main.js')]
  const at = await real([{ command: ['/bin/sh', '-c', loop, 'loop', ...main], warm: 1 }])
  const skipped = { ms: 0 }
  const told: string[] = []
  const { sandboxes } = await at.open({
    clock: { ...systemClock, now: () => Date.now() + skipped.ms },
    onReady: async ({ id }) => void told.push(id),
  })
  await eventually(async () =>
    expect((await at.ledger.sandboxes.listRunning(null))[0]?.status).toBe('RUNNING'),
  )
  const { id } = await sandboxes.start(ann)
  const row = await sandboxes.waitSettled(id, soon())
  const before = must(sandboxes.getConnection(row), 'a connection')
  const body = {
    agent: { llm: { model: 'scripted/test', usage_id: 'agent', script: [] }, tools: [] },
    workspace: { working_dir: before.workingDir },
    secrets: { ONE: { kind: 'StaticSecret' as const, value: 'canary' } },
  }
  const { id: conversation } = await before.client.call('createConversation', { body })
  const { instance_id } = await before.client.call('serverInfo', {})
  for (const times of [1, 2]) {
    const end = { command: 'kill -9 $PPID; sleep 5; true' }
    await before.client.call('executeBashCommand', { body: end }).catch(() => undefined)
    await eventually(async () => {
      skipped.ms += 16_000
      expect(told).toHaveLength(times)
      expect((await sandboxes.find([id]))[0]?.status).toBe('RUNNING')
    })
    const [again] = await sandboxes.find([id])
    expect(again).toMatchObject({ epoch: row.epoch, detail: null })
    const { client, key } = must(again && sandboxes.getConnection(again), 'a connection')
    expect(key.reveal()).toBe(before.key.reveal())
    expect((await client.call('serverInfo', {})).instance_id).not.toBe(instance_id)
    const [info] = await client.call('getConversations', { query: { ids: [conversation] } })
    expect(JSON.stringify(info?.secret_registry)).toContain('ONE')
  }
  await sandboxes[Symbol.asyncDispose]()
}, 120_000)

test('an agent server that cannot start is an ERROR with what it printed', async () => {
  const at = await real([{ env: { SLIPWAY_STALL_SECONDS: 'not a number' } }])
  const { sandboxes } = await at.open()
  const { id } = await sandboxes.start(ann)
  const row = await sandboxes.waitSettled(id, soon())
  expect(row.status).toBe('ERROR')
  expect(row.detail).toContain('SLIPWAY_STALL_SECONDS')
  await sandboxes[Symbol.asyncDispose]()
}, 120_000)
