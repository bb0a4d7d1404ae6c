import { randomUUID } from 'node:crypto'
import type { Message } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { historyCases } from '../../../packages/agent/src/llm/refusals/testing/history-cases.ts'
import { itemCases } from '../../../packages/agent/src/llm/refusals/testing/item-cases.ts'
import { parameterCases } from '../../../packages/agent/src/llm/refusals/testing/parameter-cases.ts'
import { pictureCases } from '../../../packages/agent/src/llm/refusals/testing/picture-cases.ts'
import {
  type CaseRow,
  finalAnswers,
  tooLargeAnswers,
  toolsRefused,
} from '../../../packages/agent/src/llm/refusals/testing/refusal-answers.ts'
import {
  history,
  pathOf,
  settingsOf,
  tools,
  type Wire,
} from '../../../packages/agent/src/llm/refusals/testing/refused-history.ts'
import {
  type Answer,
  RefusingServer,
} from '../../../packages/agent/src/llm/refusals/testing/refusing-server.ts'
import { refusalsOf } from '../../../packages/agent/src/llm/testing/validators/rule.ts'
import { validators } from '../../../packages/agent/src/llm/testing/validators/validators.ts'
import type { ConversationInfo } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { toJsonLines } from '../../support/agent-server-api.ts'

/**
 * Every kind of refusal, and what follows it: the next message, a restart, a fork, another model and back, a
 * condensation. All conversations live through them on one server, each at its own address of the provider.
 */

type Json = Record<string, unknown>

/** `restart` is the first message after one; `condense` is the request for a summary. */
const stages = ['refusal', 'next', 'restart', 'fork', 'switch', 'condense', 'condensed'] as const
type Stage = (typeof stages)[number]
const messageStages: readonly Stage[] = ['refusal', 'next', 'restart']

interface Row {
  readonly name: string
  readonly wire: Wire
  readonly refuse: (body: Json) => Answer | undefined
  /** No other request helps: the message after the cause is gone is answered. */
  readonly isFinal?: boolean
  /** The history has a long text. */
  readonly isLong?: boolean
}

/** A conversation, and what its model was asked at each stage. */
interface Life extends Row {
  readonly id: string
  stage: Stage
  isMended: boolean
  readonly asked: { readonly stage: Stage; readonly isRefused: boolean }[]
  readonly results: Partial<Record<Stage, unknown>>
  /** Events that say what is left out, after the second message and in the fork. */
  readonly told: number[]
}

/** One case of each interface and change: their wordings are tested beside the table. */
const refusedCases = new Map<string, CaseRow>()
for (const row of [...parameterCases, ...pictureCases, ...historyCases, ...itemCases]) {
  const [, wire, , , ...changes] = row
  const key = `${wire} ${changes.join(' ')}`
  if (!refusedCases.has(key)) refusedCases.set(key, row)
}
const refusedRows = [...refusedCases.values()].map(
  ([name, wire, mark, says]): Row => ({
    ...{ name, wire },
    refuse: (body) => {
      if (!JSON.stringify(body).includes(mark)) return undefined
      const path = pathOf(body, mark.replaceAll('"', '')) ?? []
      const brackets = path.map((one) => (typeof one === 'number' ? `[${one}]` : `.${one}`)).join('')
      return says({ body, path, dots: path.join('.'), brackets: brackets.slice(1) })
    },
  }),
)
const toolRows = toolsRefused.map(
  ([name, wire, answer]): Row => ({
    ...{ name: `${name}, no tools`, wire },
    refuse: (body) => ('tools' in body || 'toolConfig' in body ? answer : undefined),
  }),
)
const finalRows = finalAnswers.map(
  ([name, wire, answer]): Row => ({ name, wire, refuse: () => answer, isFinal: true }),
)
const maxChars = 14_000
const longRows = tooLargeAnswers.map((answer): Row => {
  const refuse = (body: Json) => (JSON.stringify(body).length > maxChars ? answer : undefined)
  return { name: `too large: ${JSON.stringify(answer)}`, wire: 'compatible', refuse, isLong: true }
})
const allRows = [...refusedRows, ...toolRows, ...finalRows, ...longRows]
/** By day every second one: wordings of a kind stand side by side. */
const rows = allRows.filter((_, at) => at % 2 === 0 || process.env.SLIPWAY_NIGHTLY === '1')

let server: OwnAgentServer
let provider: RefusingServer
let lives: Life[]

