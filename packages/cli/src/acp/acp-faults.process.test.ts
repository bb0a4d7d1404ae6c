import { once } from 'node:events'
import { RequestError } from '@agentclientprotocol/sdk/unstable'
import { expect, test } from 'vitest'
import { cancelled, end, openEditors, session } from './testing/editor-fixture.ts'

const fixture = await openEditors()

test('two prompts at once end, and a second editor sees both and may prompt', async () => {
  const { editor, sessionId } = await fixture.openSession()
  const other = await fixture.open()
  await other.agent.request(session.load, { sessionId, cwd: fixture.project, mcpServers: [] })
  const turns = [editor.prompt(sessionId, 'brief one'), editor.prompt(sessionId, 'brief two')]
  expect(await Promise.all(turns)).toEqual([end, end])
  await other.until(() => /brief one.*brief two|brief two.*brief one/s.test(other.text('user_message_chunk')))
  expect(other.text()).toContain('word word')
  editor.clear()
  expect(await other.prompt(sessionId, 'hello from the other')).toEqual(end)
  await editor.until(() => editor.text().includes('I heard'))
  expect(editor.text('user_message_chunk')).toBe('hello from the other')
})

test('what is wrong is refused, and the next request is answered', async () => {
  const { editor, sessionId } = await fixture.openSession()
  editor.process.stdin.write(
    'no json\n[]\n{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0","id":9,"method":"session/none"}\n7\n',
  )
  await expect(editor.newSession('not/absolute')).rejects.toThrow('absolute')
  await expect(editor.prompt(sessionId, [])).rejects.toThrow('empty')
  const huge = { type: 'image' as const, mimeType: 'image/png', data: 'A'.repeat(40_000_000) }
  await expect(editor.prompt(sessionId, [huge])).rejects.toBeInstanceOf(RequestError)
  expect(await editor.prompt(sessionId, 'status')).toEqual(end)
})

test('an editor that quits in the middle of a prompt leaves the run, and no process', async () => {
  const { editor, sessionId } = await fixture.openSession()
  editor.prompt(sessionId, 'brief').catch(() => {})
  await editor.until(() => editor.text().includes('word word'))
  expect(await editor.quit()).toBe(0)
  const other = await fixture.open()
  await other.agent.request(session.resume, { sessionId, cwd: fixture.project })
  await other.until(() => /word/.test(other.text()))
})

test('a server that is killed in the middle of a prompt is started again, and the prompt ends', async () => {
  const { editor, sessionId } = await fixture.openSession()
  const turn = editor.prompt(sessionId, 'brief')
  await editor.until(() => editor.text().includes('word word'))
  process.kill(await fixture.user.serverPid(), 'SIGKILL')
  expect(await turn).toEqual(end)
  // Also one that dies while a prompt is cancelled.
  editor.answer = 'silence'
  const waiting = editor.prompt(sessionId, 'danger')
  await editor.until(() => editor.questions.length > 0)
  process.kill(await fixture.user.serverPid(), 'SIGKILL')
  await editor.cancel(sessionId)
  expect(await waiting).toEqual(cancelled)
  editor.answer = 'allow_once'
  expect(await editor.prompt(sessionId, 'hello')).toEqual(end)
})

test('a conversation of 10,000 events is loaded', async () => {
  const { editor } = await fixture.openSession()
  const message = (n: number) => ({
    ...{ id: `e${n}`, kind: 'MessageEvent', timestamp: new Date(1.7e12 + n).toISOString().slice(0, -1) },
    ...(n % 2 === 0 ? { source: 'user' } : { source: 'agent' }),
    llm_message: {
      role: n % 2 === 0 ? 'user' : 'assistant',
      content: [{ type: 'text', text: `message ${n}` }],
    },
  })
  const lines = Array.from({ length: 10_000 }, (_, n) => JSON.stringify(message(n))).join('\n')
  const { conversation_id: sessionId } = await (await fixture.screen()).importEvents(new Blob([lines]))
  await editor.agent.request(session.load, { sessionId, cwd: fixture.project, mcpServers: [] })
  expect(editor.of('user_message_chunk')).toHaveLength(5_000)
  expect(editor.text()).toContain('message 9999')
})

test('the end of the program by a signal is quick', async () => {
  const { editor, sessionId } = await fixture.openSession()
  editor.prompt(sessionId, 'slow').catch(() => {})
  await editor.until(() => editor.text().includes('word'))
  editor.process.kill('SIGTERM')
  await once(editor.process, 'exit')
})
