import { executionStatus } from '@slipway/protocol'
import { createGauge, createLabeledGauge, type Metric } from '@slipway/shared/metrics'
import type { ConversationRecords } from '@slipway/storage'
import type { ConversationRegistry } from '../conversations/registry.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

/** Metrics of the state of the services, read when they are collected. */
export function createStateMetrics(sources: {
  readonly records: ConversationRecords
  readonly registry: ConversationRegistry
  readonly webhooks: Webhooks
}): readonly Metric[] {
  const { records, registry, webhooks } = sources
  const { runSlots } = registry
  return [
    createLabeledGauge('slipway_conversations', 'Conversations by status.', 'status', () =>
      Promise.all(
        executionStatus.options.map(async (status) => [status, await records.count({ status })] as const),
      ),
    ),
    createGauge('slipway_conversations_loaded', 'Conversations in memory.', () => registry.loadedCount),
    createGauge('slipway_runs_active', 'Runs that have their turn.', () => runSlots.active),
    createGauge('slipway_runs_waiting', 'Runs that wait for a turn.', () => runSlots.waiting),
    webhooks.requests,
    createGauge(
      'slipway_webhook_conversations_pending',
      'Conversations that a webhook receiver is being told of, or that wait after a failure.',
      () => webhooks.pendingCount,
    ),
  ]
}
