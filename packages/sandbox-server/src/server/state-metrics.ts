import { sandboxStatus } from '@slipway/protocol'
import { createGauge, createLabeledGauge, type Metric } from '@slipway/shared/metrics'
import type { ControlPlaneStore } from '@slipway/storage'
import { isPooled, type StepMetrics } from '../sandboxes/state/sandbox-repository.ts'
import type { ConversationStarter } from '../start/conversation-starter.ts'

/** Metrics of the sandboxes and of starts, read when they are collected. */
export function createStateMetrics(deps: {
  readonly rows: Pick<ControlPlaneStore['sandboxes'], 'iterateAll'>
  readonly steps: StepMetrics
  readonly starter: Pick<ConversationStarter, 'activeCount' | 'durations'>
}): readonly Metric[] {
  const { rows, steps, starter } = deps
  const countByStatus = async (isPool: boolean) => {
    const counts = new Map<string, number>(sandboxStatus.options.map((status) => [status, 0]))
    for await (const row of rows.iterateAll()) {
      if (isPooled(row) === isPool) counts.set(row.status, (counts.get(row.status) ?? 0) + 1)
    }
    return counts
  }
  return [
    createLabeledGauge('slipway_sandboxes', 'Sandboxes of users by status.', 'status', () =>
      countByStatus(false),
    ),
    createLabeledGauge('slipway_pool_sandboxes', 'Sandboxes of the warm pool by status.', 'status', () =>
      countByStatus(true),
    ),
    steps.durations,
    steps.outcomes,
    createGauge(
      'slipway_conversation_starts',
      'Starts of conversations that are under way.',
      () => starter.activeCount,
    ),
    starter.durations,
  ]
}
