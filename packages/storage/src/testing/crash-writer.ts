import { randomUUID } from 'node:crypto'
import { writeSync } from 'node:fs'
import type { Storage } from '../conversations/storage.ts'
import type { ReceivedEvent } from '../event-log/event-log.ts'
import { openPostgresStorage } from '../postgres/storage.ts'
import { openStorage } from '../sqlite/storage.ts'

/**
 * A process for tests: writes to the storage of a directory or a URL, and prints each acknowledgement at
 * once.
 */
const [, , mode = '', place = ''] = process.argv
const storage: Storage = place.startsWith('postgres:')
  ? await openPostgresStorage({ url: place })
  : await openStorage({ directory: place })

function messageEvent(id: string, instant: number, text: string): ReceivedEvent {
  const event = { id, source: 'user', llm_message: { content: text }, kind: 'MessageEvent' }
  return { bytes: Buffer.from(JSON.stringify(event)), id, instant, kind: event.kind, source: event.source }
}

function print(...words: (string | number)[]): void {
  writeSync(1, `${words.join(' ')}\n`)
}

async function create(): Promise<string> {
  const id = randomUUID()
  await storage.conversations.create({ id })
  print('created', id)
  return id
}

async function append(store: Storage, conversation: string, count: number): Promise<void> {
  const text = 'x'.repeat(Math.floor(Math.random() * 3_000))
  const events = Array.from({ length: count }, () => messageEvent(randomUUID(), Date.now() * 1000, text))
  const stored = await store.log.append(conversation, events)
  for (const event of stored) print('stored', conversation, event.position, event.id)
}

async function importOne(): Promise<void> {
  const id = randomUUID()
  const session = await storage.startImport(id)
  const count = 5 * (1 + Math.floor(Math.random() * 40))
  print('importing', id, count)
  for (let i = 0; i < count; i += 5) {
    await session.add(Array.from({ length: 5 }, (_, j) => messageEvent(`e${i + j}`, i + j, 'text')))
  }
  await session.publish({})
  print('published', id, count)
}

/** Delivers some conversations to a receiver and advances its cursor. */
async function deliver({ conversations, deliveries }: Storage): Promise<void> {
  for (const { conversation, isRemoved } of await deliveries.listPending('r', 3)) {
    const [record] = await conversations.get([conversation])
    if (isRemoved) await deliveries.forget('r', conversation)
    if (record === undefined) continue
    await deliveries.advance('r', conversation, { position: record.head, updated_at: record.updated_at })
    print('delivered', conversation, record.head)
  }
}

/** Single and grouped appends, lists, imports, deliveries and deletions, until it is killed. */
async function writeForever(): Promise<never> {
  const ids = [await create(), await create()]
  for (let i = 0; ; i++) {
    const conversation = ids[i % ids.length] ?? ''
    await append(storage, conversation, 1)
    await Promise.all([1, 3, 1, 2].map((count, j) => append(storage, ids[j % ids.length] ?? '', count)))
    await deliver(storage)
    if (i % 5 === 0) await importOne()
    if (i % 10 === 9) {
      const [doomed = ''] = ids.splice(0, 1, await create())
      print('removing', doomed)
      await storage.conversations.remove(doomed)
      print('removed', doomed)
    }
  }
}

/** Single appends and one group. */
async function writeFew(): Promise<void> {
  const id = await create()
  for (let i = 0; i < 20; i++) await append(storage, id, 1)
  print('group')
  await Promise.all(Array.from({ length: 20 }, () => append(storage, id, 1)))
}

/** Until the file cannot grow. */
async function writeUntilFailure(): Promise<void> {
  const id = await create()
  try {
    for (;;) await append(storage, id, 1)
  } catch (error) {
    print('failed', String(Reflect.get(Object(error), 'code')))
  }
  await append(storage, id, 1).catch((error: unknown) =>
    print('failed', String(Reflect.get(Object(error), 'code'))),
  )
  print('readable', (await storage.log.read(id, 0, 1_000_000)).length)
}

if (mode === 'for-ever') await writeForever()
if (mode === 'few') await writeFew()
if (mode === 'until-failure') await writeUntilFailure()
await storage[Symbol.asyncDispose]()
