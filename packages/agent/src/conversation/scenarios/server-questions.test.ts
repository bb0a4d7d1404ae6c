import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientTool } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  ConversationFixtures,
  contentText,
  FakeModel,
  type TestConversation,
  waitUntil,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

/** An MCP server whose tool asks the user for a name, in plain lines. */
const program = `
let call
const write = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params, result } = JSON.parse(line)
  if (method === 'initialize')
    write({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } })
  else if (method === 'tools/list')
    write({ id, result: { tools: [{ name: 'greet', inputSchema: { type: 'object' } }] } })
  else if (method === 'tools/call') {
    call = params.arguments.late ? undefined : id
    if (params.arguments.late) write({ id, result: { content: [] } })
    const name = { type: 'string', ...(params.arguments.proposed && { default: params.arguments.proposed }) }
    write({ id: 'q', method: 'elicitation/create', params: { message: 'Your name?', requestedSchema: { type: 'object', properties: { name }, required: ['name'] } } })
  } else if (id === 'q' && call === undefined) require('node:fs').writeFileSync(process.env.ANSWER, result.action)
  else if (id === 'q')
    write({ id: call, result: { content: [{ type: 'text', text: result.action + ' ' + result.content?.name }] } })
})
`
const mcp_config = { asking: { command: process.execPath, args: ['-e', program] } }

async function ask(
  args: object = {},
  request: object = {},
): Promise<{ life: TestConversation; player: FakeModel }> {
  const player = new FakeModel([{ calls: [['greet', args]] }])
  const life = await fixtures.create({
    model: player.open,
    agent: { mcp_config },
    request: { ...request },
    wire: 'current',
  })
  await life.send('Greet me', { run: true })
  await waitUntil(() => life.status === 'waiting_for_confirmation')
  return { life, player }
}

async function results(life: TestConversation): Promise<string[]> {
  const events = await life.eventsOfKind('ObservationEvent')
  return events.map(({ tool_name, observation }) => `${tool_name}: ${contentText(observation.content)}`)
}

test('a server asks the user in the middle of a call, and a message answers', async () => {
  const { life, player } = await ask()
  const question = (await life.eventsOfKind('ActionEvent')).at(-1)
  expect(question).toMatchObject({
    tool_name: 'mcp_question',
    summary: 'The MCP server asking asks: Your name?',
    action: {
      data: {
        question_of_mcp_server: 'asking',
        message: 'Your name?',
        answer_with_a_message: { name: 'string' },
      },
    },
  })
  await life.send('Ada')
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  expect(await results(life)).toEqual([
    'mcp_question: Answered by the user.',
    "greet: [Tool 'greet' executed.]\naccept Ada",
  ])
  // The model has asked nothing.
  expect(JSON.stringify(player.requests.at(-1)?.messages)).not.toContain('mcp_question')
  expect(JSON.stringify(player.requests.at(-1)?.messages)).toContain('accept Ada')
})

test('a client tool must not have the name of a question', () => {
  const tool = { name: 'mcp_question', description: 'd', parameters: { type: 'object' } }
  expect(clientTool.safeParse(tool).error?.message).toContain('questions of MCP servers')
  expect(clientTool.safeParse({ ...tool, name: 'mcp_questions' }).success).toBe(true)
})

test('a tool of a server that has the name of a question is offered by another one', async () => {
  const player = new FakeModel([{ calls: [['mcp_mcp_question', {}]] }])
  const own = program.replace("name: 'greet'", "name: 'mcp_question'")
  const life = await fixtures.create({
    model: player.open,
    agent: { mcp_config: { asking: { command: process.execPath, args: ['-e', own] } } },
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
    wire: 'current',
  })
  await life.send('Greet me', { run: true })
  await waitUntil(() => life.status === 'waiting_for_confirmation' && !life.conversation.isRunning)
  expect(player.requests[0]?.tools.map(({ name }) => name)).not.toContain('mcp_question')
  // It waits as a call, which a message rejects: as a question it would be answered.
  await life.send('Ada')
  expect((await life.eventsOfKind('UserRejectObservation')).map(({ tool_name }) => tool_name)).toEqual([
    'mcp_mcp_question',
  ])
})

