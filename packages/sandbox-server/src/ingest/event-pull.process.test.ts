import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'

const slow = { timeout: 240_000 }
const message = (text: string) => ({ content: [{ type: 'text', text }] })

/** A conversation whose agent server has no way to this server, or a way that `isReached` opens. */
async function openUnreached(isReached: boolean) {
  const stage = await openTestServer()
  const { controlPlaneUrl } = stage.sandboxes
  if (!isReached) stage.sandboxes.controlPlaneUrl = 'http://127.0.0.1:9'
  stage.accounts.script = Array.from({ length: 30 }, (_, n) => ({ text: `Answer ${n}.` }))
  const task = await stage.start({ initial_message: message('Question 0.') })
  const id = String(task.app_conversation_id)
  const { url, key } = stage.sandboxes.getSandbox('sb-1')
  const headers = { 'x-session-api-key': key, 'content-type': 'application/json' }
  return {
    ...stage,
    id,
    controlPlaneUrl,
    ours: async () => await (await stage.open('GET', `/conversation/${id}/events/export`)).text(),
    theirs: async () => await (await fetch(`${url}/api/conversations/${id}/export`, { headers })).text(),
    send: async (text: string) => {
      const body = JSON.stringify({ role: 'user', run: true, ...message(text) })
      const sent = await fetch(`${url}/api/conversations/${id}/events`, { method: 'POST', headers, body })
      expect(sent.status).toBe(200)
    },
    async waitFor(answer: string): Promise<void> {
      await stage.until(this.theirs, (log) => log.includes(answer))
      await stage.until(this.ours, (log) => log.includes(answer))
    },
  }
}

test('events of a sandbox without a way here arrive, each once and in order', slow, async () => {
  await using stage = await openUnreached(false)
  {
    await using _pull = stage.pull(false)
    await stage.waitFor('Answer 0.')
    expect(await stage.conversation(stage.id)).toMatchObject({ sandbox_id: 'sb-1' })
    await stage.send('Question 1.')
    await stage.waitFor('Answer 1.')
  }
  // A server that ends and starts again continues where the log ends.
  await stage.send('Question 2.')
  await stage.until(stage.theirs, (log) => log.includes('Answer 2.'))
  await using _again = stage.pull(false)
  await using _other = stage.pull(false)
  await stage.waitFor('Answer 2.')
  await stage.until(
    async () => (await stage.ours()) === (await stage.theirs()),
    (isSame) => isSame,
  )
  expect(stage.logged.filter((line) => line.includes('"error"'))).toEqual([])
})

test(
  'what webhooks should have brought is fetched, and beside webhooks nothing comes twice',
  slow,
  async () => {
    await using stage = await openUnreached(false)
    await using _pull = stage.pull(true)
    await stage.waitFor('Answer 0.')
    await using reached = await openUnreached(true)
    await using _beside = reached.pull(false)
    for (let n = 1; n < 4; n++) {
      await reached.send(`Question ${n}.`)
      await reached.waitFor(`Answer ${n}.`)
    }
    await reached.until(
      async () => (await reached.ours()) === (await reached.theirs()),
      (isSame) => isSame,
    )
  },
)
