import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'

const slow = { timeout: 240_000 }
const text = (words: string) => ({ content: [{ type: 'text', text: words }] })

async function openFinished() {
  const stage = await openTestServer()
  stage.accounts.script = [{ text: 'Answer one.' }, { text: 'Answer two.' }, { text: 'Answer three.' }]
  const task = await stage.start({ initial_message: text('First question.'), title: 'Mine' })
  const id = String(task.app_conversation_id)
  const read = async (which: string) =>
    await (await stage.open('GET', `/conversation/${which}/events/export`)).text()
  await stage.until(
    () => stage.conversation(id),
    ({ execution_status: status }) => status === 'finished' || status === 'idle',
  )
  await stage.until(
    () => read(id),
    (log) => log.includes('Answer one.') && log.includes('finished'),
  )
  const fork = async (body: object = {}) => {
    const { status, json } = await stage.call('POST', `/app-conversations/${id}/fork`, body)
    return status === 200 ? await stage.waitFinished(json.id) : { status, json }
  }
  return { ...stage, id, sandbox: String(task.sandbox_id), read, fork }
}

const project = (stage: { sandboxes: { getSandbox(id: string): { directory: string } } }, sandbox: unknown) =>
  join(stage.sandboxes.getSandbox(String(sandbox)).directory, 'project')

test('a fork has the files and the log of the first conversation, and both continue', slow, async () => {
  await using stage = await openFinished()
  const { id, sandbox, read } = stage
  writeFileSync(join(project(stage, sandbox), 'untracked'), 'work')
  const before = await read(id)
  const task = await stage.fork()
  expect(task).toMatchObject({ status: 'READY', detail: null, request: { forked_from_conversation_id: id } })
  const { app_conversation_id: forkId, sandbox_id } = task as {
    app_conversation_id: string
    sandbox_id: string
  }
  expect(sandbox_id).not.toBe(sandbox)
  expect(readFileSync(join(project(stage, sandbox_id), 'untracked'), 'utf8')).toBe('work')
  const log = await stage.until(
    () => read(forkId),
    (lines) => lines.includes('forked_from'),
  )
  expect(log.startsWith(before)).toBe(true)
  const lastOf = (lines: string) => JSON.parse(lines.trim().split('\n').at(-1) ?? '')
  const own = log
    .slice(before.length)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(own[0]).toMatchObject({
    kind: 'ConversationStateUpdateEvent',
    source: 'environment',
    key: 'forked_from',
    value: { conversation_id: id, event_id: lastOf(before).id },
  })
  expect(await stage.conversation(forkId)).toMatchObject({
    title: 'Mine',
    sandbox_id,
    sandbox_status: 'RUNNING',
  })
  for (const each of [id, forkId])
    expect(
      (await stage.call('POST', `/app-conversations/${each}/send-message`, text(`To ${each}.`))).status,
    ).toBe(200)
  for (const each of [id, forkId])
    await stage.until(
      () => read(each),
      (lines) => lines.includes('Answer two.') && lines.includes(`To ${each}.`),
    )
  expect(await read(id)).not.toContain('forked_from')
  expect(await stage.quota.used).toBe(2)
  expect(stage.logged.filter((line) => line.includes('"error"'))).toEqual([])
})

test('the first sandbox is in use before room is made for that of the fork', slow, async () => {
  await using stage = await openFinished()
  const { sandbox, sandboxes } = stage
  const start = sandboxes.start.bind(sandboxes)
  sandboxes.touched.length = 0
  sandboxes.start = async (...input) => {
    // `pause_idle` pauses those that were not used for long.
    if (!sandboxes.touched.includes(sandbox)) throw new Error('the first one was paused')
    return await start(...input)
  }
  expect(await stage.fork()).toMatchObject({ status: 'READY', detail: null })
})

