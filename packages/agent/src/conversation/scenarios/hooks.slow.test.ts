import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, contentText, FakeModel, waitUntil } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const agent = { tools: [{ name: 'terminal' }] }

/** Hooks that are one command each. */
function hooks(commands: Readonly<Record<string, string>>, matcher = '*') {
  return Object.fromEntries(
    Object.entries(commands).map(([event, command]) => [event, [{ matcher, hooks: [{ command }] }]]),
  )
}

test('a hook before a tool rejects its action with a reason that the model reads, and the rest of the batch is done', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['terminal', { command: 'touch x' }],
        ['think', { thought: 'on' }],
      ],
    },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent,
    request: { hook_config: hooks({ pre_tool_use: 'echo "not today" >&2; exit 2' }, 'terminal') },
  })
  await life.sendAndWait('go')
  const [action] = await life.eventsOfKind('ActionEvent')
  expect(await life.eventsOfKind('UserRejectObservation')).toMatchObject([
    { action_id: action?.id, rejection_source: 'hook', rejection_reason: 'not today', source: 'environment' },
  ])
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
  expect((await life.eventsOfKind('ObservationEvent')).map(({ tool_name }) => tool_name)).toEqual(['think'])
  expect(JSON.stringify(player.requests[1]?.messages)).toContain('not today')
  expect(life.status).toBe('finished')
})

test('hooks around a tool get the call and its result', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'echo hello' }]] }])
  const life = await fixtures.create({
    model: player.open,
    agent,
    request: { hook_config: hooks({ pre_tool_use: 'cat > before', post_tool_use: 'cat > after; exit 2' }) },
  })
  await life.sendAndWait('go')
  const told = async (file: string) => JSON.parse(await readFile(join(life.workspace, file), 'utf8'))
  expect(await told('before')).toMatchObject({
    event_type: 'PreToolUse',
    tool_name: 'terminal',
    tool_input: { command: 'echo hello' },
    session_id: life.id,
  })
  const after = await told('after')
  expect(after).toMatchObject({ event_type: 'PostToolUse', tool_name: 'terminal' })
  expect(contentText(after.tool_response.content)).toContain('hello')
  // What is done cannot be blocked.
  expect((await life.eventsOfKind('ObservationEvent'))[0]?.observation.is_error).toBe(false)
  expect(life.status).toBe('finished')
})

test('a hook on a message can block it: it is stored, and the run is over without a question to the model', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({
    model: player.open,
    request: {
      hook_config: hooks({
        user_prompt_submit: 'grep -q forbidden && { echo "mind your words" >&2; exit 2; }; exit 0',
      }),
    },
  })
  const id = randomUUID()
  await life.send('something forbidden', { id, run: true })
  await life.conversation.waitUntilIdle()
  expect(player.requests).toEqual([])
  expect(await life.eventSummary()).toEqual([
    'SystemPromptEvent',
    'hook_execution',
    'MessageEvent user',
    'blocked_messages',
    'execution_status: running',
    'execution_status: finished',
  ])
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.find(({ key }) => key === 'blocked_messages')?.value).toEqual({ [id]: 'mind your words' })
  await life.sendAndWait('something else')
  expect(player.requests).toHaveLength(1)
  expect(life.conversation.state.blockedMessages.size).toBe(0)
})

test('a message that is blocked while a tool runs ends the run after that tool', async () => {
  const player = new FakeModel([
    { calls: [['terminal', { command: 'until [ -e go ]; do sleep 0.05; done' }]] },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent,
    request: { hook_config: hooks({ user_prompt_submit: 'grep -q forbidden && exit 2; exit 0' }) },
  })
  await life.send('go', { run: true })
  await waitUntil(async () => (await life.eventsOfKind('ActionEvent')).length === 1)
  await life.send('forbidden', { run: true })
  await writeFile(join(life.workspace, 'go'), '')
  await life.conversation.waitUntilIdle()
  expect(await life.eventsOfKind('ObservationEvent')).toHaveLength(1)
  expect(player.requests).toHaveLength(1)
  expect(life.status).toBe('finished')
})

