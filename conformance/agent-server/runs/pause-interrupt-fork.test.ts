import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { actionsDigest } from '@slipway/protocol/confirmation'
import { expect, test } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  collectTexts,
  eventLabel,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../../support/agent-driver.ts'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'

const { api, driver, directory } = await openAgentFixture()

const hasLabel = (what: string) => (event: ApiEvent) => eventLabel(event) === what
const isRunning = hasLabel('execution_status=running')
const secondsSince = (from: number) => (performance.now() - from) / 1000

test('pause lets the tool end and starts nothing else, and run continues with the rest', async () => {
  const { id } = await driver.createScripted([
    toolCallsStep(
      toolCall('terminal', { command: 'sleep 1; echo one' }),
      toolCall('terminal', { command: 'echo two' }),
    ),
    finishStep(),
  ])
  await driver.waitForEvent(id, hasLabel('ActionEvent:terminal'))
  expect((await driver.post(id, 'pause')).status).toBe(200)
  expect((await driver.getInfo(id)).execution_status).toBe('paused')
  expect((await driver.post(id, 'pause')).status).toBe(200)
  await driver.waitForEvent(id, hasLabel('result:terminal'))
  await sleep(200)
  const paused = await driver.getEvents(id)
  expect(paused.filter(hasLabel('result:terminal'))).toHaveLength(1)
  expect(paused.filter(hasLabel('PauseEvent'))).toHaveLength(1)
  expect((await driver.post(id, 'run')).status).toBe(200)
  const events = await driver.waitUntilIdle(id)
  const results = events.filter(hasLabel('result:terminal')).map(collectTexts)
  expect([results[0]?.includes('one'), results[1]?.includes('two'), results.length]).toEqual([true, true, 2])
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(findLogIssues(events)).toEqual([])
})

