import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { Cipher } from '../crypto/cipher.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { FileDocumentStore } from './file-document-store.ts'
import { assertSealingKey } from './sealing-key.ts'

test('documents take the key of the first server alone, also before it has left its mark', async () => {
  using place = temporaryDirectory()
  const documents = new FileDocumentStore({ directory: place.path, encoding: 'base64' })
  const open = (key: string) => Cipher.open({ directory: place.path, secretKey: new Secret(key) })
  const [first, other] = [await open('the first key'), await open('another key')]
  const words = /sealed with another key: start every server with the same SLIPWAY_SECRET_KEY/
  await documents.update('', 'settings.sealed', () => first.seal('{}'))
  await expect(assertSealingKey(documents, other)).rejects.toThrow(words)
  await documents.update('', 'secrets.sealed', () => Buffer.from('damaged'))
  const warnings: unknown[] = []
  await assertSealingKey(documents, first, (_, __, fields) => void warnings.push(fields))
  expect(warnings).toEqual([{ document: 'secrets.sealed' }])
  await assertSealingKey(documents, first)
  await documents.update('', 'settings.sealed', () => undefined)
  await expect(assertSealingKey(documents, other)).rejects.toThrow(words)
})