test('what a hook adds to a message comes with it', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({
    model: player.open,
    request: { hook_config: hooks({ user_prompt_submit: `echo '{"additionalContext": "It is Friday."}'` }) },
  })
  await life.sendAndWait('hello')
  const [message] = await life.eventsOfKind('MessageEvent')
  expect(message?.extended_content?.map(({ text }) => text)).toEqual(['It is Friday.'])
  expect(contentText(player.requests[0]?.messages.at(-1)?.content)).toBe('hello\nIt is Friday.')
})

test('hooks do not see a message with a repeated id again', async () => {
  const life = await fixtures.create({
    request: { hook_config: hooks({ user_prompt_submit: 'echo x >> count' }) },
  })
  const id = randomUUID()
  await life.send('once', { id })
  await life.send('once', { id })
  expect(await readFile(join(life.workspace, 'count'), 'utf8')).toBe('x\n')
})

test('a hook on the end sends the agent on with its feedback, until it is content', async () => {
  const player = new FakeModel([{ text: 'Done.' }, { text: 'Now done.' }])
  const life = await fixtures.create({
    model: player.open,
    request: {
      hook_config: hooks({ stop: '[ -e told ] || { touch told; echo "run the tests" >&2; exit 2; }' }),
    },
  })
  await life.sendAndWait('go')
  const said = (await life.eventsOfKind('MessageEvent')).map(({ source, llm_message }) => [
    source,
    contentText(llm_message.content),
  ])
  expect(said).toEqual([
    ['user', 'go'],
    ['agent', 'Done.'],
    ['environment', '[Stop hook feedback] run the tests'],
    ['agent', 'Now done.'],
  ])
  expect(life.status).toBe('finished')
  expect((await life.eventSummary()).filter((line) => line.includes('finished'))).toHaveLength(1)
})

test('a hook on the end that is never content ends in a loop that is noticed', async () => {
  const player = new FakeModel(Array.from({ length: 20 }, () => ({ text: 'Done.' })))
  const life = await fixtures.create({
    model: player.open,
    request: { hook_config: hooks({ stop: 'exit 2' }) },
  })
  await life.sendAndWait('go')
  expect(life.status).toBe('stuck')
  expect(player.requests).toHaveLength(3)
})

test('a hook that ends the run pauses it: before a tool without executing it, after a tool with its result stored', async () => {
  const stop = `echo '{"continue": false, "reason": "enough"}'`
  for (const event of ['pre_tool_use', 'post_tool_use']) {
    const player = new FakeModel([
      {
        calls: [
          ['terminal', { command: 'touch x' }],
          ['terminal', { command: 'touch y' }],
        ],
      },
    ])
    const life = await fixtures.create({
      model: player.open,
      agent,
      request: { hook_config: hooks({ [event]: stop }) },
    })
    await life.sendAndWait('go')
    expect(life.status).toBe('paused')
    expect(existsSync(join(life.workspace, 'x'))).toBe(event === 'post_tool_use')
    expect(existsSync(join(life.workspace, 'y'))).toBe(false)
    expect(await life.eventsOfKind('UserRejectObservation')).toHaveLength(event === 'pre_tool_use' ? 1 : 0)
    expect(life.conversation.state.pending.size).toBe(1)
    expect(player.requests).toHaveLength(1)
  }
})

test('the hooks on a session are run once when it begins and once when it ends', async () => {
  const life = await fixtures.create({
    request: {
      hook_config: hooks({ session_start: 'echo start >> session', session_end: 'echo end >> session' }),
    },
  })
  const session = async () => await readFile(join(life.workspace, 'session'), 'utf8').catch(() => '')
  expect(await session()).toBe('')
  await life.sendAndWait('one')
  await life.sendAndWait('two')
  expect(await session()).toBe('start\n')
  await life.conversation.close()
  expect(await session()).toBe('start\nend\n')
})

test('a session_end hook that hangs does not prevent closing', async () => {
  const life = await fixtures.create({
    request: { hook_config: hooks({ session_end: 'echo $$ > pid; exec sleep 60' }) },
  })
  await life.sendAndWait('go')
  await life.conversation.close()
  const pid = Number(await readFile(join(life.workspace, 'pid'), 'utf8'))
  await waitUntil(() => {
    try {
      process.kill(pid, 0)
      return false
    } catch {
      return true
    }
  })
  expect((await fixtures.storage.conversations.getSealedState(life.id))?.snapshot?.position).toBe(
    life.conversation.state.position,
  )
})

