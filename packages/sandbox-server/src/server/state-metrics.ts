import { type Family, family, sandboxStatus } from '@slipway/protocol'
import type { Ledger } from '@slipway/storage'
import { isPooled, type StepNumbers } from '../sandboxes/state/sandbox-repository.ts'
import type { Starts } from '../start/conversation-starter.ts'

/** What the sandboxes are doing, in numbers. */
export async function stateNumbers(parts: {
  readonly sandboxes: Pick<Ledger['sandboxes'], 'all'>
  readonly steps: StepNumbers
  readonly starts: Pick<Starts, 'underWay' | 'ended'>
}): Promise<readonly Family[]> {
  const { steps, starts } = parts
  const [owned, pooled] = [zeros(), zeros()]
  for await (const row of parts.sandboxes.all()) {
    const counts = isPooled(row) ? pooled : owned
    counts.set(row.status, (counts.get(row.status) ?? 0) + 1)
  }
  return [
    family('sandboxes', 'gauge', 'Sandboxes of users by status.', samplesOf(owned)),
    family('pool_sandboxes', 'gauge', 'Sandboxes of the warm pool by status.', samplesOf(pooled)),
    family(
      'sandbox_step_duration_seconds',
      'histogram',
      'Time of what is done to sandboxes: start, resume, pause, remove.',
      steps.durations.samples,
    ),
    family(
      'sandbox_steps_total',
      'counter',
      'What was done to sandboxes, by outcome.',
      steps.outcomes.samples,
    ),
    family('conversation_starts', 'gauge', 'Starts of conversations that are under way.', [
      { value: starts.underWay },
    ]),
    family(
      'conversation_start_duration_seconds',
      'histogram',
      'Time of starts of conversations by outcome.',
      starts.ended.samples,
    ),
  ]
}

function zeros(): Map<string, number> {
  return new Map(sandboxStatus.options.map((status) => [status, 0]))
}

function samplesOf(counts: ReadonlyMap<string, number>): Family['samples'] {
  return [...counts].map(([status, value]) => ({ labels: { status }, value }))
}
