import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

const tools = ['terminal', 'file_editor', 'write_file', 'grep', 'task_tracker'].map((name) => ({ name }))

async function open(turns: readonly FakeTurn[], request: Readonly<Record<string, unknown>> = {}) {
  const model = new FakeModel(turns)
  const life = await fixtures.create({
    agent: { tools },
    model: model.open,
    request: { plan_mode: true, ...request },
  })
  return { life, model, has: (file: string) => existsSync(join(life.workspace, file)) }
}

const touch = (file: string): FakeTurn => ({ calls: [['terminal', { command: `touch ${file}` }]] })

test('plan mode refuses calls that may write, without a question, and executes those that read', async () => {
  const { life, model, has } = await open(
    [
      { calls: [['terminal', { command: 'npm install a; touch a' }]] },
      { calls: [['write_file', { file_path: 'b', content: 'x' }]] },
      { calls: [['file_editor', { command: 'create', path: '/tmp/never', file_text: 'x' }]] },
      { calls: [['terminal', { command: 'ls -la' }]] },
      { calls: [['grep', { pattern: 'x' }]] },
      { calls: [['task_tracker', { command: 'plan', task_list: [{ title: 'Do it' }] }]] },
    ],
    {
      confirmation_policy: { kind: 'ConfirmRisky', threshold: 'MEDIUM', confirm_unknown: false },
      security_analyzer: { kind: 'PatternSecurityAnalyzer' },
    },
  )
  await life.sendAndWait('Make a plan.')
  expect(life.status).toBe('finished')
  expect([has('a'), has('b')]).toEqual([false, false])
  const errors = await life.eventsOfKind('AgentErrorEvent')
  expect(errors.map(({ error }) => error.includes('plan mode is on'))).toEqual([true, true, true])
  expect(await life.eventsOfKind('ObservationEvent')).toHaveLength(3)
  expect(JSON.stringify(model.requests[0]?.messages)).toContain('Plan mode is on.')
})

test('an accepted plan is carried out by the next run, and the model is told', async () => {
  const { life, model, has } = await open([touch('a'), { text: 'The plan.' }, touch('b')])
  await life.sendAndWait('Make a plan.')
  expect([life.status, has('a')]).toEqual(['finished', false])
  await life.conversation.setPlanMode(false)
  expect(life.status).toBe('idle')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(has('b')).toBe(true)
  expect(JSON.stringify(model.requests[2]?.messages.at(-1))).toContain('the user accepts it')
  await life.sendAndWait('More.')
  expect(JSON.stringify(model.requests.at(-1)?.messages.at(-1))).not.toContain('Plan mode is on')
})

test('plan mode is in the log: it holds after a restart, and for a log with other settings', async () => {
  const { life, has } = await open([{ text: 'Yes.' }, touch('a')])
  await life.sendAndWait('Make a plan.')
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.filter(({ key }) => key === 'plan_mode').map(({ value }) => value)).toEqual([true])
  life.settings = { ...life.settings, plan_mode: false }
  await life.reopen()
  expect(life.conversation.isPlanning).toBe(true)
  await life.sendAndWait('Continue.')
  expect(has('a')).toBe(false)
})

test('plan mode that begins during a run refuses the next call', async () => {
  const { life, has } = await open(
    [touch('a'), { ...touch('b'), before: async () => await life.conversation.setPlanMode(true) }],
    { plan_mode: undefined },
  )
  await life.sendAndWait('Go.')
  expect([has('a'), has('b')]).toEqual([true, false])
})