test('a failed hook blocks nothing and is logged without secrets', async () => {
  const life = await fixtures.create({
    request: {
      hook_config: hooks({ user_prompt_submit: 'echo "bad hunter22" >&2; exit 7' }),
      secrets: { PASSWORD: 'hunter22' },
    },
  })
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
  const line = life.logLines.find((one) => one.includes('a hook failed'))
  expect(line).toContain('exit code 7')
  expect(line).not.toContain('hunter22')
})

test('a broken hook with on_error: block stops the tool, and its event has the end of its error output without secrets', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'touch x' }]] }])
  const command = 'head -c 60000 /dev/zero | tr "\\0" x >&2; echo " the end hunter22" >&2; exit 126'
  const life = await fixtures.create({
    model: player.open,
    agent,
    request: {
      hook_config: { pre_tool_use: [{ hooks: [{ name: 'guard', command, on_error: 'block' }] }] },
      secrets: { PASSWORD: 'hunter22' },
    },
  })
  await life.sendAndWait('go')
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
  const [rejection] = await life.eventsOfKind('UserRejectObservation')
  expect(rejection).toMatchObject({ rejection_source: 'hook' })
  expect(rejection?.rejection_reason).toMatch(/^The PreToolUse hook "guard" ended with exit code 126: x+/)
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  const value = Object(updates.find(({ key }) => key === 'hook_execution')?.value)
  expect(value).toMatchObject({ exit_code: 126, success: false, blocked: true })
  expect(value.stderr).toMatch(/x the end <secret-hidden>\n$/)
  expect(value.stderr.length).toBeLessThanOrEqual(2_000)
})

test('hooks of the project are found in its directory when the request has none', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })

  await mkdir(join(life.workspace, '.openhands'))
  await writeFile(
    join(life.workspace, '.openhands', 'hooks.json'),
    JSON.stringify({ UserPromptSubmit: [{ hooks: [{ command: 'exit 2' }] }] }),
  )
  await life.sendAndWait('go')
  expect(player.requests).toEqual([])
})

test('a prompt hook is a request to the model', async () => {
  const player = new FakeModel([], { sides: [{ text: '{"decision": "deny", "reason": "off topic"}' }] })
  const life = await fixtures.create({
    model: player.open,
    request: {
      hook_config: {
        user_prompt_submit: [{ hooks: [{ type: 'prompt', prompt: 'Is it about ships?', name: 'ships' }] }],
      },
    },
  })
  await life.sendAndWait('about cats')
  expect(player.requests).toEqual([])
  expect(player.sideRequests).toHaveLength(1)
  expect(contentText(player.sideRequests[0]?.messages.at(-1)?.content)).toContain('Is it about ships?')
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  const blocked = updates.find(({ key }) => key === 'blocked_messages')
  expect(Object.values(blocked?.value ?? {})).toEqual(['off topic'])
})

test('every hook that runs is told to clients of every version, without secrets', async () => {
  const life = await fixtures.create({
    model: new FakeModel().open,
    request: {
      secrets: { TOKEN: { kind: 'StaticSecret', value: 'a-secret-of-this-test' } },
      hook_config: hooks({
        session_start: 'echo a-secret-of-this-test >&2; exit 3',
        // The limit of the text cuts the secret.
        user_prompt_submit: 'printf a-secret-of-this-test%0990d 0 >&2; exit 1',
        stop: 'true',
      }),
    },
  })
  await life.sendAndWait('Hello')
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  const executions = updates.filter(({ key }) => key === 'hook_execution').map(({ value }) => value)
  expect(executions).toMatchObject([
    {
      event: 'UserPromptSubmit',
      exit_code: 1,
      error: expect.stringMatching(/^ended with exit code 1: <secret-hidden>0+…$/),
    },
    {
      ...{ event: 'SessionStart', command: 'echo <secret-hidden> >&2; exit 3', exit_code: 3, success: false },
      error: 'ended with exit code 3: <secret-hidden>',
    },
    { event: 'Stop', command: 'true', exit_code: 0, success: true, blocked: false, error: null },
  ])
  expect(JSON.stringify(updates)).not.toContain('-test0')
  expect(executions.every((value) => typeof Object(value).duration_ms === 'number')).toBe(true)
})
