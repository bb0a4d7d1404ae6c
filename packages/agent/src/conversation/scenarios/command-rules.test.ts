import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandRule } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, FakeModel, type TestConversationOptions } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

const rule = (decision: CommandRule['decision'], pattern: string): CommandRule => ({ decision, pattern })

/** A conversation whose model runs these commands, one a turn. */
async function open(commands: readonly string[], options: TestConversationOptions = {}) {
  const turns = commands.map((command) => ({ calls: [['terminal', { command }] as const] }))
  const model = new FakeModel(turns)
  const life = await fixtures.create({
    agent: { tools: [{ name: 'terminal' }] },
    ...options,
    model: model.open,
  })
  return { life, model, has: (file: string) => existsSync(join(life.workspace, file)) }
}

test('an allowed command needs no confirmation, whatever the policy and its risk', async () => {
  const request = {
    confirmation_policy: { kind: 'AlwaysConfirm' },
    security_analyzer: { kind: 'PatternSecurityAnalyzer' },
    command_rules: [rule('allow', 'touch *')],
  }
  const { life, has } = await open(['touch a', 'touch b; true'], { request })
  await life.sendAndWait('go')
  expect(has('a')).toBe(true)
  expect(life.status, 'a part of it is not allowed').toBe('waiting_for_confirmation')
  expect(has('b')).toBe(false)
})

test('a command to ask about waits without any policy, also after a restart, and runs when it is approved', async () => {
  const { life, has } = await open(['true && touch a'], {
    request: { command_rules: [rule('ask', 'touch *')] },
  })
  await life.sendAndWait('go')
  expect(life.status).toBe('waiting_for_confirmation')
  await life.reopen()
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(has('a')).toBe(true)
  expect(life.status).toBe('finished')
})

test('a denied command is not executed and not asked about; the model is told the rule', async () => {
  const request = { confirmation_policy: { kind: 'AlwaysConfirm' }, command_rules: [rule('deny', 'touch *')] }
  const { life, model, has } = await open(['touch a', 'echo $(touch b)'], { request })
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
  expect([has('a'), has('b')]).toEqual([false, false])
  const errors = await life.eventsOfKind('AgentErrorEvent')
  expect(errors.map(({ error }) => error.includes('`touch *`'))).toEqual([true, true])
  expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('a rule denies commands like')
})

test('the strictest rule counts: of the server, of the repository with consent, of the conversation', async () => {
  const deps = { commandRules: [rule('deny', 'touch server*')] }
  const request = {
    command_rules: [rule('allow', 'touch *')],
    confirmation_policy: { kind: 'AlwaysConfirm' },
  }
  for (const verdict of ['allowed', 'skipped'] as const) {
    const consents = { check: async () => ({ id: 'c', verdict }) }
    const { life, has } = await open(['touch server', 'touch own', 'touch project'], {
      request,
      deps: { ...deps, repositoryConsents: consents },
    })
    await mkdir(join(life.workspace, '.openhands'))
    const rules = { rules: [rule('ask', 'touch project')] }
    await writeFile(join(life.workspace, '.openhands/command_rules.json'), JSON.stringify(rules))
    await life.sendAndWait('go')
    expect([has('server'), has('own')]).toEqual([false, true])
    expect(has('project'), verdict).toBe(verdict === 'skipped')
  }
})

test('rules can be replaced during a conversation', async () => {
  const { life, has } = await open(['touch a', 'touch b'], {
    request: { command_rules: [rule('deny', 'touch a')] },
  })
  await life.conversation.setCommandRules([rule('deny', 'touch b')])
  await life.reopen()
  await life.sendAndWait('go')
  expect([has('a'), has('b')]).toEqual([true, false])
})

test('what is typed into a running program is denied and asked about, but not allowed, by a rule', async () => {
  const turns = [
    { calls: [['terminal', { command: 'cat > typed' }] as const] },
    { calls: [['terminal', { command: 'touch x', is_input: true }] as const] },
  ]
  for (const decision of ['allow', 'deny', 'ask'] as const) {
    const life = await fixtures.create({
      agent: { tools: [{ name: 'terminal', params: { no_change_timeout_seconds: 1 } }] },
      model: new FakeModel(turns).open,
      request: {
        command_rules: [rule(decision, 'touch *')],
        confirmation_policy: { kind: 'NeverConfirm' },
      },
    })
    await life.sendAndWait('go')
    expect(life.status).toBe(decision === 'ask' ? 'waiting_for_confirmation' : 'finished')
    expect(await life.eventsOfKind('AgentErrorEvent')).toHaveLength(decision === 'deny' ? 1 : 0)
  }
})
