import { CallError, type Client } from '@slipway/client'
import { expect, test } from 'vitest'
import { answerActions } from './pending-actions.ts'

/** A server on which another question waits when the run is asked for. */
function openClient(runStatus: number) {
  const calls: { name: string; headers: unknown }[] = []
  const call = async (name: string, { headers }: { headers?: unknown }) => {
    calls.push({ name, headers })
    if (name === 'runConversation' && runStatus !== 200) throw new CallError(runStatus, 'A question waits')
  }
  return { calls, client: { call } as unknown as Client }
}

const rejection = { accept: false, reason: 'No.', actionIds: ['a'], digest: 'd', isContinued: true }

test('a run that continues after a rejection approves nothing that waits by then', async () => {
  const { calls, client } = openClient(403)
  expect(await answerActions(client, 'x', rejection, AbortSignal.timeout(5_000))).toBe(true)
  expect(calls).toEqual([
    { name: 'respondToConfirmation', headers: undefined },
    { name: 'runConversation', headers: { 'x-slipway-no-answer': '1' } },
  ])
})

test('another failure of that run is shown', async () => {
  const { client } = openClient(503)
  await expect(answerActions(client, 'x', rejection, AbortSignal.timeout(5_000))).rejects.toThrow()
})
