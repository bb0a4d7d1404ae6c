import { type MetricFamily, metricFamily, sandboxStatus } from '@slipway/protocol'
import type { ControlPlaneStore } from '@slipway/storage'
import { isPooled, type StepMetrics } from '../sandboxes/state/sandbox-repository.ts'
import type { ConversationStarter } from '../start/conversation-starter.ts'

/** What the sandboxes are doing, in numbers. */
export async function stateMetrics(deps: {
  readonly sandboxes: Pick<ControlPlaneStore['sandboxes'], 'iterateAll'>
  readonly steps: StepMetrics
  readonly starts: Pick<ConversationStarter, 'activeCount' | 'durations'>
}): Promise<readonly MetricFamily[]> {
  const { steps, starts } = deps
  const [owned, pooled] = [zeroCounts(), zeroCounts()]
  for await (const row of deps.sandboxes.iterateAll()) {
    const counts = isPooled(row) ? pooled : owned
    counts.set(row.status, (counts.get(row.status) ?? 0) + 1)
  }
  return [
    metricFamily('sandboxes', 'gauge', 'Sandboxes of users by status.', toSamples(owned)),
    metricFamily('pool_sandboxes', 'gauge', 'Sandboxes of the warm pool by status.', toSamples(pooled)),
    metricFamily(
      'sandbox_step_duration_seconds',
      'histogram',
      'Time of what is done to sandboxes: start, resume, pause, remove.',
      steps.durations.samples,
    ),
    metricFamily(
      'sandbox_steps_total',
      'counter',
      'What was done to sandboxes, by outcome.',
      steps.outcomes.samples,
    ),
    metricFamily('conversation_starts', 'gauge', 'Starts of conversations that are under way.', [
      { value: starts.activeCount },
    ]),
    metricFamily(
      'conversation_start_duration_seconds',
      'histogram',
      'Time of starts of conversations by outcome.',
      starts.durations.samples,
    ),
  ]
}

function zeroCounts(): Map<string, number> {
  return new Map(sandboxStatus.options.map((status) => [status, 0]))
}

function toSamples(counts: ReadonlyMap<string, number>): MetricFamily['samples'] {
  return [...counts].map(([status, value]) => ({ labels: { status }, value }))
}
