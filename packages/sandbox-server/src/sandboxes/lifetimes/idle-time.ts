import { fetchJson, keyHeader, type ProbeContext } from '../../network/agent-server-probe.ts'

/**
 * For how many seconds an agent server says that it was not used, if it also says that no conversation runs in it. Undefined
 * otherwise, also when it does not answer: only a positive answer counts (wire 8.1, trap 20).
 */
export async function fetchIdleSeconds(
  url: string,
  key: string,
  context: ProbeContext,
): Promise<number | undefined> {
  const headers = keyHeader(key)
  const serverInfo = await fetchJson(`${url}/server_info`, { headers }, context)
  if (typeof serverInfo === 'string' || serverInfo.status !== 200) return undefined
  // Asked last, so that a run that has just begun is seen.
  const runningCount = await fetchJson(`${url}/api/conversations/count?status=running`, { headers }, context)
  if (typeof runningCount === 'string' || runningCount.status !== 200 || runningCount.body !== 0)
    return undefined
  const { body } = serverInfo
  const seconds =
    typeof body === 'object' && body !== null && 'idle_time' in body ? body.idle_time : undefined
  return typeof seconds === 'number' && seconds >= 0 ? seconds : undefined
}
