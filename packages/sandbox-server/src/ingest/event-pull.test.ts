import { Secret } from '@slipway/shared/redaction'
import { FakeClock } from '@slipway/shared/time/testing'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import { parseUuid } from '../conversations/records/conversation-ids.ts'
import type { SandboxConnection } from '../sandboxes/sandboxes.ts'
import { EventPull } from './event-pull.ts'
import { readEvents } from './read-events.ts'

const startMs = Date.UTC(2026, 0, 1)

/** Sandboxes without conversations; `isSilent` ones never answer. `looks` has the second of each question. */
function openPull(sandboxes: Record<string, { isSilent?: boolean; usedMs?: number; isRunning?: boolean }>) {
  const clock = new FakeClock(startMs)
  const looks: Record<string, number[]> = {}
  const search = async (id: string, signal: AbortSignal) => {
    looks[id] = [...(looks[id] ?? []), (clock.now() - startMs) / 1000]
    if (sandboxes[id]?.isSilent)
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const info = { id: crypto.randomUUID(), updated_at: '2026', execution_status: 'running' }
    return { items: sandboxes[id]?.isRunning ? [info] : [], next_page_id: null }
  }
  const connectionOf = (id: string) => ({
    client: {
      call: async (name: string, { signal }: { signal: AbortSignal }) =>
        name === 'searchConversations' ? await search(id, signal) : 0,
    },
  })
  const lease = { run: async <T>(work: () => Promise<T>) => await work(), release: async () => {} }
  const pull = new EventPull({
    sandboxes: {
      async *listRunning() {
        for (const id of Object.keys(sandboxes)) yield { id } as SandboxRow
      },
      getConnection: ({ id }) => connectionOf(id) as unknown as SandboxConnection,
      hasWebhooks: () => true,
      lastUse: ({ id }) => (startMs + (sandboxes[id]?.usedMs ?? -600_000)) * 1000,
    },
    ingest: {
      findPosition: async () => ({ position: 0, cursor: '0' }),
      receiveConversation: async () => {},
      receiveEvents: async () => undefined,
    },
    leases: { tryAcquire: async () => lease as never },
    fetch,
    clock,
    log: () => {},
  })
  pull.start()
  const advance = async (seconds: number) => {
    for (let n = 0; n < seconds; n++) await clock.advance(1_000)
  }
  return { pull, looks, advance }
}

test('a silent sandbox holds up no other, and is asked less and less', async () => {
  const { pull, looks, advance } = openPull({ silent: { isSilent: true }, used: { usedMs: 1_000_000 } })
  await advance(60)
  expect(looks.used?.slice(0, 5)).toEqual([3, 6, 9, 12, 15])
  expect(looks.used?.length).toBeGreaterThan(18)
  expect(looks.silent?.length).toBeLessThan(6)
  await pull[Symbol.asyncDispose]()
})

test('a sandbox is asked rarely when its webhooks arrive, or when it is at rest and unused', async () => {
  const { pull, looks, advance } = openPull({
    heard: { usedMs: 1_000_000 },
    idle: {},
    busy: { isRunning: true },
  })
  await advance(4)
  pull.noteWebhook('heard')
  await advance(116)
  expect(looks.heard?.length).toBeLessThan(5)
  expect(looks.idle?.length).toBeLessThan(4)
  expect(looks.busy?.length).toBeGreaterThan(35)
  await pull[Symbol.asyncDispose]()
})

/** `logs`: conversations by id with the texts of their events. Returns those that have arrived after each look. */
async function pullAll(
  logs: Record<string, readonly string[]>,
  { looks = 1, hasWebhooks = false, isRefused = (_: string): boolean => false } = {},
) {
  const clock = new FakeClock(startMs)
  const ids = Object.keys(logs)
  const frames = (id: string) =>
    (logs[id] ?? []).map((text, at) => `id: ${at + 1}\ndata: {"kind":"Noted","text":"${text}"}\n\n`)
  const answers: Record<string, (id: string) => unknown> = {
    searchConversations: () => ({
      items: ids.map((id) => ({ id, updated_at: '2026', execution_status: 'idle' })),
      next_page_id: null,
    }),
    countEvents: (id) => logs[id]?.length,
  }
  const client = {
    call: async (name: string, { params }: { params?: { conversation_id: string } }) =>
      answers[name]?.(params?.conversation_id ?? ''),
  }
  const stored: Record<string, string[]> = {}
  let looked = Promise.withResolvers<void>()
  const lease = {
    run: async <T>(work: () => Promise<T>) => await work(),
    release: async () => looked.resolve(),
  }
  const pull = new EventPull({
    sandboxes: {
      async *listRunning() {
        yield { id: 'a' } as SandboxRow
      },
      getConnection: () =>
        ({ client, url: 'http://a', key: new Secret('key') }) as unknown as SandboxConnection,
      hasWebhooks: () => hasWebhooks,
      lastUse: () => startMs * 1000,
    },
    ingest: {
      findPosition: async (_, id) => ({ position: stored[id]?.length ?? 0, cursor: '0' }),
      receiveConversation: async () => {},
      receiveEvents: async (_, id, body) => {
        if (isRefused(id)) throw new Error('refused')
        const events = await readEvents(body, { add: async () => {} })
        stored[id] = [...(stored[id] ?? []), ...events.map(({ bytes }) => JSON.parse(String(bytes)).text)]
        return undefined
      },
    },
    leases: { tryAcquire: async () => lease as never },
    fetch: async (url) => {
      const id = parseUuid(/conversations\/([0-9a-f]+)\//.exec(String(url))?.[1]) ?? ''
      return new Response(
        frames(id)
          .slice(stored[id]?.length ?? 0)
          .join(''),
      )
    },
    clock,
    log: () => {},
  })
  pull.start()
  const arrived: (typeof stored)[] = []
  for (let n = 0; n < looks; n++) {
    looked = Promise.withResolvers()
    await clock.advance(3_000)
    await looked.promise
    arrived.push({ ...stored })
  }
  await pull[Symbol.asyncDispose]()
  return arrived
}

test('a conversation whose events are refused holds up no other of its sandbox', async () => {
  const [bad, good] = [crypto.randomUUID(), crypto.randomUUID()]
  const isRefused = (id: string) => id === bad
  expect(await pullAll({ [bad]: ['one'], [good]: ['two'] }, { isRefused })).toEqual([{ [good]: ['two'] }])
})

test('events arrive in bodies that the ingest takes, however long they are', async () => {
  const id = crypto.randomUUID()
  const texts = ['a', 'b'.repeat(9 * 2 ** 20), 'c', ...Array.from({ length: 600 }, () => '字'.repeat(6_000))]
  const [stored = {}] = await pullAll({ [id]: texts })
  expect(stored[id]?.map((text) => text.length)).toEqual(texts.map((text) => text.length))
})

test('events are fetched at the first look, and where webhooks could bring them at the second', async () => {
  const logs = { [crypto.randomUUID()]: ['one', 'two'] }
  expect(await pullAll(logs)).toEqual([logs])
  expect(await pullAll(logs, { hasWebhooks: true, looks: 2 })).toEqual([{}, logs])
})
