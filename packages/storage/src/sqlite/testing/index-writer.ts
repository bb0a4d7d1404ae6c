import { openStorage } from '../storage.ts'

/** For text-index.crash.test.ts: appends messages to a conversation until it is killed, and prints a line. */
const [, , directory = '', id = ''] = process.argv
const storage = await openStorage({ directory })
if ((await storage.conversations.get([id]))[0] === undefined) await storage.conversations.create({ id })
const filler =
  'Some text of a usual length that has many different words, as messages of people and agents have. '
await storage.log.count(id, { body: 'starts the thread' })
console.log('writing')
for (let n = 0; ; n++) {
  const batch = Array.from({ length: 50 }, (_, at) => {
    const text = `${at === n % 50 ? 'needle' : 'hay'} ${Math.random()} ${filler.repeat(40)}`
    const message = { role: 'user', content: [{ type: 'text', text }] }
    return { kind: 'MessageEvent', source: 'user', llm_message: message }
  })
  await storage.log.append(id, batch)
  if (n % 3 === 0) await storage.waitUntilIndexed()
}
