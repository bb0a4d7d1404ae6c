import { type Ask, answerOf, keyHeader } from '../../network/agent-server-probe.ts'

/**
 * For how many seconds an agent server says that it was not used, if it also says that no conversation runs in it. Undefined
 * otherwise, also when it does not answer: only a positive answer counts (wire 8.1, trap 20).
 */
export async function idleSecondsOf(url: string, key: string, ask: Ask): Promise<number | undefined> {
  const headers = keyHeader(key)
  const info = await answerOf(`${url}/server_info`, { headers }, ask)
  if (typeof info === 'string' || info.status !== 200) return undefined
  // Asked last, so that a run that has just begun is seen.
  const running = await answerOf(`${url}/api/conversations/count?status=running`, { headers }, ask)
  if (typeof running === 'string' || running.status !== 200 || running.body !== 0) return undefined
  const { body } = info
  const seconds =
    typeof body === 'object' && body !== null && 'idle_time' in body ? body.idle_time : undefined
  return typeof seconds === 'number' && seconds >= 0 ? seconds : undefined
}
