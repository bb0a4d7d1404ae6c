import { type Client, follow } from '@slipway/client'
import { isAutomaticRejection } from '@slipway/protocol/automatic-rejections'
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
  let rejection: unknown
  for await (const { event } of follow(client, id, { after, signal })) {
    const { kind, key, value, rejection_reason } = asObject(event)
    if (kind === 'UserRejectObservation') rejection = rejection_reason ?? ''
    if (key !== 'execution_status' || value === 'waiting_for_confirmation') continue
    if (isAutomaticRejection(rejection)) return 'rejected: no answer came in time'
    if (rejection !== undefined) return 'rejected from another terminal'
    return value === 'running' ? 'approved from another terminal' : 'stopped from another terminal'
  }
  return undefined
}
