import { sandboxStatus } from '@slipway/protocol'
import type { ControlPlaneStore } from '@slipway/storage'
import { Gauge, type Metric } from 'prom-client'
import { isPooled, type StepMetrics } from '../sandboxes/state/sandbox-repository.ts'
import type { ConversationStarter } from '../start/conversation-starter.ts'

/** Metrics of the sandboxes and of starts, read when they are collected. */
export function createStateMetrics(deps: {
  readonly sandboxes: Pick<ControlPlaneStore['sandboxes'], 'iterateAll'>
  readonly steps: StepMetrics
  readonly starts: Pick<ConversationStarter, 'activeCount' | 'durations'>
}): readonly Metric[] {
  const { steps, starts } = deps
  const byStatus = (name: string, help: string, isPool: boolean) =>
    new Gauge({
      name,
      help,
      labelNames: ['status'],
      registers: [],
      async collect() {
        const counts = new Map<string, number>(sandboxStatus.options.map((status) => [status, 0]))
        for await (const row of deps.sandboxes.iterateAll()) {
          if (isPooled(row) === isPool) counts.set(row.status, (counts.get(row.status) ?? 0) + 1)
        }
        for (const [status, count] of counts) this.set({ status }, count)
      },
    })
  return [
    byStatus('slipway_sandboxes', 'Sandboxes of users by status.', false),
    byStatus('slipway_pool_sandboxes', 'Sandboxes of the warm pool by status.', true),
    steps.durations,
    steps.outcomes,
    new Gauge({
      name: 'slipway_conversation_starts',
      help: 'Starts of conversations that are under way.',
      registers: [],
      collect() {
        this.set(starts.activeCount)
      },
    }),
    starts.durations,
  ]
}
