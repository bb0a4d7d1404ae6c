import { isRecord } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'
import { fetchJson, keyHeader, type ProbeContext } from '../../network/agent-server-probe.ts'

/** Undefined unless it confirms that no conversation runs: only that answer counts (wire 8.1, trap 20). */
export async function fetchIdleSeconds(
  { url, key }: { readonly url: string; readonly key: Secret },
  context: ProbeContext,
): Promise<number | undefined> {
  const headers = keyHeader(key.reveal())
  const info = await fetchJson(`${url}/server_info`, { headers }, context)
  if (typeof info === 'string' || info.status !== 200) return undefined
  // Asked last, so that it includes a run that has just begun.
  const running = await fetchJson(`${url}/api/conversations/count?status=running`, { headers }, context)
  if (typeof running === 'string' || running.status !== 200 || running.body !== 0) return undefined
  const seconds = isRecord(info.body) ? info.body.idle_time : undefined
  return typeof seconds === 'number' && seconds >= 0 ? seconds : undefined
}
