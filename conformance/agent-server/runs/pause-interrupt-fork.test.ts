import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bash,
  brief,
  call,
  calls,
  Driver,
  faultsOf,
  finish,
  type Info,
  scripted,
  texts,
} from '../../support/agent-driver.ts'
import { openServer, type TestServer } from '../../support/agent-server.ts'
import { Api, type Event } from '../../support/agent-server-api.ts'

let server: TestServer
let api: Api
let drive: Driver
let directory: string
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-control-')))
  server = await openServer()
  api = new Api(server)
  drive = new Driver({ api, server, directory })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
})

const is = (what: string) => (event: Event) => brief(event) === what
const isRunning = is('execution_status=running')
const seconds = (from: number) => (performance.now() - from) / 1000

test('pause lets the tool end, begins nothing further, and run goes on with the rest', async () => {
  const { id } = await drive.play([
    calls(call('terminal', { command: 'sleep 1; echo one' }), call('terminal', { command: 'echo two' })),
    finish(),
  ])
  await drive.until(id, is('ActionEvent:terminal'))
  expect((await drive.post(id, 'pause')).status).toBe(200)
  expect((await drive.info(id)).execution_status).toBe('paused')
  expect((await drive.post(id, 'pause')).status).toBe(200)
  await drive.until(id, is('result:terminal'))
  await sleep(200)
  const paused = await drive.events(id)
  expect(paused.filter(is('result:terminal'))).toHaveLength(1)
  expect(paused.filter(is('PauseEvent'))).toHaveLength(1)
  expect((await drive.post(id, 'run')).status).toBe(200)
  const events = await drive.rest(id)
  const results = events.filter(is('result:terminal')).map(texts)
  expect([results[0]?.includes('one'), results[1]?.includes('two'), results.length]).toEqual([true, true, 2])
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(faultsOf(events)).toEqual([])
})

