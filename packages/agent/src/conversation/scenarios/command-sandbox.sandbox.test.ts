import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { canSandboxCommands } from '../../tools/testing/can-sandbox-commands.ts'
import { ConversationFixtures, contentText, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
let outside: string
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
  outside = await mkdtemp('/var/tmp/slipway-outside-')
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
  await rm(outside, { recursive: true, force: true })
})

const sandbox = { mode: 'workspace-write', network: false }

async function open(turns: readonly FakeTurn[], request: Readonly<Record<string, unknown>>, deps = {}) {
  const model = new FakeModel(turns)
  const agent = { tools: [{ name: 'terminal' }] }
  const life = await fixtures.create({ agent, request, deps, model: model.open })
  return { life, model }
}

const write = (name: string, more: object = {}): FakeTurn => ({
  calls: [['terminal', { command: `touch ${join(outside, name)}`, ...more }]],
})

test('a refused command says how to ask; what asks waits for the user whatever the policy and the rules', async (context) => {
  if (!canSandboxCommands()) context.skip('bubblewrap does not work on this host')
  const rules = [{ pattern: 'touch *', decision: 'allow' }]
  for (const policy of ['NeverConfirm', 'ConfirmRisky']) {
    const { life, model } = await open([write(policy), write(policy, { outside_sandbox: true })], {
      ...{ command_sandbox: sandbox, command_rules: rules },
      confirmation_policy: { kind: policy },
    })
    await life.sendAndWait('go')
    expect(contentText(model.requests[0]?.messages[0]?.content)).toContain('Commands run in a sandbox')
    expect(JSON.stringify(model.requests[0]?.tools)).toContain('outside_sandbox')
    expect(contentText(model.requests[1]?.messages.at(-1)?.content)).toContain('outside_sandbox')
    expect(life.status).toBe('waiting_for_confirmation')
    expect(existsSync(join(outside, policy))).toBe(false)
    const [, action] = await life.eventsOfKind('ActionEvent')
    expect(action?.summary).toMatch(/^OUTSIDE OF THE SANDBOX: /)
    // The request is part of the log, so it is there after a restart too.
    await life.reopen()
    expect(life.status).toBe('waiting_for_confirmation')
    await life.conversation.resolveConfirmation({ accept: true, reason: '' })
    await life.conversation.waitUntilIdle()
    expect(existsSync(join(outside, policy))).toBe(true)
    expect(life.status).toBe('finished')
  }
}, 120_000)

test('a refusal of the user, and a rule that denies, keep it inside', async (context) => {
  if (!canSandboxCommands()) context.skip('bubblewrap does not work on this host')
  const asking = write('refused', { outside_sandbox: true })
  const refused = await open([asking], { command_sandbox: sandbox })
  await refused.life.sendAndWait('go')
  await refused.life.conversation.resolveConfirmation({ accept: false, reason: 'No.' })
  await refused.life.conversation.waitUntilIdle()
  const denied = await open([asking], {
    command_sandbox: sandbox,
    command_rules: [{ pattern: 'touch *', decision: 'deny' }],
  })
  await denied.life.sendAndWait('go')
  expect(denied.life.status).toBe('finished')
  expect(existsSync(join(outside, 'refused'))).toBe(false)
}, 120_000)

test('the server decides for conversations that name none; a conversation may name another one', async (context) => {
  if (!canSandboxCommands()) context.skip('bubblewrap does not work on this host')
  const deps = { commandSandbox: sandbox }
  const boxed = await open([write('default')], {}, deps)
  await boxed.life.sendAndWait('go')
  expect(existsSync(join(outside, 'default'))).toBe(false)
  const free = await open(
    [write('free', { outside_sandbox: true })],
    { command_sandbox: { mode: 'off' } },
    deps,
  )
  await free.life.sendAndWait('go')
  expect(existsSync(join(outside, 'free')), 'without a sandbox there is nothing to ask for').toBe(true)
  const first = JSON.stringify(free.model.requests[0])
  expect(first).not.toMatch(/outside_sandbox|sandbox:/)
}, 120_000)
