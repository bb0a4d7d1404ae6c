import { agentDefinition, startConversationRequest } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { TaskRunner } from './task-runner.ts'

const never = () => {
  throw new Error('no task is given')
}

test('an agent that cannot work here is left out, and the reason is logged', async () => {
  const definitions = [
    { name: 'fine', tools: ['terminal'] },
    { name: 'odd', tools: ['no_such_tool'] },
    { name: 'browsing', tools: ['browser_tool_set'] },
  ]
  const { agent, ...rest } = startConversationRequest.parse({
    agent: { llm: { model: 'm' }, tools: [{ name: 'task_tool_set' }] },
    workspace: { working_dir: '/w' },
    agent_definitions: definitions.map((one) => agentDefinition.parse(one)),
  })
  if (agent === undefined) throw new Error('an agent was given')
  const logged: unknown[] = []
  const runner = TaskRunner.open({
    parent: 'parent',
    host: {
      settings: {
        current: { ...rest, agent },
        policy: { kind: 'NeverConfirm' },
        analyzer: null,
        isPlanning: false,
      },
      redact: (text) => text,
      remainingLimits: () => undefined,
      onUsage: async () => {},
    },
    deps: {
      clock: new FakeClock(),
      log: {} as never,
      logLine: (...line) => logged.push(line),
      browser: { isOff: true },
      childConversations: { create: never, find: never, list: never, lastTaskNumber: never },
    },
    plugins: () => [],
    hooks: async () => undefined,
    projectAgents: async () => ({ agents: [], issues: ['broken.md: is empty'] }),
    skills: async () => [],
  })
  await runner?.load()
  const names = runner?.agents.map(({ name }) => name)
  expect(names).toContain('fine')
  expect(names).not.toContain('odd')
  expect(names).not.toContain('browsing')
  const skipped = (issue: unknown) => ['warn', 'an agent was skipped', { conversation: 'parent', issue }]
  expect(logged).toEqual(
    ['broken.md: is empty', expect.stringMatching(/ odd .*: no_such_tool$/)].map(skipped),
  )
})