test('pause during a call of the model keeps its answer and does not act on it', async () => {
  const { id } = await drive.play([{ ...bash('echo late'), delay_ms: 700 }, finish()])
  await drive.until(id, isRunning)
  await drive.post(id, 'pause')
  const events = await drive.until(id, is('ActionEvent:terminal'))
  expect(events.map(brief).slice(-3)).toEqual([
    'execution_status=paused',
    'PauseEvent',
    'ActionEvent:terminal',
  ])
  await drive.post(id, 'run')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('interrupt during a call of the model is at once, and nothing of the answer is kept', async () => {
  const { id } = await drive.play([{ ...finish('Never.'), delay_ms: 30_000 }, finish('Now.')])
  await drive.until(id, isRunning)
  const started = performance.now()
  expect((await drive.post(id, 'interrupt')).status).toBe(200)
  expect(seconds(started)).toBeLessThan(5)
  const events = await drive.rest(id)
  expect(events.map(brief).slice(-2)).toEqual(['execution_status=paused', 'PauseEvent'])
  await drive.post(id, 'run')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
  const { body } = await api.json(`/api/conversations/${id}/agent_final_response`)
  expect(body).toEqual({ response: 'Now.' })
})

test('interrupt during a tool ends it soon, answers its call once, and the terminal works on', async () => {
  const { id } = await drive.play([bash('echo $$; sleep 60'), bash('echo back'), finish()])
  await drive.until(id, is('ActionEvent:terminal'))
  await sleep(300)
  const started = performance.now()
  await drive.post(id, 'interrupt')
  expect(seconds(started)).toBeLessThan(10)
  expect((await drive.rest(id)).map(brief).slice(-3)).toEqual([
    'AgentErrorEvent:terminal',
    'execution_status=paused',
    'PauseEvent',
  ])
  await drive.post(id, 'run')
  const events = await drive.rest(id)
  expect(faultsOf(events)).toEqual([])
  expect(texts(events.filter(is('result:terminal')))).toContain('back')
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

test('pauses, interrupts, runs and messages from all sides at once leave a log without a fault that still goes on', async () => {
  // More than can be done in this time, however slow the machine is: the script must not end before the last interrupt.
  const steps = Array.from({ length: 4_000 }, (_, n) => ({ ...bash(`echo ${n}`), delay_ms: 20 }))
  const { id } = await drive.play(steps, { max_iterations: 4_000, stuck_detection: false })
  const answers = await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      await sleep(n * 25)
      const verb = ['pause', 'run', 'interrupt', 'run', 'events'][n % 5] ?? 'run'
      return (await drive.post(id, verb, verb === 'events' ? { content: `m${n}`, run: true } : undefined))
        .status
    }),
  )
  expect(answers.filter((status) => status !== 200 && status !== 409)).toEqual([])
  await drive.post(id, 'interrupt')
  const events = await drive.rest(id)
  expect(faultsOf(events)).toEqual([])
  expect((await drive.info(id)).execution_status).toBe('paused')
  await drive.post(id, 'switch_llm', { llm: scripted(Array.from({ length: 4_900 }, () => finish())) })
  await drive.post(id, 'run')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a confirmation is waited for as a whole; accepted it is done, and said twice it changes nothing', async () => {
  const { id } = await drive.play(
    [calls(call('terminal', { command: 'echo one' }), call('terminal', { command: 'echo two' })), finish()],
    { confirmation_policy: { kind: 'AlwaysConfirm' } },
  )
  const waiting = await drive.rest(id)
  expect(waiting.map(brief).slice(-3)).toEqual([
    'ActionEvent:terminal',
    'ActionEvent:terminal',
    'execution_status=waiting_for_confirmation',
  ])
  const accept = () => drive.post(id, 'events/respond_to_confirmation', { accept: true })
  expect((await Promise.all([accept(), accept()])).map(({ status }) => status)).toEqual([200, 200])
  const events = await drive.rest(id)
  expect(events.filter(is('result:terminal'))).toHaveLength(2)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect((await accept()).status).toBe(200)
  expect(await drive.events(id)).toHaveLength(events.length)
  expect(faultsOf(events)).toEqual([])
})

test('rejected actions are answered with the reason, and the conversation is idle', async () => {
  const { id } = await drive.play([bash('echo no'), finish()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await drive.rest(id)
  await drive.post(id, 'events/respond_to_confirmation', { accept: false, reason: 'Not on a Friday.' })
  const events = await drive.rest(id)
  expect(events.slice(-2)).toMatchObject([
    { kind: 'UserRejectObservation', rejection_reason: 'Not on a Friday.', rejection_source: 'user' },
    { key: 'execution_status', value: 'idle' },
  ])
  await drive.post(id, 'run')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a message in place of a confirmation rejects what waits', async () => {
  const { id } = await drive.play([bash('echo no'), finish()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await drive.rest(id)
  await drive.say(id, 'Do something else.')
  const events = await drive.rest(id)
  expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
    rejection_reason: 'Superseded by a new user message',
  })
  expect(events.some(is('result:terminal'))).toBe(false)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

test('policy and analyzer can be changed in mid-conversation and are told', async () => {
  const { id } = await drive.play([
    calls(call('terminal', { command: 'echo a', security_risk: 'LOW' })),
    'One.',
    calls(call('terminal', { command: 'rm -rf /tmp/nothing-here', security_risk: 'HIGH' })),
    finish(),
  ])
  expect((await drive.rest(id)).some(is('result:terminal'))).toBe(true)
  const policy = { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: false }
  expect((await drive.post(id, 'confirmation_policy', { policy })).status).toBe(200)
  const analyzer = { kind: 'LLMSecurityAnalyzer' }
  expect((await drive.post(id, 'security_analyzer', { security_analyzer: analyzer })).status).toBe(200)
  expect(await drive.info(id)).toMatchObject({ confirmation_policy: policy, security_analyzer: analyzer })
  await drive.say(id, 'Go on.')
  const events = await drive.rest(id)
  expect(events.at(-1)).toMatchObject({ value: 'waiting_for_confirmation' })
  expect(events.find(({ key }) => key === 'confirmation_policy')?.value).toEqual(policy)
  expect(events.find(({ key }) => key === 'security_analyzer')?.value).toEqual(analyzer)
  expect((await drive.post(id, 'security_analyzer', {})).status).toBe(422)
  expect((await drive.post(id, 'security_analyzer', { security_analyzer: null })).status).toBe(200)
  expect((await drive.info(id)).security_analyzer).toBe(null)
  expect((await drive.post(id, 'confirmation_policy', { policy: { kind: 'Perhaps' } })).status).toBe(422)
  await drive.post(id, 'run')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a secret is in the environment of the command that names it, and its value is hidden in what comes back', async () => {
  const value = `value-${randomUUID()}`
  const later = `later-${randomUUID()}`
  const { id } = await drive.play(
    [
      bash('printf %s "$TOKEN_A" | tee seen-a | wc -c; cat seen-a'),
      bash('env | grep -c "^TOKEN_B" ; echo "other $(cat seen-a)"'),
      'Waiting.',
      bash('printf %s "$TOKEN_B" > seen-b; cat seen-b'),
      finish(`The values are ${value} and ${later}.`),
    ],
    { secrets: { TOKEN_A: { kind: 'StaticSecret', value } } },
  )
  await drive.rest(id)
  expect((await drive.post(id, 'secrets', { secrets: { TOKEN_B: later } })).status).toBe(200)
  await drive.say(id, `Here it is: ${later}`)
  const events = await drive.rest(id)
  const results = events.filter(is('result:terminal')).map(texts)
  expect(results[0]).toContain(`${value.length}\n`)
  expect(results[0]).toContain('<secret-hidden>')
  expect(results[1]).toContain('\n0\nother <secret-hidden>')
  expect(results[2]).toContain('<secret-hidden>')
  const all = JSON.stringify([events, await drive.info(id)])
  expect([all.includes(value), all.includes(later)]).toEqual([false, false])
  expect((await drive.info(id)).secret_registry).toMatchObject({
    secret_sources: { TOKEN_A: { value: null }, TOKEN_B: { value: null, kind: 'StaticSecret' } },
  })
})

test('a question beside the conversation leaves no event but counts as used', async () => {
  const llm = scripted([finish(), { text: 'Aside.', side: true }])
  const { id } = await drive.create({ llm }, { initial_message: { content: 'Begin.' } })
  const events = await drive.rest(id)
  const { status, body } = await drive.post(id, 'ask_agent', { question: 'How is it?' })
  expect(status).toBe(200)
  expect((body as { response: string }).response.length).toBeGreaterThan(0)
  expect(await drive.events(id)).toHaveLength(events.length)
  const { usage_to_metrics } = (await drive.info(id)).stats as { usage_to_metrics: object }
  expect(Object.keys(usage_to_metrics).sort()).toEqual(['agent', 'ask-agent-llm'])
  expect((await drive.info(id)).execution_status).toBe('finished')
})

test('a question that the model does not answer says why', async () => {
  const error = { code: 'LLMAuthenticationError', detail: 'No such key.' }
  const { id } = await drive.create({ llm: scripted([{ error }, { error, side: true }]) })
  const { status, body } = await drive.post(id, 'ask_agent', { question: 'How is it?' })
  expect([status, JSON.stringify(body)]).toEqual([expect.any(Number), expect.stringContaining('No such key')])
  expect([400, 409, 502, 503]).toContain(status)
})

test('condense without a condenser is 409; with one the middle is summed up, and the run goes on', async () => {
  const none = await drive.play([finish()])
  await drive.rest(none.id)
  expect((await drive.post(none.id, 'condense')).status).toBe(409)
  const script = [
    ...Array.from({ length: 6 }, (_, n) => bash(`echo step ${n}`)),
    'Enough.',
    finish(),
    { text: 'Six steps were done.', side: true },
  ]
  const condenser = { kind: 'LLMSummarizingCondenser', max_size: 100, keep_first: 2 }
  const { id } = await drive.create(
    { llm: scripted(script), condenser },
    { initial_message: { content: 'Begin.' } },
  )
  await drive.rest(id)
  expect(await drive.post(id, 'condense')).toEqual({ status: 200, body: { success: true } })
  const events = await drive.events(id)
  expect(events.map(brief).slice(-2)).toEqual(['CondensationRequest', 'Condensation'])
  const condensation = events.at(-1)
  expect(condensation).toMatchObject({ summary: 'Six steps were done.', summary_offset: expect.any(Number) })
  const forgotten = new Set(condensation?.forgotten_event_ids as string[])
  expect(forgotten.size).toBeGreaterThan(2)
  expect(events.filter(({ id: event }) => forgotten.has(event))).toHaveLength(forgotten.size)
  await drive.say(id, 'Go on.')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a title can be written at any time, by another model too, no longer than asked', async () => {
  const { id } = await drive.play([finish()])
  await drive.rest(id)
  const own = await drive.post(id, 'generate_title')
  expect(own).toEqual({ status: 200, body: { title: 'Scripted answer.' } })
  const llm = scripted([{ text: 'A long title about many things', side: true }])
  const other = await drive.post(id, 'generate_title', { llm, max_length: 12 })
  expect(other.body).toEqual({ title: 'A long ti...' })
  expect((await drive.post(id, 'generate_title', { max_length: 0 })).status).toBe(422)
})

test('switch_llm goes on with another model, which stays after more messages', async () => {
  const { id } = await drive.play(['From the first.'])
  await drive.rest(id)
  const llm = scripted(['x', 'From the second.', 'Again the second.'], {
    model: 'scripted/second',
    usage_id: 'second',
    api_key: 'sk-of-the-second-1',
  })
  expect((await drive.post(id, 'switch_llm', { llm })).status).toBe(200)
  await drive.say(id, 'More.')
  await drive.rest(id)
  const info = await drive.info(id)
  expect(info.agent).toMatchObject({ llm: { model: 'scripted/second', usage_id: 'second', api_key: null } })
  expect(Object.keys((info.stats as { usage_to_metrics: object }).usage_to_metrics)).toEqual([
    'agent',
    'second',
  ])
  const events = await drive.events(id)
  expect(texts(events.findLast(is('message:agent')))).toContain('From the second.')
  const told = events.find(({ key }) => key === 'agent')
  expect(told?.value).toMatchObject({ llm: { model: 'scripted/second' } })
  expect(JSON.stringify([events, info])).not.toContain('sk-of-the-second-1')
  expect((await drive.post(id, 'switch_llm', { llm: {} })).status).toBe(422)
})

test('switch_profile takes the model of a profile; one that is not there is not found', async () => {
  const { id } = await drive.play(['One.'])
  await drive.rest(id)
  const unknown = await drive.post(id, 'switch_profile', { profile_name: 'nobody' })
  expect(unknown.status).toBe(404)
  const name = `fast-${randomUUID().slice(0, 8)}`
  const llm = scripted(['x', 'By profile.'], { api_key: 'sk-of-the-profile-1' })
  await api.send('POST', `/api/profiles/${name}`, { llm, include_secrets: true })
  expect((await drive.post(id, 'switch_profile', { profile_name: name })).status).toBe(200)
  await drive.say(id, 'More.')
  expect(texts((await drive.rest(id)).findLast(is('message:agent')))).toContain('By profile.')
  expect((await drive.info(id)).agent).toMatchObject({ llm: { usage_id: `profile:${name}` } })
})

test('maps of texts stay maps of texts where their secrets are hidden, and addresses lose their keys', async () => {
  const { agent } = await drive.create({
    llm: scripted([], { extra_headers: { 'x-team': 'sk-header-1' } }),
    tools: [{ name: 'terminal', params: { env: { A: 'sk-tool-1' } } }],
    mcp_config: {
      off: {
        url: 'https://me:pa55word@localhost/?apiKey=sk-url-1&x=1',
        headers: { b: 'sk-mcp-1' },
        disabled: true,
      },
    },
    agent_context: { secrets: { C: 'sk-context-1' } },
  })
  expect(agent).toMatchObject({
    llm: { extra_headers: { 'x-team': '**********' } },
    tools: [{ params: { env: { A: '**********' } } }],
    mcp_config: { off: { url: 'https://****@localhost/?apiKey=****&x=1', headers: { b: '**********' } } },
    agent_context: { secrets: { C: { kind: 'StaticSecret', value: null } } },
  })
})

test('a fork has the same events byte for byte, the settings, and a title; it goes on by itself', async () => {
  const { id } = await drive.play([bash('echo one'), finish('First.'), finish('Second.')], {
    tags: { team: 'x' },
  })
  const events = await drive.rest(id)
  const { status, body } = await drive.post(id, 'fork', { title: 'Branch' })
  const fork = body as Info
  expect([status, fork]).toMatchObject([
    201,
    {
      execution_status: 'idle',
      title: 'Branch',
      tags: { team: 'x', title: 'Branch' },
      forked_from_conversation_id: id,
      forked_from_event_id: events.at(-1)?.id,
      metrics: null,
      agent: { llm: { model: 'scripted/test' }, tools: [{ name: 'terminal' }] },
    },
  ])
  const [source, copy] = [(await api.export(id)).toString(), (await api.export(fork.id)).toString()]
  expect(copy.startsWith(source)).toBe(true)
  await drive.say(fork.id, 'Go on.')
  expect((await drive.rest(fork.id)).at(-1)).toMatchObject({ value: 'finished' })
  expect(await drive.events(id)).toHaveLength(events.length)
})

test('a fork at an event ends there; a call without a result is answered, and the status is idle', async () => {
  const { id } = await drive.play([bash('echo one'), bash('echo two'), finish()])
  const events = await drive.rest(id)
  const actions = events.filter(is('ActionEvent:terminal'))
  const forkId = randomUUID()
  const { status, body } = await drive.post(id, 'fork', {
    id: forkId,
    from_event_id: actions[1]?.id,
    tags: { a: 'b' },
  })
  expect([status, body]).toMatchObject([
    201,
    { id: forkId, execution_status: 'idle', tags: { a: 'b' }, forked_from_event_id: actions[1]?.id },
  ])
  const copied = await drive.events(forkId)
  const cut = events.findIndex((event) => event.id === actions[1]?.id)
  expect(copied.slice(0, cut + 1)).toEqual(events.slice(0, cut + 1))
  expect(copied.slice(cut + 1).map(brief)).toEqual(['AgentErrorEvent:terminal', 'execution_status=idle'])
  expect(faultsOf(copied)).toEqual([])
  expect((await drive.post(id, 'fork', { id: forkId })).status).toBe(409)
  expect((await drive.post(id, 'fork', { from_event_id: 'nowhere' })).status).toBe(404)
  await drive.say(forkId, 'Go on.')
  expect((await drive.rest(forkId)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a fork of a conversation that runs leaves it running, and answers what it had not done', async () => {
  const { id } = await drive.play([bash('sleep 1'), finish()])
  await drive.until(id, is('ActionEvent:terminal'))
  const fork = (await drive.post(id, 'fork')).body as Info
  expect(fork.execution_status).toBe('idle')
  expect((await drive.info(id)).execution_status).toBe('running')
  expect(faultsOf(await drive.events(fork.id))).toEqual([])
  const events = await drive.rest(id)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(faultsOf(events)).toEqual([])
  await drive.post(fork.id, 'run')
  expect((await drive.rest(fork.id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a fork takes metrics along when asked', async () => {
  const { id } = await drive.play([finish()])
  await drive.rest(id)
  const { body } = await drive.post(id, 'fork', { reset_metrics: false })
  expect((body as Info).metrics).toEqual((await drive.info(id)).metrics)
})

test('deleted while it runs, a conversation is gone with its processes, its files and its sockets', async () => {
  const mark = `slipway-deleted-${randomUUID()}`
  const info = await drive.play([bash(`exec -a ${mark} sleep 300`), finish()])
  await drive.until(info.id, is('ActionEvent:terminal'))
  await using client = drive.open(`/sockets/events/${info.id}`)
  await client.until((events) => events.length > 0)
  const closed = new Promise((resolve) => client.socket.on('close', resolve))
  const { status } = await api.json(`/api/conversations/${info.id}`, { method: 'DELETE' })
  expect(status).toBe(200)
  expect(await closed).toBe(4004)
  expect((await api.json(`/api/conversations/${info.id}`)).status).toBe(404)
  expect(await processes(mark)).toEqual([])
  expect(await stat(String(info.persistence_dir)).catch(() => 'gone')).toBe('gone')
  const again = await drive.ask({ llm: scripted([finish()]) }, { conversation_id: info.id })
  expect(again.status).toBe(201)
  expect(await drive.events(info.id)).toEqual([])
})

test('while a conversation is deleted over and over, nothing else fails', async () => {
  const id = randomUUID()
  const statuses = new Set<number>()
  for (let round = 0; round < 8; round++) {
    const { status } = await drive.ask(
      { llm: scripted([bash('echo x'), bash('echo y'), finish()]) },
      { conversation_id: id, initial_message: { content: 'Begin.' } },
    )
    statuses.add(status)
    const answers = await Promise.all([
      drive.post(id, 'run'),
      drive.say(id, 'More.'),
      api.json(`/api/conversations/${id}`, { method: 'DELETE' }),
      drive.post(id, 'pause'),
      drive.post(id, 'fork'),
      api.json(`/api/conversations/${id}`),
    ])
    for (const answer of answers) statuses.add(answer.status)
    await api.json(`/api/conversations/${id}`, { method: 'DELETE' })
  }
  expect([...statuses].filter((status) => ![200, 201, 404, 409].includes(status))).toEqual([])
})

test('an idempotent message that is sent again is stored and run once', async () => {
  const { id } = await drive.create({ llm: scripted(['One.', 'Two.']) })
  const send = () =>
    api.json(`/api/conversations/${id}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
      body: JSON.stringify({ content: 'Begin.', run: true }),
    })
  await Promise.all([send(), send(), send()])
  await drive.rest(id)
  await send()
  const events = await drive.rest(id)
  expect(events.filter(is('message:user'))).toHaveLength(1)
  expect(events.filter(is('message:agent'))).toHaveLength(1)
})

test('hooks of the request decide over tools and the end of a run', async () => {
  await writeFile(join(directory, 'deny.sh'), 'cat > /dev/null; echo "not allowed here" >&2; exit 2\n')
  const hook_config = {
    pre_tool_use: [{ matcher: 'terminal', hooks: [{ command: `sh ${join(directory, 'deny.sh')}` }] }],
  }
  const { id } = await drive.play([bash('echo never'), finish()], { hook_config })
  const events = await drive.rest(id)
  expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
    rejection_source: 'hook',
    rejection_reason: expect.stringContaining('not allowed here'),
  })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

/** Processes whose command line holds a mark. */
async function processes(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')),
  )
  return lines.filter((line) => line.includes(mark))
}
