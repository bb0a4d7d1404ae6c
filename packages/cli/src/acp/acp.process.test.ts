import { type ForkSessionResponse, methods, RequestError } from '@agentclientprotocol/sdk/unstable'
import { readPendingActions } from '@slipway/client'
import { expect, test } from 'vitest'
import { cancelled, end, openEditors, session } from './testing/editor-fixture.ts'

const fixture = await openEditors()

test('a prompt is answered by streamed text and the end of its turn', async () => {
  const { editor, sessionId, modes, configOptions } = await fixture.openSession()
  expect(modes?.currentModeId).toBe('risky')
  // What is about a session comes after its id.
  expect(editor.updates).toEqual([])
  expect(configOptions).toMatchObject([{ category: 'mode' }, { category: 'model' }])
  expect(await editor.prompt(sessionId, 'hello')).toEqual(end)
  expect(editor.text()).toMatch(/^I heard \d+ characters\.\s*$/)
  expect(editor.of('agent_message_chunk').length).toBeGreaterThan(1)
  expect(editor.text('user_message_chunk')).toBe('')
  expect(editor.of('available_commands_update')[0]?.availableCommands.map(({ name }) => name)).toContain(
    'compact',
  )
  await editor.prompt(sessionId, '/title Of an editor')
  await editor.until(() => editor.of('session_info_update').some(({ title }) => title === 'Of an editor'))
  editor.clear()
  await editor.prompt(sessionId, 'a plan')
  expect(editor.of('plan')[0]?.entries.map(({ status }) => status)).toEqual(['completed', 'in_progress'])
})

test('what waits is asked about: once, always, and refused', async () => {
  const { editor, sessionId } = await fixture.openSession()
  expect(await editor.prompt(sessionId, 'danger')).toEqual(end)
  expect(editor.questions).toMatchObject([
    { toolCall: { title: 'rm -rf ./old', kind: 'execute', status: 'pending' } },
  ])
  expect(editor.of('tool_call_update').map(({ status }) => status)).toEqual(['in_progress', 'completed'])
  editor.answer = 'reject_once'
  editor.clear()
  expect(await editor.prompt(sessionId, 'an edit')).toEqual(end)
  const diff = {
    type: 'diff',
    path: '/tmp/none/of.txt',
    oldText: 'one\ntwo\nthree\n',
    newText: 'one\n2\nthree\n',
  }
  expect(editor.questions).toMatchObject([{ toolCall: { kind: 'edit', content: [diff] } }])
  expect(editor.of('tool_call_update')).toMatchObject([{ status: 'failed' }])
  expect(editor.text()).toContain('All of it is done.')
  editor.answer = 'allow_always'
  editor.clear()
  await editor.prompt(sessionId, 'danger')
  await editor.prompt(sessionId, 'danger')
  expect(editor.questions).toHaveLength(1)
  // A client that has no answer: nothing is done.
  editor.answer = 'cancelled'
  editor.clear()
  expect(await editor.prompt(sessionId, 'nasty')).toEqual(cancelled)
  expect(JSON.stringify(editor.questions)).toContain('\\\\u{202e}')
  expect(editor.of('tool_call_update')).toMatchObject([{ status: 'failed' }])
})

test('another screen answers first: the question is withdrawn and the turn continues', async () => {
  const { editor, sessionId } = await fixture.openSession()
  editor.answer = 'silence'
  const turn = editor.prompt(sessionId, 'danger')
  await editor.until(() => editor.questions.length > 0)
  const client = await fixture.screen()
  const { digest } = await readPendingActions(client, sessionId)
  const params = { conversation_id: sessionId }
  await client.call('respondToConfirmation', { params, body: { accept: true, actions_digest: digest } })
  expect(await turn).toEqual(end)
  await editor.until(() => editor.withdrawn === 1)
})

test('a cancellation ends a prompt in each of its states', async () => {
  const { editor, sessionId } = await fixture.openSession()
  await editor.cancel(sessionId)
  await editor.cancel('no-session')
  const params = { conversation_id: sessionId }
  expect((await (await fixture.screen()).call('getConversation', { params })).execution_status).toBe('idle')
  // Before its message is stored.
  const early = editor.prompt(sessionId, 'slow and early')
  await editor.cancel(sessionId)
  expect(await early).toEqual(cancelled)
  const running = editor.prompt(sessionId, 'slow')
  await editor.until(() => editor.text().includes('word word'))
  await editor.cancel(sessionId)
  expect(await running).toEqual(cancelled)
  editor.answer = 'silence'
  const waiting = editor.prompt(sessionId, 'danger')
  await editor.until(() => editor.questions.length > 0)
  await editor.cancel(sessionId)
  expect(await waiting).toEqual(cancelled)
  await editor.until(() => editor.withdrawn === 1)
  expect(editor.of('tool_call_update').at(-1)).toMatchObject({ status: 'failed' })
  expect(await editor.prompt(sessionId, 'hello')).toEqual(end)
})