test('pause during a model call stores the reply and does not act on it', async () => {
  const { id } = await driver.createScripted([{ ...bashStep('echo late'), delay_ms: 700 }, finishStep()])
  await driver.waitForEvent(id, isRunning)
  await driver.post(id, 'pause')
  const events = await driver.waitForEvent(id, hasLabel('ActionEvent:terminal'))
  expect(events.map(eventLabel).slice(-3)).toEqual([
    'execution_status=paused',
    'PauseEvent',
    'ActionEvent:terminal',
  ])
  await driver.post(id, 'run')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('interrupt during a model call is immediate, and nothing of the reply is stored', async () => {
  const { id } = await driver.createScripted([
    { ...finishStep('Never.'), delay_ms: 30_000 },
    finishStep('Now.'),
  ])
  await driver.waitForEvent(id, isRunning)
  const started = performance.now()
  expect((await driver.post(id, 'interrupt')).status).toBe(200)
  expect(secondsSince(started)).toBeLessThan(5)
  const events = await driver.waitUntilIdle(id)
  expect(events.map(eventLabel).slice(-2)).toEqual(['execution_status=paused', 'PauseEvent'])
  await driver.post(id, 'run')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
  const { body } = await api.requestJson(`/api/conversations/${id}/agent_final_response`)
  expect(body).toEqual({ response: 'Now.' })
})

test('interrupt during a tool ends it soon, answers its call once, and the terminal stays usable', async () => {
  const { id } = await driver.createScripted([
    bashStep('echo $$; sleep 60'),
    bashStep('echo back'),
    finishStep(),
  ])
  await driver.waitForEvent(id, hasLabel('ActionEvent:terminal'))
  await sleep(300)
  const started = performance.now()
  await driver.post(id, 'interrupt')
  expect(secondsSince(started)).toBeLessThan(10)
  expect((await driver.waitUntilIdle(id)).map(eventLabel).slice(-3)).toEqual([
    'AgentErrorEvent:terminal',
    'execution_status=paused',
    'PauseEvent',
  ])
  await driver.post(id, 'run')
  const events = await driver.waitUntilIdle(id)
  expect(findLogIssues(events)).toEqual([])
  expect(collectTexts(events.filter(hasLabel('result:terminal')))).toContain('back')
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

test('concurrent pauses, interrupts, runs and messages leave a consistent log, and the conversation can continue', async () => {
  // More steps than even a fast machine completes in this time: the script must not end before the last
  // interrupt.
  const steps = Array.from({ length: 4_000 }, (_, n) => ({ ...bashStep(`echo ${n}`), delay_ms: 20 }))
  const { id } = await driver.createScripted(steps, { max_iterations: 4_000, stuck_detection: false })
  const answers = await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      await sleep(n * 25)
      const verb = ['pause', 'run', 'interrupt', 'run', 'events'][n % 5] ?? 'run'
      return (
        await driver.post(
          id,
          verb,
          verb === 'events' ? { content: [{ type: 'text', text: `m${n}` }], run: true } : undefined,
        )
      ).status
    }),
  )
  expect(answers.filter((status) => status !== 200 && status !== 409)).toEqual([])
  await driver.post(id, 'interrupt')
  const events = await driver.waitUntilIdle(id)
  expect(findLogIssues(events)).toEqual([])
  expect((await driver.getInfo(id)).execution_status).toBe('paused')
  await driver.post(id, 'switch_llm', {
    llm: scriptedModel(Array.from({ length: 4_900 }, () => finishStep())),
  })
  await driver.post(id, 'run')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('all actions wait for one confirmation; accepted they are executed, and a repeat changes nothing', async () => {
  const { id } = await driver.createScripted(
    [
      toolCallsStep(
        toolCall('terminal', { command: 'echo one' }),
        toolCall('terminal', { command: 'echo two' }),
      ),
      finishStep(),
    ],
    { confirmation_policy: { kind: 'AlwaysConfirm' } },
  )
  const waiting = await driver.waitUntilIdle(id)
  expect(waiting.map(eventLabel).slice(-3)).toEqual([
    'ActionEvent:terminal',
    'ActionEvent:terminal',
    'execution_status=waiting_for_confirmation',
  ])
  const accept = () => driver.post(id, 'events/respond_to_confirmation', { accept: true })
  expect((await Promise.all([accept(), accept()])).map(({ status }) => status)).toEqual([200, 200])
  const events = await driver.waitUntilIdle(id)
  expect(events.filter(hasLabel('result:terminal'))).toHaveLength(2)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect((await accept()).status).toBe(200)
  expect(await driver.getEvents(id)).toHaveLength(events.length)
  expect(findLogIssues(events)).toEqual([])
})

test('rejected actions are answered with the reason, and the conversation is idle', async () => {
  const { id } = await driver.createScripted([bashStep('echo no'), finishStep()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await driver.waitUntilIdle(id)
  await driver.post(id, 'events/respond_to_confirmation', { accept: false, reason: 'Not on a Friday.' })
  const events = await driver.waitUntilIdle(id)
  expect(events.slice(-2)).toMatchObject([
    { kind: 'UserRejectObservation', rejection_reason: 'Not on a Friday.', rejection_source: 'user' },
    { key: 'execution_status', value: 'idle' },
  ])
  await driver.post(id, 'run')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('an answer that names other actions than those that wait is 409 and changes nothing', async () => {
  const { id } = await driver.createScripted([bashStep('echo one'), bashStep('echo two'), finishStep()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  const lastAction = async () =>
    (await driver.waitUntilIdle(id)).findLast(({ kind }) => kind === 'ActionEvent')?.id
  const respond = (body: object) => driver.post(id, 'events/respond_to_confirmation', body)
  const first = await lastAction()
  for (const action_ids of [[], 'x', [1]])
    expect((await respond({ accept: true, action_ids })).status).toBe(422)
  const both = await Promise.all([1, 2].map(() => respond({ accept: true, action_ids: [first] })))
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
  const second = await lastAction()
  expect(second).not.toBe(first)
  const length = (await driver.getEvents(id)).length
  for (const accept of [true, false])
    expect((await respond({ accept, action_ids: [first] })).status).toBe(409)
  expect(await driver.getEvents(id)).toHaveLength(length)
  expect((await respond({ accept: true, action_ids: [first, second] })).status).toBe(200)
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
  expect((await respond({ accept: true, action_ids: [second] })).status).toBe(409)
})

test('an answer is for the actions whose digest it carries: when others wait it is 409, and nothing runs', async () => {
  const script = [bashStep('touch one'), bashStep('touch two'), finishStep()]
  const { id, workspace } = await driver.createScripted(script, {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  const respond = async (body: object) =>
    (await driver.post(id, 'events/respond_to_confirmation', body)).status
  const shown = async () => {
    const waiting = (await driver.waitUntilIdle(id)).filter(({ kind }) => kind === 'ActionEvent').slice(-1)
    return { waiting, digest: actionsDigest(waiting) }
  }
  const first = await shown()
  for (const actions_digest of ['', 'md5:1', first.digest.toUpperCase(), 7])
    expect(await respond({ accept: true, actions_digest })).toBe(422)
  // What was shown had another command, another risk, or one action more.
  for (const changed of [
    first.waiting.map((event) => ({ ...event, action: { kind: 'TerminalAction', command: 'ls' } })),
    first.waiting.map((event) => ({ ...event, security_risk: 'HIGH' })),
    [...first.waiting, ...first.waiting],
  ])
    expect(await respond({ accept: true, actions_digest: actionsDigest(changed) })).toBe(409)
  // Another client rejects the first action while the question is open, and the agent asks for another one.
  expect(await respond({ accept: false, reason: 'Not this.', actions_digest: first.digest })).toBe(200)
  await driver.post(id, 'run')
  const second = await shown()
  expect(second.digest).not.toBe(first.digest)
  const length = (await driver.getEvents(id)).length
  const late = await driver.post(id, 'events/respond_to_confirmation', {
    accept: true,
    actions_digest: first.digest,
  })
  expect(late.status).toBe(409)
  expect(JSON.stringify(late.body)).toContain('The actions that wait are not the ones that were shown')
  expect(await driver.getEvents(id)).toHaveLength(length)
  expect((await driver.getInfo(id)).execution_status).toBe('waiting_for_confirmation')
  // Of two answers for the same actions one counts.
  const body = { accept: true, actions_digest: second.digest }
  expect((await Promise.all([respond(body), respond(body)])).sort()).toEqual([200, 409])
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
  expect(existsSync(join(workspace.working_dir, 'one'))).toBe(false)
  expect(existsSync(join(workspace.working_dir, 'two'))).toBe(true)
})

test('a message instead of a confirmation rejects the pending actions', async () => {
  const { id } = await driver.createScripted([bashStep('echo no'), finishStep()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await driver.waitUntilIdle(id)
  await driver.sendMessage(id, 'Do something else.')
  const events = await driver.waitUntilIdle(id)
  expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
    rejection_reason: 'Superseded by a new user message',
  })
  expect(events.some(hasLabel('result:terminal'))).toBe(false)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

test('policy and analyzer can be changed during a conversation and are returned', async () => {
  const { id } = await driver.createScripted([
    toolCallsStep(toolCall('terminal', { command: 'echo a', security_risk: 'LOW' })),
    'One.',
    toolCallsStep(toolCall('terminal', { command: 'rm -rf /tmp/nothing-here', security_risk: 'HIGH' })),
    finishStep(),
  ])
  expect((await driver.waitUntilIdle(id)).some(hasLabel('result:terminal'))).toBe(true)
  const policy = { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: false }
  expect((await driver.post(id, 'confirmation_policy', { policy })).status).toBe(200)
  const analyzer = { kind: 'LLMSecurityAnalyzer' }
  expect((await driver.post(id, 'security_analyzer', { security_analyzer: analyzer })).status).toBe(200)
  expect(await driver.getInfo(id)).toMatchObject({ confirmation_policy: policy, security_analyzer: analyzer })
  await driver.sendMessage(id, 'Continue.')
  const events = await driver.waitUntilIdle(id)
  expect(events.at(-1)).toMatchObject({ value: 'waiting_for_confirmation' })
  expect(events.find(({ key }) => key === 'confirmation_policy')?.value).toEqual(policy)
  expect(events.find(({ key }) => key === 'security_analyzer')?.value).toEqual(analyzer)
  expect((await driver.post(id, 'security_analyzer', {})).status).toBe(422)
  expect((await driver.post(id, 'security_analyzer', { security_analyzer: null })).status).toBe(200)
  expect((await driver.getInfo(id)).security_analyzer).toBe(null)
  expect((await driver.post(id, 'confirmation_policy', { policy: { kind: 'Perhaps' } })).status).toBe(422)
  await driver.post(id, 'run')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a secret is in the environment of the command that names it, and its value is redacted in the output', async () => {
  const value = `value-${randomUUID()}`
  const later = `later-${randomUUID()}`
  const { id } = await driver.createScripted(
    [
      bashStep('printf %s "$TOKEN_A" | tee seen-a | wc -c; cat seen-a'),
      bashStep('env | grep -c "^TOKEN_B" ; echo "other $(cat seen-a)"'),
      'Waiting.',
      bashStep('printf %s "$TOKEN_B" > seen-b; cat seen-b'),
      finishStep(`The values are ${value} and ${later}.`),
    ],
    { secrets: { TOKEN_A: { kind: 'StaticSecret', value } } },
  )
  await driver.waitUntilIdle(id)
  expect((await driver.post(id, 'secrets', { secrets: { TOKEN_B: later } })).status).toBe(200)
  await driver.sendMessage(id, `Here it is: ${later}`)
  const events = await driver.waitUntilIdle(id)
  const results = events.filter(hasLabel('result:terminal')).map(collectTexts)
  expect(results[0]).toContain(`${value.length}\n`)
  expect(results[0]).toContain('<secret-hidden>')
  expect(results[1]).toContain('\n0\nother <secret-hidden>')
  expect(results[2]).toContain('<secret-hidden>')
  const all = JSON.stringify([events, await driver.getInfo(id)])
  expect([all.includes(value), all.includes(later)]).toEqual([false, false])
  expect((await driver.getInfo(id)).secret_registry).toMatchObject({
    secret_sources: {
      TOKEN_A: { value: '**********' },
      TOKEN_B: { value: '**********', kind: 'StaticSecret' },
    },
  })
})

test('a side question leaves no event and counts as usage', async () => {
  const llm = scriptedModel([finishStep(), { text: 'Aside.', side: true }])
  const { id } = await driver.create(
    { llm },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  const events = await driver.waitUntilIdle(id)
  const { status, body } = await driver.post(id, 'ask_agent', { question: 'How is it?' })
  expect(status).toBe(200)
  expect((body as { response: string }).response.length).toBeGreaterThan(0)
  expect(await driver.getEvents(id)).toHaveLength(events.length)
  const { usage_to_metrics } = (await driver.getInfo(id)).stats as { usage_to_metrics: object }
  expect(Object.keys(usage_to_metrics).sort()).toEqual(['agent', 'ask-agent-llm'])
  expect((await driver.getInfo(id)).execution_status).toBe('finished')
})

test('a side question without a reply reports the reason', async () => {
  const error = { code: 'LLMAuthenticationError', detail: 'No such key.' }
  const { id } = await driver.create({ llm: scriptedModel([{ error }, { error, side: true }]) })
  const { status, body } = await driver.post(id, 'ask_agent', { question: 'How is it?' })
  expect([status, JSON.stringify(body)]).toEqual([expect.any(Number), expect.stringContaining('No such key')])
  expect([400, 409, 502, 503]).toContain(status)
})

test('condense without a condenser is 409; with one the middle is summarised, and the run continues', async () => {
  const none = await driver.createScripted([finishStep()])
  await driver.waitUntilIdle(none.id)
  expect((await driver.post(none.id, 'condense')).status).toBe(409)
  const script = [
    ...Array.from({ length: 6 }, (_, n) => bashStep(`echo step ${n}`)),
    'Enough.',
    finishStep(),
    { text: 'Six steps were done.', side: true },
  ]
  const condenser = { kind: 'LLMSummarizingCondenser', max_size: 100, keep_first: 2 }
  const { id } = await driver.create(
    { llm: scriptedModel(script), condenser },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  await driver.waitUntilIdle(id)
  expect(await driver.post(id, 'condense')).toEqual({ status: 200, body: { success: true } })
  const events = await driver.getEvents(id)
  expect(events.map(eventLabel).slice(-2)).toEqual(['CondensationRequest', 'Condensation'])
  const condensation = events.at(-1)
  expect(condensation).toMatchObject({ summary: 'Six steps were done.', summary_offset: expect.any(Number) })
  const forgotten = new Set(condensation?.forgotten_event_ids as string[])
  expect(forgotten.size).toBeGreaterThan(2)
  expect(events.filter(({ id: event }) => forgotten.has(event))).toHaveLength(forgotten.size)
  await driver.sendMessage(id, 'Continue.')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a title can be generated at any time, by another model too, within the requested length', async () => {
  const { id } = await driver.createScripted([finishStep()])
  await driver.waitUntilIdle(id)
  const own = await driver.post(id, 'generate_title')
  expect(own).toEqual({ status: 200, body: { title: 'Scripted answer.' } })
  const llm = scriptedModel([{ text: 'A long title about many things', side: true }])
  const other = await driver.post(id, 'generate_title', { llm, max_length: 12 })
  expect(other.body).toEqual({ title: 'A long ti...' })
  expect((await driver.post(id, 'generate_title', { max_length: 0 })).status).toBe(422)
})

test('switch_llm continues with another model, which stays after more messages', async () => {
  const { id } = await driver.createScripted(['From the first.'])
  await driver.waitUntilIdle(id)
  const llm = scriptedModel(['x', 'From the second.', 'Again the second.'], {
    model: 'scripted/second',
    usage_id: 'second',
    api_key: 'sk-of-the-second-1',
  })
  expect((await driver.post(id, 'switch_llm', { llm })).status).toBe(200)
  await driver.sendMessage(id, 'More.')
  await driver.waitUntilIdle(id)
  const info = await driver.getInfo(id)
  expect(info.agent).toMatchObject({ llm: { model: 'scripted/second', usage_id: 'second', api_key: null } })
  expect(Object.keys((info.stats as { usage_to_metrics: object }).usage_to_metrics)).toEqual([
    'agent',
    'second',
  ])
  const events = await driver.getEvents(id)
  expect(collectTexts(events.findLast(hasLabel('message:agent')))).toContain('From the second.')
  const reported = events.find(({ key }) => key === 'agent')
  expect(reported?.value).toMatchObject({ llm: { model: 'scripted/second' } })
  expect(JSON.stringify([events, info])).not.toContain('sk-of-the-second-1')
  expect((await driver.post(id, 'switch_llm', { llm: {} })).status).toBe(422)
})

test('switch_profile uses the model of a profile; an unknown profile is 404', async () => {
  const { id } = await driver.createScripted(['One.'])
  await driver.waitUntilIdle(id)
  const unknown = await driver.post(id, 'switch_profile', { profile_name: 'nobody' })
  expect(unknown.status).toBe(404)
  const name = `fast-${randomUUID().slice(0, 8)}`
  const llm = scriptedModel(['x', 'By profile.'], { api_key: 'sk-of-the-profile-1' })
  await api.sendJson('POST', `/api/profiles/${name}`, { llm, include_secrets: true })
  expect((await driver.post(id, 'switch_profile', { profile_name: name })).status).toBe(200)
  await driver.sendMessage(id, 'More.')
  expect(collectTexts((await driver.waitUntilIdle(id)).findLast(hasLabel('message:agent')))).toContain(
    'By profile.',
  )
  expect((await driver.getInfo(id)).agent).toMatchObject({ llm: { usage_id: `profile:${name}` } })
})

test('redacted maps of texts stay maps of texts, and addresses lose their keys', async () => {
  const { agent } = await driver.create({
    llm: scriptedModel([], { extra_headers: { 'x-team': 'sk-header-1' } }),
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

test('a fork has the same events byte for byte, the settings, and a title; it is independent', async () => {
  const { id } = await driver.createScripted(
    [bashStep('echo one'), finishStep('First.'), finishStep('Second.')],
    {
      tags: { team: 'x' },
    },
  )
  const events = await driver.waitUntilIdle(id)
  const { status, body } = await driver.post(id, 'fork', { title: 'Branch' })
  const fork = body as ConversationInfo
  expect([status, fork]).toMatchObject([
    201,
    {
      execution_status: 'idle',
      title: 'Branch',
      tags: { team: 'x', title: 'Branch' },
      forked_from_conversation_id: id,
      forked_from_event_id: null,
      metrics: null,
      agent: { llm: { model: 'scripted/test' }, tools: [{ name: 'terminal' }] },
    },
  ])
  const [source, copy] = [(await api.export(id)).toString(), (await api.export(fork.id)).toString()]
  expect(copy.startsWith(source)).toBe(true)
  await driver.sendMessage(fork.id, 'Continue.')
  expect((await driver.waitUntilIdle(fork.id)).at(-1)).toMatchObject({ value: 'finished' })
  expect(await driver.getEvents(id)).toHaveLength(events.length)
})

test('a fork at an event ends there; a call without a result is answered, and the status is idle', async () => {
  const { id } = await driver.createScripted([bashStep('echo one'), bashStep('echo two'), finishStep()])
  const events = await driver.waitUntilIdle(id)
  const actions = events.filter(hasLabel('ActionEvent:terminal'))
  const forkId = randomUUID()
  const { status, body } = await driver.post(id, 'fork', {
    id: forkId,
    from_event_id: actions[1]?.id,
    tags: { a: 'b' },
  })
  expect([status, body]).toMatchObject([
    201,
    { id: forkId, execution_status: 'idle', tags: { a: 'b' }, forked_from_event_id: actions[1]?.id },
  ])
  const copied = await driver.getEvents(forkId)
  const cut = events.findIndex((event) => event.id === actions[1]?.id)
  expect(copied.slice(0, cut + 1)).toEqual(events.slice(0, cut + 1))
  expect(copied.slice(cut + 1).map(eventLabel)).toEqual(['AgentErrorEvent:terminal', 'execution_status=idle'])
  expect(findLogIssues(copied)).toEqual([])
  expect((await driver.post(id, 'fork', { id: forkId })).status).toBe(409)
  expect((await driver.post(id, 'fork', { from_event_id: 'nowhere' })).status).toBe(404)
  await driver.sendMessage(forkId, 'Continue.')
  expect((await driver.waitUntilIdle(forkId)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a fork of a running conversation leaves it running, and answers the open calls of the copy', async () => {
  const { id } = await driver.createScripted([bashStep('sleep 1'), finishStep()])
  await driver.waitForEvent(id, hasLabel('ActionEvent:terminal'))
  const fork = (await driver.post(id, 'fork')).body as ConversationInfo
  expect(fork.execution_status).toBe('idle')
  expect((await driver.getInfo(id)).execution_status).toBe('running')
  expect(findLogIssues(await driver.getEvents(fork.id))).toEqual([])
  const events = await driver.waitUntilIdle(id)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(findLogIssues(events)).toEqual([])
  await driver.post(fork.id, 'run')
  expect((await driver.waitUntilIdle(fork.id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('a fork copies metrics on request', async () => {
  const { id } = await driver.createScripted([finishStep()])
  await driver.waitUntilIdle(id)
  const { body } = await driver.post(id, 'fork', { reset_metrics: false })
  expect((body as ConversationInfo).metrics).toEqual((await driver.getInfo(id)).metrics)
})

test('deleting a running conversation ends its processes, files and sockets', async () => {
  const mark = `slipway-deleted-${randomUUID()}`
  const info = await driver.createScripted([bashStep(`exec -a ${mark} sleep 300`), finishStep()])
  await driver.waitForEvent(info.id, hasLabel('ActionEvent:terminal'))
  await using client = driver.openSocket(`/sockets/events/${info.id}`)
  await client.waitUntil((events) => events.length > 0)
  const closed = new Promise((resolve) => client.socket.on('close', resolve))
  const { status } = await api.requestJson(`/api/conversations/${info.id}`, { method: 'DELETE' })
  expect(status).toBe(200)
  expect(await closed).toBe(4004)
  expect((await api.requestJson(`/api/conversations/${info.id}`)).status).toBe(404)
  expect(await findProcesses(mark)).toEqual([])
  expect(await stat(String(info.persistence_dir)).catch(() => 'gone')).toBe('gone')
  const again = await driver.tryCreate({ llm: scriptedModel([finishStep()]) }, { conversation_id: info.id })
  expect(again.status).toBe(201)
  expect(await driver.getEvents(info.id)).toEqual([])
})

test('repeated deletes of a conversation cause no other failure', async () => {
  const id = randomUUID()
  const statuses = new Set<number>()
  for (let round = 0; round < 8; round++) {
    const { status } = await driver.tryCreate(
      { llm: scriptedModel([bashStep('echo x'), bashStep('echo y'), finishStep()]) },
      { conversation_id: id, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
    )
    statuses.add(status)
    const answers = await Promise.all([
      driver.post(id, 'run'),
      driver.sendMessage(id, 'More.'),
      api.requestJson(`/api/conversations/${id}`, { method: 'DELETE' }),
      driver.post(id, 'pause'),
      driver.post(id, 'fork'),
      api.requestJson(`/api/conversations/${id}`),
    ])
    for (const answer of answers) statuses.add(answer.status)
    await api.requestJson(`/api/conversations/${id}`, { method: 'DELETE' })
  }
  expect([...statuses].filter((status) => ![200, 201, 404, 409].includes(status))).toEqual([])
})

test('a repeated message with an Idempotency-Key is stored and run once', async () => {
  const { id } = await driver.create({ llm: scriptedModel(['One.', 'Two.']) })
  const send = () =>
    api.requestJson(`/api/conversations/${id}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
      body: JSON.stringify({ content: [{ type: 'text', text: 'Begin.' }], run: true }),
    })
  await Promise.all([send(), send(), send()])
  await driver.waitUntilIdle(id)
  await send()
  const events = await driver.waitUntilIdle(id)
  expect(events.filter(hasLabel('message:user'))).toHaveLength(1)
  expect(events.filter(hasLabel('message:agent'))).toHaveLength(1)
})

test('hooks of the request control tools and the end of a run', async () => {
  await writeFile(join(directory, 'deny.sh'), 'cat > /dev/null; echo "not allowed here" >&2; exit 2\n')
  const hook_config = {
    pre_tool_use: [{ matcher: 'terminal', hooks: [{ command: `sh ${join(directory, 'deny.sh')}` }] }],
  }
  const { id } = await driver.createScripted([bashStep('echo never'), finishStep()], { hook_config })
  const events = await driver.waitUntilIdle(id)
  expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
    rejection_source: 'hook',
    rejection_reason: expect.stringContaining('not allowed here'),
  })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

/** Processes whose command line contains a mark. */
async function findProcesses(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')),
  )
  return lines.filter((line) => line.includes(mark))
}