beforeAll(async () => {
  ;[server, provider] = await Promise.all([OwnAgentServer.open({ isInProcess: true }), RefusingServer.open()])
  lives = rows.map((row) => ({
    ...{ ...row, id: randomUUID(), stage: 'refusal', isMended: false, asked: [], results: {}, told: [] },
  }))
  provider.refuse = (body, path) => {
    const [, kind, index] = /^\/(life|strict)(\d+)\//.exec(path) ?? []
    const life = lives[Number(index)]
    if (life === undefined) throw new Error(path)
    const own = life.isMended ? undefined : life.refuse(body)
    const refused = kind === 'strict' ? strictRefusal(life.wire, body) : own
    life.asked.push({ stage: life.stage, isRefused: refused !== undefined })
    return refused
  }
  await forEachLife(async (life, index) => {
    await create(life, index)
    await say(life, 'refusal')
    life.isMended = life.isFinal === true
    await say(life, 'next')
    life.told.push(await countTold(life.id))
  })
  await server.restart()
  await forEachLife(async (life, index) => {
    await say(life, 'restart')
    if (life.isFinal) return
    const { driver } = server
    const fork = (await driver.post(life.id, 'fork', {})).body as ConversationInfo
    await say(life, 'fork', fork.id)
    life.told.push(await countTold(fork.id))
    const other = settingsOf(otherWire(life.wire), `${provider.url}/strict${index}`)
    await driver.post(life.id, 'switch_llm', { llm: { ...other, usage_id: 'other' } })
    await say(life, 'switch')
    await driver.post(life.id, 'switch_llm', { llm: { ...ownSettings(life, index), usage_id: 'own' } })
    life.stage = 'condense'
    const { status, body } = await driver.post(life.id, 'condense')
    life.results.condense = status === 200 ? 'finished' : body
    await say(life, 'condensed')
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

async function forEachLife(live: (life: Life, index: number) => Promise<void>): Promise<void> {
  const waiting = [...lives.entries()]
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await live(next[1], next[0])
  }
  await Promise.all(Array.from({ length: 6 }, worker))
}

const ownSettings = ({ wire }: Row, index: number) => settingsOf(wire, `${provider.url}/life${index}`)
/** Of another family: the signatures of the history are made up. */
const otherWire = (wire: Wire) => (wire === 'anthropic' || wire === 'bedrock' ? 'chat' : 'anthropic')

/** The other model is at a server that takes nothing but what its provider does. */
function strictRefusal(wire: Wire, body: Json): Answer | undefined {
  const name = otherWire(wire) === 'chat' ? 'openai/gpt-4o' : 'anthropic/claude-sonnet-4-5'
  const validator = validators[name]
  if (validator === undefined) throw new Error(name)
  const refusals = refusalsOf(validator, body)
  return refusals.length === 0 ? undefined : [401, { error: { message: JSON.stringify(refusals) } }]
}

async function create(life: Life, index: number): Promise<void> {
  const { api, driver } = server
  const client_tools = tools.filter(({ name }) => name === 'mcp_search')
  await driver.create(
    {
      llm: ownSettings(life, index),
      ...{ tools: [{ name: 'grep' }], include_default_tools: [], system_prompt: 'You help.' },
      condenser: { kind: 'LLMSummarizingCondenser', max_size: 200, keep_first: 2 },
    },
    { conversation_id: life.id, client_tools },
  )
  const { host } = new URL(provider.url)
  await api.import(toJsonLines({ conversation_id: life.id }, ...eventsOf(life, host)))
}

/** The log of the history, without its system prompt and its last message. */
function eventsOf({ wire, isLong }: Row, host: string): object[] {
  const long = { role: 'user', content: [{ type: 'text', text: 'word '.repeat(maxChars) }] }
  const messages = [...(isLong ? [long as Message] : []), ...history(wire, host).slice(1, -1)]
  return messages.flatMap((message, index): object[] => {
    const { role, tool_calls, tool_call_id, name, content, ...more } = message
    if (role === 'tool') {
      const own = { tool_name: name, tool_call_id, action_id: `action-${tool_call_id}` }
      const observation = { kind: 'TerminalObservation', command: 'ls', content, is_error: false }
      return [{ kind: 'ObservationEvent', source: 'environment', ...own, observation }]
    }
    if (!tool_calls)
      return [{ kind: 'MessageEvent', source: role === 'user' ? 'user' : 'agent', llm_message: message }]
    return tool_calls.map((tool_call, at) => ({
      ...{ id: `action-${tool_call.id}`, kind: 'ActionEvent', source: 'agent', tool_call },
      ...{ tool_name: tool_call.name, tool_call_id: tool_call.id, llm_response_id: `response-${index}` },
      ...(at === 0 ? { ...more, thought: content } : { thought: [], thinking_blocks: [] }),
    }))
  })
}

/** The events that say what is left out. */
async function countTold(id: string): Promise<number> {
  return (await server.driver.getEvents(id)).filter(({ key }) => key === 'left_out').length
}

async function say(life: Life, stage: Stage, id = life.id): Promise<void> {
  const { driver } = server
  life.stage = stage
  await driver.sendMessage(id, `And now (${stage})?`)
  const last = (await driver.waitUntilIdle(id)).findLast(
    ({ kind, key }) => kind === 'ConversationErrorEvent' || key === 'execution_status',
  )
  life.results[stage] = last?.value ?? last?.detail
}

test.each(rows.map(({ name, wire }, index) => [name, wire, index] as const))(
  '%s (%s): the next message is answered, after whatever comes between',
  (_, __, index) => {
    const life = lives[index]
    if (life === undefined) throw new Error('it was not created')
    const { isFinal = false, isLong = false, results, asked, told } = life
    const lived = isFinal ? messageStages : stages
    const expected = Object.fromEntries(lived.map((stage) => [stage, 'finished']))
    expect(results).toEqual(isFinal ? { ...expected, refusal: expect.any(String) } : expected)
    // It is refused at its first request alone, and later ones are asked once.
    const counts = lived.map((stage) => asked.filter((one) => one.stage === stage).length)
    const refused = new Set(asked.filter(({ isRefused }) => isRefused).map(({ stage }) => stage))
    expect([...refused]).toEqual(['refusal'])
    expect(counts[0]).toBeLessThanOrEqual(isFinal ? 1 : 7)
    expect(counts.slice(1)).toEqual(lived.slice(1).map(() => 1))
    if (!isFinal && !isLong) expect(told).toEqual([expect.any(Number), told[0]])
    if (!isFinal && !isLong) expect(told[0]).toBeGreaterThan(0)
  },
)
