import { LogSigner } from '@slipway/shared/signed-log'
import type { WriteFormat } from './format.ts'

export const writeVerifiable: WriteFormat = async function* ({ record, batches, signingKey }) {
  const signer = new LogSigner(await signingKey(), record.id)
  yield signer.header
  let position = 0
  for await (const events of batches) {
    yield Buffer.concat(events.map((event) => signer.event(event.position, event.bytes)))
    position = events.at(-1)?.position ?? position
  }
  if (position !== record.head) throw new Error('The conversation was removed during its export')
  yield signer.end()
}
