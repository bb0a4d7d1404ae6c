import { executionStatus } from '@slipway/protocol'
import type { ConversationRecords } from '@slipway/storage'
import { Gauge, type Metric } from 'prom-client'
import type { BashService } from '../bash/bash-service.ts'
import type { ConversationRegistry } from '../conversations/registry.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

/** Metrics of the state of the services, read when they are collected. */
export function createStateMetrics(sources: {
  readonly records: ConversationRecords
  readonly registry: ConversationRegistry
  readonly bash: BashService
  readonly webhooks: Webhooks
}): readonly Metric[] {
  const { records, registry, bash, webhooks } = sources
  const conversations = new Gauge({
    name: 'slipway_conversations',
    help: 'Conversations by status.',
    labelNames: ['status'],
    registers: [],
    async collect() {
      for (const status of executionStatus.options) this.set({ status }, await records.count({ status }))
    },
  })
  const gauge = (name: string, help: string, read: () => number): Metric =>
    new Gauge({
      name,
      help,
      registers: [],
      collect() {
        this.set(read())
      },
    })
  return [
    conversations,
    gauge('slipway_conversations_loaded', 'Conversations in memory.', () => registry.loadedCount),
    gauge('slipway_runs_active', 'Runs that have their turn.', () => registry.runSlots.activeCount),
    gauge('slipway_runs_waiting', 'Runs that wait for a turn.', () => registry.runSlots.waitingCount),
    gauge('slipway_bash_commands_running', 'Commands of /api/bash that run.', () => bash.runningCount),
    bash.endedCommands,
    webhooks.requests,
    gauge(
      'slipway_webhook_conversations_pending',
      'Conversations that a webhook receiver is being told of, or that wait after a failure.',
      () => webhooks.pendingCount,
    ),
  ]
}
