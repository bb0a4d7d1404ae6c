import { Client } from '@slipway/client'
import type { Secret } from '@slipway/shared/redaction'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { isCaughtUp } from '../../network/caught-up.ts'
import type { SandboxContext } from './context.ts'

/** How long a pause waits for what its agent server says of its events. */
const timeoutMs = 3_000
/** Sandboxes run foreign code, and an answer takes several times its length in memory. */
const maxAnswerBytes = 8 * 1024 * 1024

/**
 * What a pause writes into the row: when all events of the sandbox were in the log of the control plane. Null
 * without an answer, and while something runs.
 */
export async function readCaughtUpAt(
  { hasAllEvents, clock, fetch, signal }: SandboxContext,
  sandbox: string,
  { url, key }: { readonly url: string; readonly key: Secret },
): Promise<Partial<Pick<SandboxRow, 'caught_up_at'>>> {
  if (hasAllEvents === undefined) return {}
  const at = clock.now() * 1000
  const client = new Client({ url, sessionApiKey: key, fetch, maxAnswerBytes })
  const limit = AbortSignal.any([signal, clock.timeout(timeoutMs)])
  const isKnown = await isCaughtUp(client, (log) => hasAllEvents(sandbox, log), limit).catch(() => false)
  return { caught_up_at: isKnown ? at : null }
}
