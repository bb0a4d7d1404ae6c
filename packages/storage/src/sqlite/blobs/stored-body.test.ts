import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { joinHeader, minRunLength, splitBody, wholeBody } from './stored-body.ts'

/** The text as it comes back, and how many bytes of it are runs. */
function roundTrip(text: Buffer): { readonly whole: Buffer; readonly inRuns: number } {
  const split = splitBody(text)
  if (split === undefined) return { whole: text, inRuns: 0 }
  const numbers = split.runs.map((_, index) => index + 7)
  const stored = joinHeader(text, split, numbers)
  const whole = wholeBody(stored, (number) => split.runs[number - 7]?.bytes)
  return { whole, inRuns: text.length - split.rest.length }
}

const run = fc
  .integer({ min: 0, max: 3 * minRunLength })
  .map((length) => randomBytes(length).toString('base64'))
const piece = fc.oneof(run, fc.json(), fc.constantFrom('data:image/png;base64,', '"', '=', '==', 'abc', 'é'))

test('every text comes back, byte for byte', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const text = Buffer.from(pieces.join(''))
      expect(roundTrip(text).whole.equals(text)).toBe(true)
    }),
    { numRuns: 300 },
  )
})

test.each([
  ['a picture in a data URL', (data: string) => `{"url":"data:image/png;base64,${data}","n":1}`, 1],
  ['the data of a picture alone', (data: string) => `{"data":"${data}"}`, 1],
  ['two pictures', (data: string) => `{"a":"${data}","b":["${data}"]}`, 2],
  ['a text of words', (data: string) => JSON.stringify({ text: data.replaceAll(/.{40}/g, '$& ') }), 0],
  ['base64 in lines', (data: string) => JSON.stringify({ text: data.replaceAll(/.{76}/g, '$&\n') }), 0],
])('%s has its runs', (_, write, count) => {
  const text = Buffer.from(write(randomBytes(minRunLength).toString('base64')))
  expect(splitBody(text)?.runs.length ?? 0).toBe(count)
  expect(roundTrip(text).whole.equals(text)).toBe(true)
})

test('a run ends where its last group would not come back', () => {
  const data = randomBytes(minRunLength - 2).toString('base64')
  // Bits behind the last byte, which a decoder drops.
  const changed = data.replace(/.=$/, (end) => (end.startsWith('A') ? 'B=' : `${end[0]}=`))
  for (const text of [`"${data}A"`, `"${data}==="`, `"${changed}"`, `"${data.slice(0, -1)}"`])
    expect(roundTrip(Buffer.from(text)).whole.toString()).toBe(text)
})

test('a damaged stored form is another text, never an error', () => {
  const text = Buffer.from(`{"data":"${randomBytes(minRunLength).toString('base64')}"}`)
  const split = splitBody(text)
  if (split === undefined) throw new Error('nothing was split')
  const stored = joinHeader(text, split, [1])
  const find = (number: number) => (number === 1 ? split.runs[0]?.bytes : undefined)
  expect(wholeBody(stored, find).equals(text)).toBe(true)
  for (let bit = 0; bit < stored.length * 8; bit++) {
    const damaged = Buffer.from(stored)
    damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    const isHeaderLength = wholeBody(damaged, find).equals(text)
    // The length of the whole text is not used to read a text.
    if (isHeaderLength) expect(bit >> 3).toBeLessThan(stored.indexOf(',"blobs"'))
  }
  expect(wholeBody(stored, () => undefined).equals(stored)).toBe(true)
})
