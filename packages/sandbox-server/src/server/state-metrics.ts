import { sandboxStatus } from '@slipway/protocol'
import { createGauge, createLabeledGauge, type Metric } from '@slipway/shared/metrics'
import type { Storage } from '@slipway/storage'
import type { ControlPlaneStore } from '@slipway/storage/control-plane'
import type { StorageQuota } from '../accounts/storage-quota.ts'
import type { EventIngest } from '../ingest/event-ingest.ts'
import { isPooled, type StepMetrics } from '../sandboxes/state/sandbox-repository.ts'
import type { ConversationStarter } from '../start/conversation-starter.ts'

/** Metrics of the sandboxes and of starts, read when they are collected. */
export function createStateMetrics(deps: {
  readonly rows: Pick<ControlPlaneStore['sandboxes'], 'iterateAll'>
  readonly steps: StepMetrics
  readonly starter: Pick<ConversationStarter, 'activeCount' | 'durations'>
  readonly ingest: Pick<EventIngest, 'bodyBytes' | 'duplicates'>
  readonly storageQuota: Pick<StorageQuota, 'refusals'>
  readonly records: Pick<Storage['conversations'], 'count' | 'sumBytes'>
}): readonly Metric[] {
  const { rows, steps, starter, ingest, storageQuota, records } = deps
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
    createGauge(
      'slipway_ingest_body_bytes',
      'Unpacked bytes of events that are being received.',
      () => ingest.bodyBytes,
    ),
    ingest.duplicates,
    createLabeledGauge(
      'slipway_quota_used',
      'What all users store of what is limited for each, by quota.',
      'quota',
      async () => [
        ['conversations', await records.count()],
        ['stored_bytes', await records.sumBytes()],
      ],
    ),
    storageQuota.refusals,
  ]
}
