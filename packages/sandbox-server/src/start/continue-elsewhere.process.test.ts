import { CallError } from '@slipway/client'
import { must } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { parseUuid } from '../conversations/records/conversation-ids.ts'
import { openTestServer } from '../testing/test-server.ts'

const slow = { timeout: 240_000 }
const text = (words: string) => ({ content: [{ type: 'text', text: words }] })

/** A conversation with a finished run whose sandbox is gone. */
async function openLeft() {
  const stage = await openTestServer()
  stage.accounts.script = [{ text: 'Answer one.' }, { text: 'Answer two.' }, { text: 'Answer three.' }]
  const task = await stage.start({ initial_message: text('First question.'), title: 'Mine' })
  const id = String(task.app_conversation_id)
  const exported = async () => await (await stage.open('GET', `/conversation/${id}/events/export`)).text()
  const arrived = (words: string) => stage.until(exported, (log) => log.includes(words))
  const agentLog = async (sandbox: string) => {
    const { url, key } = stage.sandboxes.getSandbox(sandbox)
    const answer = await fetch(`${url}/api/conversations/${id}/export`, {
      headers: { 'x-session-api-key': key },
    })
    return await answer.text()
  }
  await arrived('Answer one.')
  await stage.until(
    async () => (await exported()) === (await agentLog('sb-1')),
    (isSame) => isSame,
  )
  const before = await exported()
  await stage.sandboxes.remove(stage.sandboxes.getSandbox('sb-1').row)
  return { ...stage, id, before, exported, arrived, agentLog }
}

test('a conversation whose sandbox is gone continues in another one with its log', slow, async () => {
  await using stage = await openLeft()
  const { id, before } = stage
  expect(await stage.conversation(id)).toMatchObject({ sandbox_status: 'MISSING' })
  const task = await stage.start({ conversation_id: id, initial_message: text('Second question.') })
  expect(task).toMatchObject({ status: 'READY', sandbox_id: 'sb-2', detail: null })
  const log = await stage.arrived('Answer')
  expect(log.startsWith(before)).toBe(true)
  await stage.until(stage.exported, (all) => all.split('Second question.').length === 2)
  await stage.until(
    async () => (await stage.exported()) === (await stage.agentLog('sb-2')),
    (isSame) => isSame,
  )
  const lines = (await stage.exported()).split('\n').slice(0, -1)
  const ids = lines.map((line) => JSON.parse(line).id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(await stage.conversation(id)).toMatchObject({
    sandbox_id: 'sb-2',
    title: 'Mine',
    sandbox_status: 'RUNNING',
  })
  // A repeat of the start changes nothing.
  await stage.until(
    () => stage.conversation(id),
    ({ execution_status: status }) => status === 'finished' || status === 'idle',
  )
  const again = await stage.start({ conversation_id: id })
  expect(again).toMatchObject({ status: 'READY', sandbox_id: 'sb-2' })
  // A further message continues it.
  expect(
    (await stage.call('POST', `/app-conversations/${id}/send-message`, text('Third question.'))).status,
  ).toBe(200)
  await stage.arrived('Third question.')
  expect(stage.logged.filter((line) => line.includes('"error"'))).toEqual([])
})

test(
  'a start elsewhere that was interrupted after the copy of the log is completed by the next one',
  slow,
  async () => {
    await using stage = await openLeft()
    const { id, before } = stage
    const { id: other } = await stage.sandboxes.start({ owner: 'ada' })
    const row = await stage.sandboxes.waitSettled(other, AbortSignal.timeout(30_000))
    const { url, key } = stage.sandboxes.getSandbox(other)
    // As a server that was killed leaves it.
    await stage.controlPlane.conversations.update(must(parseUuid(id), 'a UUID'), { sandbox: row.id })
    const headers = { 'x-session-api-key': key, 'content-type': 'application/x-ndjson' }
    const body = `${JSON.stringify({ conversation_id: id })}\n${before}`
    expect((await fetch(`${url}/api/conversations/import`, { method: 'POST', headers, body })).status).toBe(
      201,
    )
    const task = await stage.start({ conversation_id: id, initial_message: text('Second question.') })
    expect(task).toMatchObject({ status: 'READY', sandbox_id: other })
    const log = await stage.until(stage.exported, (all) => all.includes('Second question.'))
    expect(log.startsWith(before)).toBe(true)
    expect(log.split('First question.')).toHaveLength(before.split('First question.').length)
  },
)

test(
  'the message of a start elsewhere that failed before it was sent is sent once by the next one',
  slow,
  async () => {
    await using stage = await openLeft()
    const { id, sandboxes } = stage
    const getConnection = sandboxes.getConnection.bind(sandboxes)
    let calls = 0
    sandboxes.getConnection = (row) => {
      const connection = getConnection(row)
      if (connection === undefined) return undefined
      const { client } = connection
      const send = client.call.bind(client) as (...input: unknown[]) => Promise<unknown>
      const call = async (...input: unknown[]) => {
        if (input[0] !== 'sendMessage') return await send(...input)
        calls++
        if (calls === 1) throw new CallError(500, 'Internal Server Error')
        const answer = await send(...input)
        if (calls === 2) throw new CallError(500, 'The answer is lost')
        return answer
      }
      const importEvents = client.importEvents.bind(client)
      return {
        ...connection,
        client: { call, importEvents } as unknown as typeof client,
        secrets: () => connection.secrets(),
      }
    }
    const again = () => stage.start({ conversation_id: id, initial_message: text('Second question.') })
    expect([(await again()).status, (await again()).status]).toEqual(['ERROR', 'ERROR'])
    expect(await again()).toMatchObject({ status: 'READY', sandbox_id: 'sb-2' })
    await stage.until(stage.exported, (all) => all.includes('Answer two.'))
    // As before, a start of a conversation that runs sends nothing.
    expect((await again()).status).toBe('READY')
    expect(calls).toBe(3)
    expect((await stage.exported()).split('Second question.')).toHaveLength(2)
  },
)
