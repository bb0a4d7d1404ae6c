import { expect, test } from 'vitest'
import {
  conversation,
  importEvents,
  type OpenStorage,
  otherConversation,
  readAll,
  receivedEvent,
} from '../testing/fixtures.ts'
import type { ImportSession } from './import-session.ts'
import type { Storage } from './storage.ts'

/** From now on, the next commit of a log is stored and then reported as failed. */
export type LoseNextCommit = () => Disposable

const imported = ['i0', 'i1', 'i2', 'i3'].map((id, n) => receivedEvent(id, n))
const unavailable = { code: 'unavailable' }

/**
 * A commit that is reported as failed may be stored. What cleans up after it deletes nothing that was
 * published, or acknowledged since.
 */
export function unknownCommitContract(open: OpenStorage, loseNextCommit: LoseNextCommit): void {
  const losing = async (call: () => Promise<unknown>) => {
    using _ = loseNextCommit()
    await expect(call()).rejects.toMatchObject(unavailable)
  }

  test('a new conversation whose publication was reported as failed keeps what is appended later', async () => {
    await using fixture = await open()
    const { storage } = fixture
    const marker = await startMarker(storage)
    const session = await storage.startImport(conversation)
    await session.add(imported)
    await losing(() => session.publish({ title: 'T' }))
    await session.abort()
    await marker.abort()
    await eventually(() => importEvents(storage, imported))
    await storage.log.append(conversation, [receivedEvent('later', 9)])
    await eventually(() => append(storage, otherConversation))
    const ids = ['i0', 'i1', 'i2', 'i3', 'later']
    expect(await idsOf(storage)).toEqual(ids)
    expect(await storage.conversations.get([conversation])).toMatchObject([{ title: 'T', head: 5 }])
    expect(await idsOf(await fixture.reopen())).toEqual(ids)
  })

  test('a conversation whose extension was reported as failed keeps it', async () => {
    await using fixture = await open()
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1)])
    const session = await storage.startImport(conversation)
    await session.add(imported)
    await losing(() => session.publish({}))
    await session.abort()
    await eventually(() => append(storage, conversation))
    const ids = ['a', 'i0', 'i1', 'i2', 'i3', 'later']
    expect(await idsOf(storage)).toEqual(ids)
    expect(await idsOf(await fixture.reopen())).toEqual(ids)
  })

  test('the clean-up of an empty publication that was reported as failed leaves the next import alone', async () => {
    await using fixture = await open()
    const { storage } = fixture
    const marker = await startMarker(storage)
    const failed = await storage.startImport(conversation)
    await losing(() => failed.publish({}))
    await failed.abort()
    await marker.abort()
    const repeated: { session?: ImportSession } = {}
    await eventually(async () => {
      repeated.session = await storage.startImport(conversation)
    })
    await repeated.session?.add(imported)
    await eventually(() => append(storage, otherConversation))
    await repeated.session?.publish({})
    const ids = ['i0', 'i1', 'i2', 'i3']
    expect(await idsOf(storage)).toEqual(ids)
    expect(await idsOf(await fixture.reopen())).toEqual(ids)
  })

  test('a start of an import that was reported as failed takes nothing that is appended later', async () => {
    const lines: string[] = []
    await using fixture = await open({ log: (_, message) => lines.push(message) })
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1)])
    await losing(() => storage.startImport(conversation))
    await eventually(() => append(storage, conversation))
    await losing(() => storage.startImport(otherConversation))
    await eventually(() => importEvents(storage, imported, otherConversation))
    const reopened = await fixture.reopen()
    await eventually(() => append(reopened, conversation, 'latest'))
    expect(await idsOf(reopened)).toEqual(['a', 'later', 'latest'])
    expect(lines.filter((line) => line.includes('left behind'))).toEqual([])
    await importEvents(reopened, imported)
    expect(await idsOf(reopened)).toEqual(['a', 'later', 'latest', 'i0', 'i1', 'i2', 'i3'])
  })

  test('a clean-up whose commit was reported as failed is repeated, and takes nothing that is appended later', async () => {
    await using fixture = await open()
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1)])
    const session = await storage.startImport(conversation)
    await session.add(imported)
    {
      using _ = loseNextCommit()
      await session.abort()
    }
    await eventually(() => append(storage, conversation))
    expect(await idsOf(storage)).toEqual(['a', 'later'])
    expect(await idsOf(await fixture.reopen())).toEqual(['a', 'later'])
  })

  test('a conversation whose removal was reported as failed can be made again', async () => {
    await using fixture = await open()
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1)])
    await losing(() => storage.conversations.remove(conversation))
    await eventually(() => importEvents(storage, imported))
    const ids = ['i0', 'i1', 'i2', 'i3']
    expect(await idsOf(storage)).toEqual(ids)
    expect(await idsOf(await fixture.reopen())).toEqual(ids)
  })
}

/**
 * An import whose abort, while the storage fails, waits behind the clean-ups before it: appends to its
 * conversation succeed when they are over.
 */
async function startMarker(storage: Storage): Promise<ImportSession> {
  await storage.conversations.create({ id: otherConversation })
  const session = await storage.startImport(otherConversation)
  await session.add([receivedEvent('m', 1)])
  return session
}

async function append(storage: Storage, id: string, eventId = 'later'): Promise<void> {
  await storage.log.append(id, [receivedEvent(eventId, 9)])
}

async function idsOf(storage: Storage): Promise<string[]> {
  return (await readAll(storage)).map(({ id }) => id)
}

/** Repeats a call that the storage refuses for now, as a client does. */
async function eventually(call: () => Promise<unknown>): Promise<void> {
  await expect
    .poll(
      () =>
        call().then(
          () => 'done',
          (error: unknown) => error,
        ),
      { timeout: 20_000 },
    )
    .toBe('done')
}
