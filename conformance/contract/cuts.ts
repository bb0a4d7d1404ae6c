import { setTimeout as sleep } from 'node:timers/promises'
import { Client, follow } from '@slipway/client'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { CutProxy } from './cut-proxy.ts'
import type { Guarantee } from './guarantee.ts'
import { MessageLedger, readStream } from './message-ledger.ts'

const followers = 6

/** Followers whose connections are cut while messages are written. */
export const cuts: Guarantee = {
  promise: 'A follower that reconnects from its last position receives every event once and in order.',
  round: 'cuts a connection after a random byte, at once, half-open or after a stall',
  partRounds: 250,
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    await using proxy = await CutProxy.open(server.url)
    const ledger = await MessageLedger.open(server.api, 1)
    const [id = ''] = ledger.conversations
    const over = new AbortController()
    const load = ledger.write(server.api, { label: 'cuts', signal: over.signal, writers: 2, bytes: 500 })
    const received = Array.from({ length: followers }, (): number[] => [])
    const following = new AbortController()
    const readers = received.map((positions, index) =>
      index % 2 === 0
        ? followByClient(proxy.url, id, positions, following.signal)
        : followByEvents(proxy.url, id, positions, following.signal),
    )
    while (proxy.cuts < rounds) await sleep(10)
    over.abort()
    await load
    const { positions } = await readStream(server.api, id)
    await waitFor(() => received.every((one) => one.length >= positions.length))
    following.abort()
    await Promise.all(readers)
    for (const one of received) expect(one).toEqual(positions)
    await ledger.verify(server.api)
    return { cuts: proxy.cuts, followers, events: positions.length, 'lost, doubled, reordered': 0 }
  },
}

/** The client's own `follow`, which reconnects on its own. */
async function followByClient(
  url: string,
  id: string,
  positions: number[],
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const { position } of follow(new Client({ url }), id, { signal })) positions.push(position)
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Server-sent events as a browser reads them: each new request names the last id. */
async function followByEvents(
  url: string,
  id: string,
  positions: number[],
  signal: AbortSignal,
): Promise<void> {
  let last: string | undefined
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': last }
      const response = await fetch(`${url}/api/conversations/${id}/events/stream`, { headers, signal })
      let text = ''
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString('latin1')
        const blocks = text.split('\n\n')
        text = blocks.pop() ?? ''
        for (const block of blocks) {
          const found = /^id: ((\d+).*)$/m.exec(block)
          if (found === null) continue
          last = found[1]
          positions.push(Number(found[2]))
        }
      }
    } catch {
      // Cut: the next request continues.
    }
  }
}

async function waitFor(check: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 120_000; !check(); await sleep(20))
    if (Date.now() > deadline) throw new Error('the followers did not receive all events within 120 s')
}
