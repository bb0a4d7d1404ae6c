import { openStorage } from '@slipway/storage'

const id = crypto.randomUUID()
await using storage = await openStorage({ directory: './data' })
await storage.conversations.create({ id })
await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])

for await (const batch of storage.log.tail(id, 0, AbortSignal.timeout(1_000))) {
  for (const { position, bytes } of batch) console.log(position, String(bytes))
  break
}
