import { executionStatus, type Family } from '@slipway/protocol'
import type { Records } from '@slipway/storage'
import type { Agents } from './agents.ts'
import type { Bash } from './bash.ts'
import type { Webhooks } from './webhooks.ts'

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
    return { name: `slipway_${name}`, type: 'gauge', help, samples: [{ value }] }
  }
  return [
    { name: 'slipway_conversations', type: 'gauge', help: 'Conversations by status.', samples: statuses },
    gauge('conversations_loaded', 'Conversations in memory.', agents.loaded),
    gauge('runs_active', 'Runs that have their turn.', agents.turns.active),
    gauge('runs_waiting', 'Runs that wait for a turn.', agents.turns.waiting),
    gauge('bash_commands_running', 'Commands of /api/bash that run.', bash.running),
    {
      name: 'slipway_bash_commands_total',
      type: 'counter',
      help: 'Commands of /api/bash that ended.',
      samples: bash.ended.samples,
    },
    {
      name: 'slipway_webhook_requests_total',
      type: 'counter',
      help: 'Requests to webhook receivers by outcome.',
      samples: webhooks.requests.samples,
    },
    gauge(
      'webhook_conversations_pending',
      'Conversations that a webhook receiver is being told of, or that wait after a failure.',
      webhooks.pending,
    ),
  ]
}
