import { executionStatus, type Family, family } from '@slipway/protocol'
import type { Records } from '@slipway/storage'
import type { Bash } from '../bash/bash-service.ts'
import type { Agents } from '../conversations/registry.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

/** What is there at the moment, in numbers. */
export async function stateNumbers(parts: {
  readonly records: Records
  readonly agents: Agents
  readonly bash: Bash
  readonly webhooks: Webhooks
}): Promise<readonly Family[]> {
  const { records, agents, bash, webhooks } = parts
  const statuses = await Promise.all(
    executionStatus.options.map(async (status) => {
      return { labels: { status }, value: await records.count({ status }) }
    }),
  )
  const gauge = (name: string, help: string, value: number): Family => {
    return family(name, 'gauge', help, [{ value }])
  }
  return [
    family('conversations', 'gauge', 'Conversations by status.', statuses),
    gauge('conversations_loaded', 'Conversations in memory.', agents.loaded),
    gauge('runs_active', 'Runs that have their turn.', agents.turns.active),
    gauge('runs_waiting', 'Runs that wait for a turn.', agents.turns.waiting),
    gauge('bash_commands_running', 'Commands of /api/bash that run.', bash.running),
    family('bash_commands_total', 'counter', 'Commands of /api/bash that ended.', bash.ended.samples),
    family(
      'webhook_requests_total',
      'counter',
      'Requests to webhook receivers by outcome.',
      webhooks.requests.samples,
    ),
    gauge(
      'webhook_conversations_pending',
      'Conversations that a webhook receiver is being told of, or that wait after a failure.',
      webhooks.pending,
    ),
  ]
}
