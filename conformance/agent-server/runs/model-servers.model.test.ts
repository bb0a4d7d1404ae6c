import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventLabel } from '../../support/agent-driver.ts'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'
import { runCli } from '../../support/cli.ts'
import type { ModelServer } from '../../support/model-servers/model-server.ts'
import { modelServers } from '../../support/model-servers/model-servers.ts'

// Real servers of models, with a model that solves nothing: what they put on the wire, and what becomes of
// it. Most of the CPU time is that of prompts, about 7 ms a token, so only the CLI has the default
// prompt, at night.

const { api, directory, driver } = await openAgentFixture()
const brief = { system_prompt: 'Answer in one short sentence.', tools: [], include_default_tools: [] }
/** What ends an answer early: a limit of tokens would be continued. */
const stop = ['.', '!', '\n']
const oneSentence = { litellm_extra_body: { stop } }
// Beside a load a prompt of every day takes minutes, and vLLM starts in a minute of CPU time.
const patience = { timeout: 900_000 }

async function run(agent: object, text: string, more: object = {}) {
  const initial_message = { content: [{ type: 'text', text }] }
  const { id } = await driver.create({ ...brief, ...agent }, { initial_message, ...more })
  return { id, events: await driver.waitUntilIdle(id) }
}

/** Sends a message, and returns what follows it. */
async function send(id: string, text: string): Promise<ApiEvent[]> {
  const before = (await driver.getEvents(id)).length
  await driver.sendMessage(id, text)
  await driver.waitUntilIdle(id)
  return (await driver.getEvents(id)).slice(before)
}

/** The text of the last answer. */
function answerOf(events: readonly ApiEvent[]): string {
  const answer = events.findLast(({ kind, source }) => kind === 'MessageEvent' && source === 'agent')
  const { content = [] } = (answer?.llm_message ?? {}) as { content?: readonly { text: string }[] }
  return content.map(({ text }) => text).join('')
}

function errorOf(events: readonly ApiEvent[]): string {
  return String(events.findLast(({ kind }) => kind === 'ConversationErrorEvent')?.detail)
}

const isGate = process.env.SLIPWAY_TEST_GATE === '1'
/** Each has 85 tokens with its answer, in a window of 768. */
const fillingMessages = isGate ? 9 : 14
if (isGate) console.warn('SKIPPED: the default prompt on a model server is left to the night')
for (const { name, isInstalled, isNightly, madeBy } of modelServers) {
  if (isGate && isNightly) console.warn(`SKIPPED: ${name} is left to the night`)
  else if (!isInstalled) console.warn(`SKIPPED: ${madeBy} has not made ${name} on this machine`)
}

