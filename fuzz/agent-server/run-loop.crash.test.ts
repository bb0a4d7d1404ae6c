import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  brief,
  call,
  Driver,
  faultsOf,
  finish,
  type Info,
  scripted,
} from '../../conformance/support/agent-driver.ts'
import { startServer } from '../../conformance/support/agent-server.ts'
import { Api, type Event } from '../../conformance/support/agent-server-api.ts'

/**
 * Random models against random users, over HTTP: whatever an agent does and whoever says what in between, the log keeps its
 * laws, no call answers 500, and the conversation can be brought to its end. `SLIPWAY_FUZZ_RUNS` sets the number of
 * conversations (default 40); a failure prints seed and path to replay it.
 */
const runs = Number(process.env.SLIPWAY_FUZZ_RUNS ?? 40)

let data: string
let directory: string
let server: Awaited<ReturnType<typeof startServer>>
let api: Api
let drive: Driver
beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'slipway-fuzz-'))
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-fuzz-work-')))
  await start()
})
afterAll(async () => {
  await server.stop()
  for (const path of [data, directory]) await rm(path, { recursive: true, force: true })
})

async function start(): Promise<void> {
  server = await startServer(data)
  const there = { url: server.url, headers: {}, [Symbol.asyncDispose]: async () => {} }
  api = new Api(there)
  drive = new Driver({ api, server: there, directory })
}

const tool = fc.oneof(
  fc
    .integer({ min: 0, max: 3 })
    .map((n) => call('terminal', { command: `echo ${n}`, security_risk: n > 2 ? 'HIGH' : 'LOW' })),
  fc.constant(call('terminal', { command: 'sleep 0.2' })),
  fc.constant(call('terminal', { command: 'false' })),
  fc.string({ maxLength: 8 }).map((thought) => call('think', { thought })),
  fc.constant(call('no_such_tool')),
  fc.constant({ name: 'terminal', arguments: '{"command": "echo' }),
  fc.constant(call('terminal', { wrong: true })),
  fc.constant(call('finish', { message: 'early' })),
  fc.constant(call('')),
)
const codes = [
  'LLMRateLimitError',
  'LLMAuthenticationError',
  'LLMContextWindowExceedError',
  'LLMNoResponseError',
  'x',
]
const turn = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      tool_calls: fc.array(tool, { minLength: 1, maxLength: 3 }),
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
const deed = fc.record({
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
  after: fc.nat(60),
  pick: fc.nat(2),
})
type Deed = { readonly verb: string; readonly after: number; readonly pick: number }

