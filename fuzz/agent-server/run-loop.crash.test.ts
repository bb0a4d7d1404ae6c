import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import {
  type ConversationInfo,
  eventLabel,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
} from '../../conformance/support/agent-driver.ts'
import { OwnAgentServer } from '../../conformance/support/agent-fixture.ts'
import type { ApiEvent } from '../../conformance/support/agent-server-api.ts'

/**
 * Random models and random users, over HTTP: whatever an agent does and users send meanwhile, the log keeps
 * its invariants, no call answers 500, and the conversation can be completed. `SLIPWAY_FUZZ_RUNS` sets the
 * number of conversations (default 20); a failure prints seed and path to replay it.
 */
const runs = Number(process.env.SLIPWAY_FUZZ_RUNS ?? 20)

const server = await OwnAgentServer.open()
afterAll(async () => await server[Symbol.asyncDispose]())
let { driver } = server

const toolCallArbitrary = fc.oneof(
  fc
    .integer({ min: 0, max: 3 })
    .map((n) => toolCall('terminal', { command: `echo ${n}`, security_risk: n > 2 ? 'HIGH' : 'LOW' })),
  fc.constant(toolCall('terminal', { command: 'sleep 0.2' })),
  fc.constant(toolCall('terminal', { command: 'false' })),
  fc.string({ maxLength: 8 }).map((thought) => toolCall('think', { thought })),
  fc.constant(toolCall('no_such_tool')),
  fc.constant({ name: 'terminal', arguments: '{"command": "echo' }),
  fc.constant(toolCall('terminal', { wrong: true })),
  fc.constant(toolCall('finish', { message: 'early' })),
  fc.constant(toolCall('')),
)
const codes = [
  'LLMRateLimitError',
  'LLMAuthenticationError',
  'LLMContextWindowExceedError',
  'LLMNoResponseError',
  'x',
]
const modelTurnArbitrary = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      tool_calls: fc.array(toolCallArbitrary, { minLength: 1, maxLength: 3 }),
      delay_ms: fc.nat(20),
    }),
  },
  { weight: 1, arbitrary: fc.record({ text: fc.string({ maxLength: 10 }), delay_ms: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ error: fc.record({ code: fc.constantFrom(...codes) }) }) },
  { weight: 1, arbitrary: fc.record({ text: fc.constant('No.'), refusal: fc.constant(true) }) },
)
const policies = [
  { kind: 'NeverConfirm' },
  { kind: 'AlwaysConfirm' },
  { kind: 'ConfirmRisky', threshold: 'HIGH' },
]
const userActionArbitrary = fc.record({
  verb: fc.constantFrom(
    'run',
    'run',
    'pause',
    'interrupt',
    'say',
    'say and run',
    'accept',
    'reject',
    'policy',
    'analyzer',
    'fork',
    'condense',
    'ask',
    'title',
    'secrets',
    'socket',
  ),
  delayMs: fc.nat(60),
  pick: fc.nat(2),
})
type UserAction = { readonly verb: string; readonly delayMs: number; readonly pick: number }