describe.each(modelServers)('$name', ({ isInstalled, isNightly, open, ...kind }) => {
  const isThere = isInstalled && !(isGate && isNightly)
  const realTest = test.skipIf(!isThere)
  /** Its template has no tools. */
  let small: ModelServer
  let large: ModelServer

  beforeAll(async () => {
    if (isThere)
      [small, large] = [
        await open({ window: 768 }),
        // What the model says depends on each word of the prompt: without an end it may fill the window.
        await open({ window: 4096, hasTools: true, stop }),
      ]
  }, patience.timeout)
  afterAll(async () => {
    for (const server of [small, large]) await server?.[Symbol.asyncDispose]()
  })

  realTest('a conversation that fills the window again and again continues', patience, async () => {
    const text = `${'The old harbour has nine boats and two cranes. '.repeat(5)}Say hello.`
    const { id, events } = await run({ llm: { ...small.llm, ...oneSentence } }, text)
    const answers = [answerOf(events)]
    for (let at = 1; at < fillingMessages; at++) answers.push(answerOf(await send(id, `${at}: ${text}`)))
    expect(answers.filter((answer) => answer === '')).toEqual([])
    const labels = (await driver.getEvents(id)).map(eventLabel)
    expect(labels.filter((label) => /error/i.test(label))).toEqual([])
    expect(labels).toContain('Condensation')
    // The server itself has told it.
    expect(JSON.stringify((await driver.getInfo(id)).stats)).toContain('"context_window":768')
  })

  realTest(
    'a template without tools: they and calls are texts, and the session says so',
    patience,
    async () => {
      const agent = { llm: { ...small.llm, ...oneSentence }, include_default_tools: ['ThinkTool'] }
      const { events } = await run(agent, 'Say hello.')
      const notices = events.filter(({ key }) => key === 'model_notice')
      expect(notices).toMatchObject([{ value: { text: expect.stringContaining('has no tools') } }])
      const { events: others } = await run(
        { llm: { ...large.llm, ...oneSentence }, include_default_tools: ['ThinkTool'] },
        'Say hello.',
      )
      expect(others.some(({ key }) => key === 'model_notice')).toBe(false)
    },
  )

  realTest(
    'a server that dies in an answer: the next message is answered after its start',
    patience,
    async () => {
      const llm = { ...small.llm, stream: true, retry_min_wait: 0, retry_max_wait: 0 }
      const { id } = await driver.create({ ...brief, llm })
      await using socket = driver.openSocket(`/sockets/events/${id}`)
      await socket.waitUntil((events) => events.length > 0)
      await driver.sendMessage(id, 'Write a long story about a harbour.')
      await socket.waitUntil((events) => events.some(({ kind }) => kind === 'StreamingDeltaEvent'))
      await small.kill()
      expect(errorOf(await driver.waitUntilIdle(id))).toContain('Is the model server running?')
      await small.start()
      expect(await driver.post(id, 'switch_llm', { llm: { ...llm, ...oneSentence } })).toMatchObject({
        status: 200,
      })
      expect(answerOf(await send(id, 'Say hello.'))).not.toBe('')
    },
  )

  realTest(
    'an answer is streamed, and its token ids are stored when they are asked for and told',
    patience,
    async () => {
      const llm = { ...large.llm, ...oneSentence, stream: true, return_token_ids: true }
      const { id } = await driver.create({ ...brief, llm })
      await using socket = driver.openSocket(`/sockets/events/${id}`)
      await socket.waitUntil((events) => events.length > 0)
      await driver.sendMessage(id, 'Say hello.')
      const frames = await socket.waitUntil((events) => events.some(({ value }) => value === 'finished'))
      const deltas = frames.filter(({ kind }) => kind === 'StreamingDeltaEvent')
      const events = await driver.getEvents(id)
      expect(deltas.map(({ content = '' }) => content).join('')).toBe(answerOf(events))
      const ids = events.find(({ kind }) => kind === 'TokenEvent')?.response_token_ids
      expect(ids).toEqual(kind.hasTokenIds ? expect.arrayContaining([expect.any(Number)]) : undefined)
    },
  )

  test.skipIf(!isThere || !kind.repeatsCalls)(
    'a call that the server has read is executed',
    patience,
    async () => {
      const llm = { ...large.llm, litellm_extra_body: { stop: ['.'] } }
      const verdict = { enum: ['yes', 'no'] }
      const response_schema = { type: 'object', properties: { verdict }, required: ['verdict'] }
      const call =
        '<tool_call>\n{"name": "finish", "arguments": {"output": {"verdict": "yes"}}}\n</tool_call>'
      const { events } = await run({ llm }, `Repeat after me:\n${call}`, { response_schema })
      const labels = ['ActionEvent:finish', 'result:finish', 'execution_status=finished']
      expect(events.map(eventLabel).slice(-3)).toEqual(labels)
      const action = { kind: 'FinishAction', message: '{"verdict":"yes"}' }
      expect(events.find(({ kind }) => kind === 'ActionEvent')).toMatchObject({ action })
    },
  )

  test.skipIf(!isThere || isGate)(
    'a window that the prompt fills is said, and a larger one answers in the same conversation',
    patience,
    async () => {
      const env = { SLIPWAY_URL: api.endpoint.url }
      const at = ({ llm }: ModelServer) => ['--model', llm.model, '--base-url', llm.base_url]
      const failed = await runCli(['run', 'Say hello', '--workspace', directory, ...at(small)], env)
      expect(failed).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/of the tools; the limit is 691/),
      })
      const id = String(/Conversation (\S{36})/.exec(failed.stderr)?.[1])
      const next = await runCli(['run', 'Say hello', '--conversation', id, ...at(large)], env)
      expect(next).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('Agent\n'),
        stderr: expect.stringContaining('finished'),
      })
    },
  )

  realTest(
    'a model that the server does not have ends the run with those that it has',
    patience,
    async () => {
      const llm = { ...large.llm, model: large.llm.model.replace('smollm2', 'absent'), ...oneSentence }
      const { events } = await run({ llm }, 'Say hello.')
      if (kind.takesAnyModel) expect(answerOf(events)).not.toBe('')
      else expect(errorOf(events)).toMatch(/absent.*The server has smollm2/s)
    },
  )

  realTest('a window that is smaller than the settings say is told or learned', patience, async () => {
    const llm = { ...small.llm, ...oneSentence, max_input_tokens: 8000 }
    const { id, events } = await run({ llm }, `${'The old harbour has nine boats. '.repeat(250)}Say hello.`)
    expect(errorOf(events)).toBe('undefined')
    expect(answerOf(events)).not.toBe('')
    expect(answerOf(await send(id, 'Say hello.'))).not.toBe('')
  })

  realTest('the guide names its models and addresses', async () => {
    const guide = await readFile(resolve(import.meta.dirname, '../../../docs/guide/models.md'), 'utf8')
    const row = guide.split('\n').find((line) => line.startsWith(`| ${kind.name} |`)) ?? ''
    const [provider = ''] = large.llm.model.split('/')
    expect(row).toContain(`\`${provider}/`)
    expect(new URL(/http[^`]*/.exec(row)?.[0] ?? '').pathname).toBe(new URL(large.llm.base_url).pathname)
  })
})