test('accepting a question gives its defaults; without any it declines and says what is missing', async () => {
  const { life } = await ask({ proposed: 'Grace' })
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  await life.conversation.waitUntilIdle()
  expect((await results(life)).at(-1)).toContain('accept Grace')
  const other = await ask()
  await other.life.conversation.resolveConfirmation({ accept: true, reason: '' })
  await other.life.conversation.waitUntilIdle()
  expect(await results(other.life)).toEqual([
    expect.stringContaining('accepting alone gives no value for name'),
    expect.stringContaining('decline undefined'),
  ])
})

test('rejecting a question declines it and ends the run, as any rejection', async () => {
  const { life } = await ask()
  await life.conversation.resolveConfirmation({ accept: false, reason: 'Not now.' })
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('idle')
  expect(await results(life)).toEqual([])
  expect((await life.eventsOfKind('UserRejectObservation')).map(({ tool_name }) => tool_name)).toEqual([
    'mcp_question',
  ])
  const [error] = await life.eventsOfKind('AgentErrorEvent')
  expect([error?.tool_name, error?.error]).toEqual(['greet', expect.stringContaining('done in part')])
  expect(life.conversation.state.openActions()).toEqual([])
})

test('a call that asked before a restart is not done again', async () => {
  const { life, player } = await ask()
  await life.reopen()
  expect(life.status).toBe('paused')
  expect(life.conversation.state.openActions()).toEqual([])
  const errors = await life.eventsOfKind('AgentErrorEvent')
  expect(errors.map(({ tool_name }) => tool_name)).toEqual(['greet', 'mcp_question'])
  await life.sendAndWait('Continue')
  expect(life.status).toBe('finished')
  expect(player.requests).toHaveLength(2)
})

test('a question outside of a call is not asked, and approves nothing that the model has called', async () => {
  const answer = join(fixtures.directory, 'answer')
  const settled = async () => await waitUntil(() => life.status !== 'running' || existsSync(answer))
  const player = new FakeModel([
    { calls: [['greet', { late: true }]] },
    { before: settled, calls: [['terminal', { command: 'touch done' }]] },
  ])
  const asking = { ...mcp_config.asking, env: { ANSWER: answer } }
  const life = await fixtures.create({
    model: player.open,
    agent: { mcp_config: { asking }, tools: [{ name: 'terminal' }] },
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
    wire: 'current',
  })
  await life.sendAndWait('Greet me')
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('waiting_for_confirmation')
  expect(life.conversation.state.openActions().map(({ tool_name }) => tool_name)).toEqual(['terminal'])
  expect(readFileSync(answer, 'utf8')).toBe('cancel')
})

test('a message that a hook blocks, and the objective of a goal, answer no question', async () => {
  const blocks = 'grep -q Ada && { echo no >&2; exit 2; }; exit 0'
  const hook_config = { user_prompt_submit: [{ hooks: [{ command: blocks }] }] }
  const blocked = await ask({}, { hook_config })
  await blocked.life.send('Ada')
  const other = await ask()
  await other.life.conversation.startGoal('Grace', 1)
  for (const { life } of [blocked, other]) {
    await life.conversation.waitUntilIdle()
    expect(JSON.stringify(await results(life))).not.toContain('Answered by the user.')
  }
})

test('a pause during a question ends it, and the call has a result; an interrupt ends both', async () => {
  const paused = await ask()
  await paused.life.conversation.pause()
  await paused.life.conversation.waitUntilIdle()
  expect(paused.life.status).toBe('paused')
  expect(await results(paused.life)).toEqual([expect.stringContaining('decline undefined')])
  const interrupted = await ask()
  await interrupted.life.conversation.interrupt()
  await interrupted.life.conversation.waitUntilIdle()
  expect(interrupted.life.status).toBe('paused')
  expect(await results(interrupted.life)).toEqual([])
  for (const [{ life }, ended] of [
    [paused, ['mcp_question']],
    [interrupted, ['greet', 'mcp_question']],
  ] as const) {
    const errors = await life.eventsOfKind('AgentErrorEvent')
    expect(errors.map(({ tool_name }) => tool_name)).toEqual(ended)
    expect(life.conversation.state.openActions()).toEqual([])
  }
})
