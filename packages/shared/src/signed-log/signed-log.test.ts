import { expect, test } from 'vitest'
import { createSigningKey, isPublicKeyText, LogSigner, publicKeyText, verifyLog } from './index.ts'

const key = createSigningKey()
const publicKey = publicKeyText(key)

function signed(events: readonly string[], by = key): string[] {
  const signer = new LogSigner(by, 'a-conversation')
  const lines = events.map((event, index) => signer.event(index + 1, Buffer.from(event)))
  return [signer.header, ...lines, signer.end()].map(String)
}

async function* chunks(text: string | Buffer, sizeBytes = 7) {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += sizeBytes) yield bytes.subarray(at, at + sizeBytes)
}

const events = ['{"kind" : "a"}', '{"kind":"b","text":"é"}', '{"kind":"c"}']

test('a log is verified with its key, and without one its signer is unknown', async () => {
  const file = signed(events).join('')
  const result = { conversation_id: 'a-conversation', count: 3, public_key: publicKey }
  expect(await verifyLog(chunks(file), publicKey)).toMatchObject({ ...result, isSignerKnown: true })
  expect(await verifyLog(chunks(file), undefined)).toMatchObject({ ...result, isSignerKnown: false })
  expect(file).toContain('{"position":1,"event":{"kind" : "a"}}\n')
  expect(await verifyLog(chunks(signed([]).join('')), publicKey)).toMatchObject({ count: 0 })
  expect([publicKey, publicKey.slice(1), ''].map(isPublicKeyText)).toEqual([true, false, false])
})

test('every changed bit of a file is refused', async () => {
  const file = Buffer.from(signed(['{"a":1}']).join(''))
  for (let at = 0; at < file.length; at++)
    for (const bit of [1, 32]) {
      const changed = Buffer.from(file)
      changed[at] = Number(changed[at]) ^ bit
      await expect(verifyLog(chunks(changed, 4096), undefined), `byte ${at}`).rejects.toMatchObject({
        name: 'VerificationError',
      })
    }
})

test.each<[string, (lines: string[]) => string[], string]>([
  ['a missing line', ([a = '', b = '', , ...rest]) => [a, b, ...rest], 'event 2 should be there'],
  ['two swapped lines', ([a = '', b = '', c = '', ...rest]) => [a, c, b, ...rest], 'event 1 should'],
  ['a line twice', ([a = '', b = '', ...rest]) => [a, b, b, ...rest], 'event 2 should be there'],
  ['a cut end', (lines) => lines.slice(0, -1), 'cut after event 3'],
  ['a cut last line', (lines) => [...lines.slice(0, -1), String(lines.at(-1)).slice(0, -1)], 'was cut'],
  ['an event cut off before the end', (lines) => lines.toSpliced(-2, 1), 'a line was changed'],
  ['lines behind the end', (lines) => [...lines, '\n'], 'behind the signature'],
  ['the end of another log', (lines) => [...lines.slice(0, -1), String(signed(['{}']).at(-1))], 'changed'],
  [
    'the end by another key',
    (l) => [...l.slice(0, -1), String(signed(events, createSigningKey()).at(-1))],
    '',
  ],
  ['no line', () => [], 'empty'],
  ['another file', () => ['{"kind":"PauseEvent"}\n'], 'no verifiable export'],
])('%s is refused', async (_, change, reason) => {
  await expect(verifyLog(chunks(change(signed(events)).join('')), publicKey)).rejects.toThrow(reason)
})

test('a file that another key signed is refused with that key', async () => {
  const other = createSigningKey()
  const file = signed(events, other).join('')
  await expect(verifyLog(chunks(file), publicKey)).rejects.toThrow(publicKeyText(other))
})

test('a log with a gap, and an event of two lines, are not signed', () => {
  const signer = new LogSigner(key, 'c')
  expect(() => signer.event(2, Buffer.from('{}'))).toThrow('position 1 is missing')
  expect(() => signer.event(1, Buffer.from('{\n}'))).toThrow('not one line')
})
