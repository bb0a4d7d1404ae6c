import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { type ConversationInfo, scriptedModel, toolCall, toolCallsStep } from './agent-driver.ts'
import type { OwnAgentServer } from './agent-fixture.ts'
import type { ApiEvent } from './agent-server-api.ts'

/**
 * A conversation whose agent gives tasks to sub-agents with scripted models, on the present start of a
 * server.
 */
export class SubAgentDriver {
  readonly #server: OwnAgentServer

  constructor(server: OwnAgentServer) {
    this.#server = server
  }

  /** Creates a profile with a scripted model, named after its agent. */
  async createProfile(name: string, script: readonly unknown[], more: object = {}): Promise<void> {
    const body = { llm: scriptedModel(script, more), include_secrets: true }
    const { status } = await this.#server.api.sendJson('POST', `/api/profiles/${name}`, body)
    expect(status).toBe(201)
  }

  /** Creates a conversation with the task tool and a script that starts with its first message. */
  async createParent(script: readonly unknown[], more: object = {}): Promise<ConversationInfo> {
    return await this.#server.driver.create(
      { llm: scriptedModel(script), tools: [{ name: 'task_tool_set' }] },
      { initial_message: { content: [{ type: 'text', text: 'Begin.' }] }, ...more },
    )
  }

  async listChildren(id: string): Promise<string[]> {
    return (await this.#server.driver.getInfo(id)).sub_conversation_ids as string[]
  }

  async waitForChild(id: string): Promise<string> {
    for (;;) {
      const [child] = await this.listChildren(id)
      if (child !== undefined) return child
      await sleep(20)
    }
  }
}

export const agentDefinition = (name: string, more: object = {}) => ({
  name,
  model: name,
  tools: ['terminal'],
  ...more,
})

export const taskStep = (subagent_type: string, more: object = {}) =>
  toolCallsStep(toolCall('task', { prompt: 'Do it.', subagent_type, ...more }))

export const taskResults = (events: readonly ApiEvent[]) =>
  events.flatMap(({ observation }) =>
    Reflect.get(Object(observation), 'kind') === 'TaskObservation' ? [Object(observation)] : [],
  )

export async function waitFor(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let elapsedMs = 0; !(await condition()); elapsedMs += 30) {
    if (elapsedMs > 20_000) throw new Error('it did not come to be')
    await sleep(30)
  }
}