test('random agents and random users leave consistent logs', {
  timeout: 60_000 + runs * 5_000,
}, async () => {
  const program = fc.record({
    script: fc.array(modelTurnArbitrary, { maxLength: 12 }),
    deeds: fc.array(userActionArbitrary, { maxLength: 10 }),
    policy: fc.constantFrom(...policies),
    limit: fc.constantFrom(1, 3),
    condenser: fc.boolean(),
    isTogether: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(program, async ({ script, deeds, policy, limit, condenser, isTogether }) => {
      const more = {
        max_iterations: 20,
        confirmation_policy: policy,
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
      }
      const agent = {
        llm: scriptedModel(script, { num_retries: 0 }),
        tool_concurrency_limit: limit,
        ...(condenser ? { condenser: { kind: 'LLMSummarizingCondenser', max_size: 12, keep_first: 2 } } : {}),
      }
      const { id } = await driver.create(agent, more)
      const forks: string[] = []
      const all = deeds.map((one) => async () => {
        await sleep(one.delayMs)
        const { status, body } = await performUserAction(id, one)
        expect([one.verb, [200, 201, 409, 503].includes(status)]).toEqual([one.verb, true])
        if (status === 201) forks.push((body as ConversationInfo).id)
      })
      if (isTogether) await Promise.all(all.map((one) => one()))
      else for (const one of all) await one()
      for (const one of [id, ...forks]) await expectConsistentEnd(one)
    }),
    { numRuns: runs, interruptAfterTimeLimit: 45_000 + runs * 4_000, endOnFailure: true },
  )
})

async function performUserAction(
  id: string,
  { verb, pick }: UserAction,
): Promise<{ status: number; body: unknown }> {
  switch (verb) {
    case 'say':
      return await driver.post(id, 'events', { content: [{ type: 'text', text: `message ${pick}` }] })
    case 'say and run':
      return await driver.sendMessage(id, `message ${pick}`)
    case 'accept':
    case 'reject':
      return await driver.post(id, 'events/respond_to_confirmation', { accept: verb === 'accept' })
    case 'policy':
      return await driver.post(id, 'confirmation_policy', { policy: policies[pick] })
    case 'analyzer':
      return await driver.post(id, 'security_analyzer', {
        security_analyzer: pick === 0 ? null : { kind: 'LLMSecurityAnalyzer' },
      })
    case 'fork': {
      const events = await driver.getEvents(id)
      const from_event_id = events[Math.floor((events.length * pick) / 3)]?.id
      return await driver.post(id, 'fork', from_event_id === undefined ? {} : { from_event_id })
    }
    case 'ask':
      return await driver.post(id, 'ask_agent', { question: '?' })
    case 'title':
      return await driver.post(id, 'generate_title')
    case 'secrets':
      return await driver.post(id, 'secrets', { secrets: { [`S${pick}`]: `value-${pick}` } })
    case 'socket': {
      await using client = driver.openSocket(`/sockets/events/${id}${pick === 0 ? '?after=0' : ''}`)
      await client.waitUntil((events) => events.length > 0)
      return { status: 200, body: undefined }
    }
    default:
      return await driver.post(id, verb)
  }
}

/** The conversation becomes idle without an issue, and can be completed. */
async function expectConsistentEnd(id: string): Promise<void> {
  const events = await driver.waitUntilIdle(id)
  const { execution_status: status } = await driver.getInfo(id)
  expect(findLogIssues(events, { mayWait: true })).toEqual([])
  expect(findViolations(events, status)).toEqual([])
  await driver.post(id, 'events/respond_to_confirmation', { accept: false })
  await driver.post(id, 'confirmation_policy', { policy: { kind: 'NeverConfirm' } })
  await driver.post(id, 'switch_llm', { llm: scriptedModel(Array.from({ length: 100 }, () => finishStep())) })
  await driver.sendMessage(id, 'To the end.')
  const ended = await driver.waitUntilIdle(id)
  expect(ended.at(-1)).toMatchObject({ key: 'execution_status', value: 'finished' })
  expect(findLogIssues(ended)).toEqual([])
}

/** Consistency of the events of an idle conversation. */
function findViolations(events: readonly ApiEvent[], status: string): string[] {
  const violations: string[] = []
  const loggedStatus = events.filter(({ key }) => key === 'execution_status').at(-1)?.value ?? 'idle'
  if (loggedStatus !== status) violations.push(`the log says ${loggedStatus}, the record ${status}`)
  if (status === 'running') violations.push('it still runs')
  const prompts = events.filter(({ kind }) => kind === 'SystemPromptEvent').length
  if (prompts > 1) violations.push(`${prompts} system prompts`)
  const results = new Map(
    events.flatMap((event, at) =>
      event.kind !== 'ActionEvent' && event.tool_call_id ? [[String(event.tool_call_id), at] as const] : [],
    ),
  )
  for (const [at, event] of events.entries()) {
    const result = event.kind === 'ActionEvent' ? results.get(String(event.tool_call_id)) : undefined
    if (result !== undefined && result < at) violations.push('a result before its call')
    if (event.kind === 'ActionEvent' && result === undefined && status === 'finished')
      violations.push('finished with open calls')
  }
  const waits = events.some(
    (event) => event.kind === 'ActionEvent' && !results.has(String(event.tool_call_id)),
  )
  if (status === 'waiting_for_confirmation' && !waits) violations.push('waits for nothing')
  const steps = events.filter((event) => eventLabel(event) === 'execution_status=running').length
  if (steps > 0 && prompts === 0) violations.push('ran without a system prompt')
  return violations
}

test('after kills of the server at random moments the logs of random agents are complete', {
  timeout: 120_000,
}, async () => {
  const scripts = fc.sample(fc.array(modelTurnArbitrary, { minLength: 4, maxLength: 12 }), {
    numRuns: 12,
    seed: Date.now() % 100_000,
  })
  const ids: string[] = []
  for (const [n, script] of scripts.entries()) {
    const more = {
      confirmation_policy: policies[n % 3],
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    }
    ids.push(
      (
        await driver.create(
          { llm: scriptedModel(script, { num_retries: 0 }), tool_concurrency_limit: 1 + (n % 3) },
          more,
        )
      ).id,
    )
    if (n % 4 !== 3) continue
    await sleep(Math.random() * 150)
    await server.restart('SIGKILL')
    ;({ driver } = server)
    for (const id of ids) await expectConsistentEnd(id)
  }
})
