import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import {
  bashStep,
  eventLabel,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { agentDefinition, SubAgentDriver, taskResults, taskStep, waitFor } from '../../support/sub-agents.ts'

const server = await OwnAgentServer.open()
afterAll(async () => await server[Symbol.asyncDispose]())
const { directory } = server
const tasks = new SubAgentDriver(server)

test('after a kill during a task the call is answered, the task is paused, its parent continues, and nothing is done twice', async () => {
  const name = `killed-${randomUUID()}`
  await tasks.createProfile('worker', [
    bashStep(`echo x >> ${name}; sleep 300`),
    bashStep('true'),
    finishStep('It is done.'),
  ])
  const script = [taskStep('worker'), taskStep('worker', { resume: 'task_00000001' }), finishStep('Done.')]
  const { id } = await tasks.createParent(script, { agent_definitions: [agentDefinition('worker')] })
  const child = await tasks.waitForChild(id)
  await waitFor(() => existsSync(join(directory, name)))
  await server.restart('SIGKILL')
  const events = await server.driver.waitUntilIdle(id)
  const childEvents = await server.driver.getEvents(child)
  for (const one of [events, childEvents]) {
    expect(findLogIssues(one)).toEqual([])
    expect(one.filter(({ kind }) => kind === 'AgentErrorEvent')).toHaveLength(1)
  }
  expect(childEvents.map(eventLabel)).toContain('execution_status=paused')
  expect(taskResults(events)).toMatchObject([{ task_id: 'task_00000001', status: 'completed' }])
  expect(await tasks.listChildren(id)).toEqual([child])
  expect(await readFile(join(directory, name), 'utf8')).toBe('x\n')
})

test('after a kill at any moment parents and children are consistent, and their work continues', {
  timeout: 180_000,
}, async () => {
  for (const name of ['left', 'right'])
    await tasks.createProfile(name, [
      ...['1', '2', '3'].map((at) => bashStep(`echo ${at}; sleep 0.1`)),
      finishStep('It is done.'),
    ])
  const both = toolCallsStep(
    toolCall('task', { prompt: 'x', subagent_type: 'left' }),
    toolCall('task', { prompt: 'x', subagent_type: 'right' }),
  )
  for (const afterMs of [30, 180, 330, 480]) {
    const { id } = await server.driver.create(
      {
        llm: scriptedModel([both, both, finishStep('Done.')]),
        tools: [{ name: 'task_tool_set' }],
        tool_concurrency_limit: 2,
      },
      {
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
        agent_definitions: [agentDefinition('left'), agentDefinition('right')],
      },
    )
    await sleep(afterMs)
    await server.restart('SIGKILL')
    await server.driver.waitUntilIdle(id)
    await server.driver.post(id, 'run')
    for (const one of await tasks.listChildren(id)) {
      await server.driver.waitUntilIdle(one)
      expect(findLogIssues(await server.driver.getEvents(one))).toEqual([])
    }
    const events = await server.driver.waitUntilIdle(id)
    expect(findLogIssues(events)).toEqual([])
    expect((await server.driver.getInfo(id)).execution_status).toBe('finished')
    const ids = taskResults(events).map(({ task_id }) => task_id)
    expect(new Set(ids).size).toBe(ids.length)
  }
})