test('sessions are listed, loaded, resumed, forked, closed and deleted', async () => {
  const { editor, sessionId } = await fixture.openSession()
  await editor.prompt(sessionId, [
    { type: 'text', text: 'Look: ' },
    { type: 'image', mimeType: 'image/png', data: picture },
    { type: 'resource_link', name: 'note.txt', uri: `file://${fixture.project}/note.txt` },
    { type: 'resource', resource: { uri: 'file:///a.txt', text: 'from the note' } },
  ])
  expect(editor.text()).toContain('I read the note.')
  const other = await fixture.open()
  const { sessions } = await other.agent.request(session.list, { cwd: fixture.project })
  expect(sessions.map((one) => one.sessionId)).toContain(sessionId)
  expect((await other.agent.request(session.list, { cwd: '/nowhere' })).sessions).toEqual([])
  const place = { sessionId, cwd: fixture.project, mcpServers: [] }
  await other.agent.request(session.load, place)
  expect(other.text('user_message_chunk')).toContain('Look: [image]')
  expect(other.text()).toContain('I read the note.')
  other.clear()
  await other.agent.request(session.resume, place)
  expect(other.text()).toBe('')
  const fork: ForkSessionResponse = await other.agent.request(session.fork, place)
  expect(fork.sessionId).not.toBe(sessionId)
  expect(await other.prompt(fork.sessionId, 'hello')).toEqual(end)
  await other.agent.request(session.close, { sessionId })
  await expect(other.prompt(sessionId, 'hello')).rejects.toMatchObject({ code: -32002 })
  await other.agent.request(session.delete, { sessionId: fork.sessionId })
  await expect(
    other.agent.request(session.load, { ...place, sessionId: fork.sessionId }),
  ).rejects.toMatchObject({
    code: -32002,
    data: { sessionId: fork.sessionId },
  })
  for (const unknown of ['', 'x', crypto.randomUUID()])
    await expect(other.agent.request(session.load, { ...place, sessionId: unknown })).rejects.toBeInstanceOf(
      RequestError,
    )
})

test('modes and models are set by the editor and by other screens', async () => {
  const { editor, sessionId } = await fixture.openSession()
  await editor.agent.request(session.setMode, { sessionId, modeId: 'never' })
  await editor.until(() =>
    editor.of('current_mode_update').some(({ currentModeId }) => currentModeId === 'never'),
  )
  await editor.prompt(sessionId, 'danger')
  expect(editor.questions).toEqual([])
  await expect(editor.agent.request(session.setMode, { sessionId, modeId: 'yolo' })).rejects.toThrow(
    'no mode yolo',
  )
  const client = await fixture.screen()
  const llm = { model: 'openai-compatible/near', base_url: fixture.user.modelUrl }
  await client.call('saveProfile', { params: { name: 'near' }, body: { llm } })
  const set = (configId: string, value: string) =>
    editor.agent.request(session.setConfigOption, { sessionId, configId, value })
  const { configOptions } = await set('model', 'near')
  expect(configOptions).toMatchObject([{ currentValue: 'never' }, { currentValue: 'near' }])
  await expect(set('model', 'far away')).rejects.toBeInstanceOf(RequestError)
  await expect(set('colour', 'red')).rejects.toThrow('no option colour')
  expect((await set('mode', 'plan')).configOptions).toMatchObject([{ currentValue: 'plan' }, {}])
  editor.clear()
  const params = { conversation_id: sessionId }
  await client.call('patchConversation', { params, body: { plan_mode: false } })
  await client.call('setConfirmationPolicy', { params, body: { policy: { kind: 'AlwaysConfirm' } } })
  await editor.until(() =>
    editor.of('current_mode_update').some(({ currentModeId }) => currentModeId === 'always'),
  )
})

test('MCP servers of the editor are those of the conversation', async () => {
  const editor = await fixture.open()
  const { sessionId } = await editor.newSession(fixture.project, [
    { name: 'local', command: 'true', args: ['x'], env: [{ name: 'A', value: 'b' }] },
    { type: 'http', name: 'far', url: 'http://127.0.0.1:9/mcp', headers: [] },
  ])
  const params = { conversation_id: sessionId }
  const { agent } = await (await fixture.screen()).call('getConversation', { params })
  expect(agent.mcp_config).toMatchObject({
    local: { command: 'true', args: ['x'] },
    far: { transport: 'http' },
  })
})

test('without a model the next step is said, by an error that asks for a sign-in', async () => {
  const editor = await fixture.open({})
  await expect(editor.newSession(fixture.project)).rejects.toMatchObject({
    code: -32000,
    message: expect.stringContaining('slipway acp --setup'),
  })
  const { authMethods } = await editor.initialize({ auth: { terminal: true } })
  expect(authMethods).toMatchObject([{ type: 'terminal', args: ['--setup'] }])
  await expect(editor.agent.request(methods.agent.authenticate, { methodId: 'setup' })).rejects.toMatchObject(
    {
      code: -32000,
    },
  )
})

test('a failure of the model is the error of the prompt', async () => {
  const editor = await fixture.open({ ...fixture.user.modelEnv, LLM_MODEL: 'openai-compatible/status-400' })
  const { sessionId } = await editor.newSession(fixture.project)
  await expect(editor.prompt(sessionId, 'hello')).rejects.toThrow('Busy with 400')
  expect(editor.text()).toBe('')
})

/** One pixel. */
const picture =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
