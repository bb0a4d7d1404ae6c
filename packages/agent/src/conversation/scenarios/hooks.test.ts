import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Player, Temporary, textOf, until } from '../testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

const agent = { tools: [{ name: 'terminal' }] }

/** Hooks that are one command each. */
function hooks(commands: Readonly<Record<string, string>>, matcher = '*') {
  return Object.fromEntries(
    Object.entries(commands).map(([event, command]) => [event, [{ matcher, hooks: [{ command }] }]]),
  )
}

test('a hook before a tool rejects its action with a reason that the model reads, and the rest of the batch is done', async () => {
  const player = new Player([
    {
      calls: [
        ['terminal', { command: 'touch x' }],
        ['think', { thought: 'on' }],
      ],
    },
  ])
  const life = await place.begin({
    model: player.open,
    agent,
    request: { hook_config: hooks({ pre_tool_use: 'echo "not today" >&2; exit 2' }, 'terminal') },
  })
  await life.say('go')
  const [action] = await life.all('ActionEvent')
  expect(await life.all('UserRejectObservation')).toMatchObject([
    { action_id: action?.id, rejection_source: 'hook', rejection_reason: 'not today', source: 'environment' },
  ])
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
  expect((await life.all('ObservationEvent')).map(({ tool_name }) => tool_name)).toEqual(['think'])
  expect(JSON.stringify(player.asked[1]?.messages)).toContain('not today')
  expect(life.status).toBe('finished')
})

test('hooks around a tool are told of the call and of its result', async () => {
  const player = new Player([{ calls: [['terminal', { command: 'echo hello' }]] }])
  const life = await place.begin({
    model: player.open,
    agent,
    request: { hook_config: hooks({ pre_tool_use: 'cat > before', post_tool_use: 'cat > after; exit 2' }) },
  })
  await life.say('go')
  const told = async (file: string) => JSON.parse(await readFile(join(life.workspace, file), 'utf8'))
  expect(await told('before')).toMatchObject({
    event_type: 'PreToolUse',
    tool_name: 'terminal',
    tool_input: { command: 'echo hello' },
    session_id: life.id,
  })
  const after = await told('after')
  expect(after).toMatchObject({ event_type: 'PostToolUse', tool_name: 'terminal' })
  expect(textOf(after.tool_response.content)).toContain('hello')
  // What is done cannot be blocked.
  expect((await life.all('ObservationEvent'))[0]?.observation.is_error).toBe(false)
  expect(life.status).toBe('finished')
})

test('a hook on a message can block it: it is stored, and the run is over without a question to the model', async () => {
  const player = new Player()
  const life = await place.begin({
    model: player.open,
    request: {
      hook_config: hooks({
        user_prompt_submit: 'grep -q forbidden && { echo "mind your words" >&2; exit 2; }; exit 0',
      }),
    },
  })
  const id = randomUUID()
  await life.send('something forbidden', { id, run: true })
  await life.conversation.settled()
  expect(player.asked).toEqual([])
  expect(await life.story()).toEqual([
    'SystemPromptEvent',
    'MessageEvent user',
    'blocked_messages',
    'execution_status: running',
    'execution_status: finished',
  ])
  const [update] = await life.all('ConversationStateUpdateEvent')
  expect(update?.value).toEqual({ [id]: 'mind your words' })
  await life.say('something else')
  expect(player.asked).toHaveLength(1)
  expect(life.conversation.state.blocked.size).toBe(0)
})

test('a message that is blocked while a tool runs ends the run after that tool', async () => {
  const player = new Player([{ calls: [['terminal', { command: 'until [ -e go ]; do sleep 0.05; done' }]] }])
  const life = await place.begin({
    model: player.open,
    agent,
    request: { hook_config: hooks({ user_prompt_submit: 'grep -q forbidden && exit 2; exit 0' }) },
  })
  await life.send('go', { run: true })
  await until(async () => (await life.all('ActionEvent')).length === 1)
  await life.send('forbidden', { run: true })
  await writeFile(join(life.workspace, 'go'), '')
  await life.conversation.settled()
  expect(await life.all('ObservationEvent')).toHaveLength(1)
  expect(player.asked).toHaveLength(1)
  expect(life.status).toBe('finished')
})

test('what a hook adds to a message comes with it', async () => {
  const player = new Player()
  const life = await place.begin({
    model: player.open,
    request: { hook_config: hooks({ user_prompt_submit: `echo '{"additionalContext": "It is Friday."}'` }) },
  })
  await life.say('hello')
  const [message] = await life.all('MessageEvent')
  expect(message?.extended_content?.map(({ text }) => text)).toEqual(['It is Friday.'])
  expect(textOf(player.asked[0]?.messages.at(-1)?.content)).toBe('hello\nIt is Friday.')
})

test('a message that repeats an id is not told to the hooks again', async () => {
  const life = await place.begin({
    request: { hook_config: hooks({ user_prompt_submit: 'echo x >> count' }) },
  })
  const id = randomUUID()
  await life.send('once', { id })
  await life.send('once', { id })
  expect(await readFile(join(life.workspace, 'count'), 'utf8')).toBe('x\n')
})