test('events that are younger than the files are not in the fork', slow, async () => {
  await using stage = await openFinished()
  const { id, sandboxes, read } = stage
  const before = await read(id)
  const copyFiles = sandboxes.copyFiles.bind(sandboxes)
  sandboxes.copyFiles = async (...input) => {
    const copied = await copyFiles(...input)
    await stage.call('POST', `/app-conversations/${id}/send-message`, text('Too late.'))
    return copied
  }
  const task = await stage.fork({ title: 'Other', id: 'a0a0a0a0-0000-4000-8000-000000000001' })
  expect(task).toMatchObject({ status: 'READY', app_conversation_id: 'a0a0a0a0000040008000000000000001' })
  const log = await stage.until(
    () => read('a0a0a0a0000040008000000000000001'),
    (lines) => lines.includes('forked_from'),
  )
  expect(log.startsWith(before)).toBe(true)
  expect(log).not.toContain('Too late.')
  expect(await stage.fork({ id: 'a0a0a0a0-0000-4000-8000-000000000001' })).toMatchObject({ status: 409 })
})

test('a fork that fails or is interrupted at any step leaves nothing', slow, async () => {
  await using stage = await openFinished()
  const { id, sandboxes, starter, read } = stage
  const before = await read(id)
  const expectNothing = async (task: unknown, detail: RegExp) => {
    expect(task).toMatchObject({ status: 'ERROR', detail: expect.stringMatching(detail) })
    const { sandbox_id, app_conversation_id } = task as { sandbox_id: string; app_conversation_id: string }
    expect(sandboxes.entries.has(sandbox_id)).toBe(false)
    expect(await stage.conversation(app_conversation_id)).toBeNull()
    expect((await stage.call('GET', '/app-conversations/search')).json.items).toHaveLength(1)
    expect(await read(app_conversation_id)).toBe('')
    expect(await stage.quota.used).toBe(1)
  }
  const copyFiles = sandboxes.copyFiles.bind(sandboxes)
  sandboxes.copyFiles = async () => {
    throw new Error('an odd failure')
  }
  await expectNothing(await stage.fork(), /^Internal error/)
  sandboxes.copyFiles = copyFiles

  const getConnection = sandboxes.getConnection.bind(sandboxes)
  sandboxes.getConnection = (row) => {
    const connection = getConnection(row)
    if (connection === undefined) return undefined
    const { client } = connection
    const call = async (...input: unknown[]) => {
      if (input[0] === 'createConversation') throw new TypeError('fetch failed')
      return await (client.call.bind(client) as (...input: unknown[]) => Promise<unknown>)(...input)
    }
    const importEvents = client.importEvents.bind(client)
    const exportEvents = client.exportEvents.bind(client)
    return {
      ...connection,
      client: { call, importEvents, exportEvents } as unknown as typeof client,
      secrets: () => [],
    }
  }
  await expectNothing(await stage.fork(), /cannot be reached/)
  sandboxes.getConnection = getConnection

  // As a server that was stopped while files were copied.
  const reached = Promise.withResolvers<void>()
  sandboxes.copyFiles = async (_from, _to, signal) => {
    reached.resolve()
    return await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  }
  const { json } = await stage.call('POST', `/app-conversations/${id}/fork`, {})
  await reached.promise
  await starter[Symbol.asyncDispose]()
  await expectNothing(await stage.task(json.id), /Nothing of it is left/)
  expect(await read(id)).toBe(before)
})

test(
  'a fork of a conversation whose sandbox does not run, or of another owner, is refused',
  slow,
  async () => {
    await using stage = await openFinished()
    const { id, sandbox, sandboxes } = stage
    expect((await stage.call('POST', `/app-conversations/${id}/fork`, {}, { 'x-user': 'bob' })).status).toBe(
      404,
    )
    expect(await stage.fork({ id: 'no' })).toMatchObject({ status: 422 })
    await sandboxes.pause(sandboxes.getSandbox(sandbox).row)
    expect(await stage.fork()).toMatchObject({
      status: 409,
      json: { detail: expect.stringContaining('resume') },
    })
    await sandboxes.remove(sandboxes.getSandbox(sandbox).row)
    expect(await stage.fork()).toMatchObject({ status: 410 })
  },
)
