import { type Client, follow } from '@slipway/client'
import { asObject } from '../output/action-text.ts'

/**
 * Waits until what waits for confirmation is answered by another client, or by its deadline;
 * returns how, for people. Undefined when `signal` is aborted first.
 */
export async function waitForForeignAnswer(
  client: Client,
  id: string,
  { after, signal }: { readonly after: string | number; readonly signal: AbortSignal },
): Promise<string | undefined> {
  let rejectionSource: unknown
  for await (const { event } of follow(client, id, { after, signal })) {
    const { kind, key, value, rejection_source } = asObject(event)
    if (kind === 'UserRejectObservation') rejectionSource = rejection_source ?? 'user'
    if (key !== 'execution_status' || value === 'waiting_for_confirmation') continue
    if (rejectionSource === 'hook') return 'rejected: no answer came in time'
    if (rejectionSource !== undefined) return 'rejected from another terminal'
    return value === 'running' ? 'approved from another terminal' : 'stopped from another terminal'
  }
  return undefined
}