test('a hook on the end sends the agent on with its feedback, until it is content', async () => {
  const player = new Player([{ text: 'Done.' }, { text: 'Now done.' }])
  const life = await place.begin({
    model: player.open,
    request: {
      hook_config: hooks({ stop: '[ -e told ] || { touch told; echo "run the tests" >&2; exit 2; }' }),
    },
  })
  await life.say('go')
  const said = (await life.all('MessageEvent')).map(({ source, llm_message }) => [
    source,
    textOf(llm_message.content),
  ])
  expect(said).toEqual([
    ['user', 'go'],
    ['agent', 'Done.'],
    ['environment', '[Stop hook feedback] run the tests'],
    ['agent', 'Now done.'],
  ])
  expect(life.status).toBe('finished')
  expect((await life.story()).filter((line) => line.includes('finished'))).toHaveLength(1)
})

test('a hook on the end that is never content ends in a loop that is noticed', async () => {
  const player = new Player(Array.from({ length: 20 }, () => ({ text: 'Done.' })))
  const life = await place.begin({
    model: player.open,
    request: { hook_config: hooks({ stop: 'exit 2' }) },
  })
  await life.say('go')
  expect(life.status).toBe('stuck')
  expect(player.asked).toHaveLength(3)
})

test('a hook that says not to continue pauses the run: before a tool it is not done, after one its result is kept', async () => {
  const stop = `echo '{"continue": false, "reason": "enough"}'`
  for (const event of ['pre_tool_use', 'post_tool_use']) {
    const player = new Player([
      {
        calls: [
          ['terminal', { command: 'touch x' }],
          ['terminal', { command: 'touch y' }],
        ],
      },
    ])
    const life = await place.begin({
      model: player.open,
      agent,
      request: { hook_config: hooks({ [event]: stop }) },
    })
    await life.say('go')
    expect(life.status).toBe('paused')
    expect(existsSync(join(life.workspace, 'x'))).toBe(event === 'post_tool_use')
    expect(existsSync(join(life.workspace, 'y'))).toBe(false)
    expect(await life.all('UserRejectObservation')).toHaveLength(event === 'pre_tool_use' ? 1 : 0)
    expect(life.conversation.state.pending.size).toBe(1)
    expect(player.asked).toHaveLength(1)
  }
})

test('the hooks on a session are run once when it begins and once when it ends', async () => {
  const life = await place.begin({
    request: {
      hook_config: hooks({ session_start: 'echo start >> session', session_end: 'echo end >> session' }),
    },
  })
  const session = async () => await readFile(join(life.workspace, 'session'), 'utf8').catch(() => '')
  expect(await session()).toBe('')
  await life.say('one')
  await life.say('two')
  expect(await session()).toBe('start\n')
  await life.conversation.close()
  expect(await session()).toBe('start\nend\n')
})

test('a hook on the end of a session that hangs does not keep the conversation from being closed', async () => {
  const life = await place.begin({
    request: { hook_config: hooks({ session_end: 'echo $$ > pid; exec sleep 60' }) },
  })
  await life.say('go')
  await life.conversation.close()
  const pid = Number(await readFile(join(life.workspace, 'pid'), 'utf8'))
  await until(() => {
    try {
      process.kill(pid, 0)
      return false
    } catch {
      return true
    }
  })
  expect((await place.storage.conversations.vault(life.id))?.snapshot?.position).toBe(
    life.conversation.state.position,
  )
})

test('a hook that fails blocks nothing and is a line in the log of the server, without secrets', async () => {
  const life = await place.begin({
    request: {
      hook_config: hooks({ user_prompt_submit: 'echo "bad hunter22" >&2; exit 7' }),
      secrets: { PASSWORD: 'hunter22' },
    },
  })
  await life.say('go')
  expect(life.status).toBe('finished')
  const line = life.lines.find((one) => one.includes('a hook failed'))
  expect(line).toContain('exit code 7')
  expect(line).not.toContain('hunter22')
})

test('hooks of the project are found in its directory when the request has none', async () => {
  const player = new Player()
  const life = await place.begin({ model: player.open })

  await mkdir(join(life.workspace, '.openhands'))
  await writeFile(
    join(life.workspace, '.openhands', 'hooks.json'),
    JSON.stringify({ UserPromptSubmit: [{ hooks: [{ command: 'exit 2' }] }] }),
  )
  await life.say('go')
  expect(player.asked).toEqual([])
})

test('a hook that is a question is asked of the model', async () => {
  const player = new Player([], { sides: [{ text: '{"decision": "deny", "reason": "off topic"}' }] })
  const life = await place.begin({
    model: player.open,
    request: {
      hook_config: {
        user_prompt_submit: [{ hooks: [{ type: 'prompt', prompt: 'Is it about ships?', name: 'ships' }] }],
      },
    },
  })
  await life.say('about cats')
  expect(player.asked).toEqual([])
  expect(player.aside).toHaveLength(1)
  expect(textOf(player.aside[0]?.messages.at(-1)?.content)).toContain('Is it about ships?')
  const [update] = await life.all('ConversationStateUpdateEvent')
  expect(Object.values(update?.value ?? {})).toEqual(['off topic'])
})
