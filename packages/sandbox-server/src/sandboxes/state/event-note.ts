import type { Client } from '@slipway/client'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { askCaughtUp } from '../../network/caught-up.ts'
import type { SandboxContext } from './context.ts'

/**
 * What a pause writes into the row: when all events of the sandbox were in the log of the control plane. Null
 * without an answer in that time, and while something runs.
 */
export async function readCaughtUpAt(
  { hasAllEvents, clock, signal }: SandboxContext,
  sandbox: string,
  { client }: { readonly client: Client },
  timeoutMs: number,
): Promise<Partial<Pick<SandboxRow, 'caught_up_at'>>> {
  if (hasAllEvents === undefined) return {}
  const at = clock.now() * 1000
  const limit = AbortSignal.any([signal, clock.timeout(timeoutMs)])
  const isKnown = await askCaughtUp(client, (log) => hasAllEvents(sandbox, log), limit).catch(() => false)
  return { caught_up_at: isKnown ? at : null }
}
