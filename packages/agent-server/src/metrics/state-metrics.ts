import { executionStatus, type MetricFamily, metricFamily } from '@slipway/protocol'
import type { ConversationRecords } from '@slipway/storage'
import type { BashService } from '../bash/bash-service.ts'
import type { ConversationRegistry } from '../conversations/registry.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

/** What is there at the moment, in numbers. */
export async function readStateMetrics(sources: {
  readonly records: ConversationRecords
  readonly registry: ConversationRegistry
  readonly bash: BashService
  readonly webhooks: Webhooks
}): Promise<readonly MetricFamily[]> {
  const { records, registry, bash, webhooks } = sources
  const statuses = await Promise.all(
    executionStatus.options.map(async (status) => {
      return { labels: { status }, value: await records.count({ status }) }
    }),
  )
  const gauge = (name: string, help: string, value: number): MetricFamily => {
    return metricFamily(name, 'gauge', help, [{ value }])
  }
  return [
    metricFamily('conversations', 'gauge', 'Conversations by status.', statuses),
    gauge('conversations_loaded', 'Conversations in memory.', registry.loadedCount),
    gauge('runs_active', 'Runs that have their turn.', registry.runSlots.activeCount),
    gauge('runs_waiting', 'Runs that wait for a turn.', registry.runSlots.waitingCount),
    gauge('bash_commands_running', 'Commands of /api/bash that run.', bash.runningCount),
    metricFamily(
      'bash_commands_total',
      'counter',
      'Commands of /api/bash that ended.',
      bash.endedCommands.samples,
    ),
    metricFamily(
      'webhook_requests_total',
      'counter',
      'Requests to webhook receivers by outcome.',
      webhooks.requests.samples,
    ),
    gauge(
      'webhook_conversations_pending',
      'Conversations that a webhook receiver is being told of, or that wait after a failure.',
      webhooks.pendingCount,
    ),
  ]
}
