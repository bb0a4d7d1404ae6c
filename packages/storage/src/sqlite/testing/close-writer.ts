import { openStorage } from '../storage.ts'

/**
 * For storage-close.test.ts: closes the storage of a directory during pending calls and purges, many times.
 */
const directory = String(process.argv[2])
const id = '6f9619ff-8b86-4011-b42d-00c04fc964ff'
const message = { kind: 'MessageEvent', source: 'user', llm_message: { role: 'user', content: 'hello' } }
for (let round = 0; round < 20; round++) {
  await using storage = await openStorage({ directory })
  const { log, conversations } = storage
  await conversations.create({ id })
  await log.append(
    id,
    Array.from({ length: 1000 }, () => message),
  )
  await log.count(id, { body: 'hello' })
  const first = log.count(id, { body: 'hell' })
  const second = log.count(id, { body: 'ello' }).catch(() => undefined)
  await first
  if (round % 2 === 0) await conversations.remove(id)
  void second
}
console.log('closed')