test('random agents and random users leave logs that keep their laws', {
  timeout: 60_000 + runs * 5_000,
}, async () => {
  const program = fc.record({
    script: fc.array(turn, { maxLength: 12 }),
    deeds: fc.array(deed, { maxLength: 10 }),
    policy: fc.constantFrom(...policies),
    limit: fc.constantFrom(1, 3),
    condenser: fc.boolean(),
    isTogether: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(program, async ({ script, deeds, policy, limit, condenser, isTogether }) => {
      const more = { max_iterations: 20, confirmation_policy: policy, initial_message: { content: 'Begin.' } }
      const agent = {
        llm: scripted(script, { num_retries: 0 }),
        tool_concurrency_limit: limit,
        ...(condenser ? { condenser: { kind: 'LLMSummarizingCondenser', max_size: 12, keep_first: 2 } } : {}),
      }
      const { id } = await drive.create(agent, more)
      const forks: string[] = []
      const all = deeds.map((one) => async () => {
        await sleep(one.after)
        const { status, body } = await act(id, one)
        expect([one.verb, [200, 201, 409, 503].includes(status)]).toEqual([one.verb, true])
        if (status === 201) forks.push((body as Info).id)
      })
      if (isTogether) await Promise.all(all.map((one) => one()))
      else for (const one of all) await one()
      for (const one of [id, ...forks]) await settles(one)
    }),
    { numRuns: runs, interruptAfterTimeLimit: 45_000 + runs * 4_000, endOnFailure: true },
  )
})

async function act(id: string, { verb, pick }: Deed): Promise<{ status: number; body: unknown }> {
  switch (verb) {
    case 'say':
      return await drive.post(id, 'events', { content: `message ${pick}` })
    case 'say and run':
      return await drive.say(id, `message ${pick}`)
    case 'accept':
    case 'reject':
      return await drive.post(id, 'events/respond_to_confirmation', { accept: verb === 'accept' })
    case 'policy':
      return await drive.post(id, 'confirmation_policy', { policy: policies[pick] })
    case 'analyzer':
      return await drive.post(id, 'security_analyzer', {
        security_analyzer: pick === 0 ? null : { kind: 'LLMSecurityAnalyzer' },
      })
    case 'fork': {
      const events = await drive.events(id)
      const from_event_id = events[Math.floor((events.length * pick) / 3)]?.id
      return await drive.post(id, 'fork', from_event_id === undefined ? {} : { from_event_id })
    }
    case 'ask':
      return await drive.post(id, 'ask_agent', { question: '?' })
    case 'title':
      return await drive.post(id, 'generate_title')
    case 'secrets':
      return await drive.post(id, 'secrets', { secrets: { [`S${pick}`]: `value-${pick}` } })
    case 'socket': {
      await using client = drive.open(`/sockets/events/${id}${pick === 0 ? '?after=0' : ''}`)
      await client.until((events) => events.length > 0)
      return { status: 200, body: undefined }
    }
    default:
      return await drive.post(id, verb)
  }
}

/** Comes to rest without a fault, and from there to an end. */
async function settles(id: string): Promise<void> {
  const events = await drive.rest(id)
  const { execution_status: status } = await drive.info(id)
  expect(faultsOf(events, { mayWait: true })).toEqual([])
  expect(laws(events, status)).toEqual([])
  await drive.post(id, 'events/respond_to_confirmation', { accept: false })
  await drive.post(id, 'confirmation_policy', { policy: { kind: 'NeverConfirm' } })
  await drive.post(id, 'switch_llm', { llm: scripted(Array.from({ length: 100 }, () => finish())) })
  await drive.say(id, 'To the end.')
  const ended = await drive.rest(id)
  expect(ended.at(-1)).toMatchObject({ key: 'execution_status', value: 'finished' })
  expect(faultsOf(ended)).toEqual([])
}

/** What the events of a conversation at rest say about each other. */
function laws(events: readonly Event[], status: string): string[] {
  const broken: string[] = []
  const told = events.filter(({ key }) => key === 'execution_status').at(-1)?.value ?? 'idle'
  if (told !== status) broken.push(`the log says ${told}, the record ${status}`)
  if (status === 'running') broken.push('it still runs')
  const prompts = events.filter(({ kind }) => kind === 'SystemPromptEvent').length
  if (prompts > 1) broken.push(`${prompts} system prompts`)
  const results = new Map(
    events.flatMap((event, at) =>
      event.kind !== 'ActionEvent' && event.tool_call_id ? [[String(event.tool_call_id), at] as const] : [],
    ),
  )
  for (const [at, event] of events.entries()) {
    const result = event.kind === 'ActionEvent' ? results.get(String(event.tool_call_id)) : undefined
    if (result !== undefined && result < at) broken.push('a result before its call')
    if (event.kind === 'ActionEvent' && result === undefined && status === 'finished')
      broken.push('finished with open calls')
  }
  const waits = events.some(
    (event) => event.kind === 'ActionEvent' && !results.has(String(event.tool_call_id)),
  )
  if (status === 'waiting_for_confirmation' && !waits) broken.push('waits for nothing')
  const steps = events.filter((event) => brief(event) === 'execution_status=running').length
  if (steps > 0 && prompts === 0) broken.push('ran without a system prompt')
  return broken
}

test('random agents are killed with their server at random moments, and nothing of their logs is torn', {
  timeout: 120_000,
}, async () => {
  const scripts = fc.sample(fc.array(turn, { minLength: 4, maxLength: 12 }), {
    numRuns: 12,
    seed: Date.now() % 100_000,
  })
  const ids: string[] = []
  for (const [n, script] of scripts.entries()) {
    const more = { confirmation_policy: policies[n % 3], initial_message: { content: 'Begin.' } }
    ids.push(
      (
        await drive.create(
          { llm: scripted(script, { num_retries: 0 }), tool_concurrency_limit: 1 + (n % 3) },
          more,
        )
      ).id,
    )
    if (n % 4 !== 3) continue
    await sleep(Math.random() * 150)
    await server.stop('SIGKILL')
    await start()
    for (const id of ids) await settles(id)
  }
})
