import { expect, test, vi } from 'vitest'
import { ReadingLimitError } from '../core/reading-thread.ts'
import { HtmlThread } from './html-thread.ts'

const never = new AbortController().signal
const limits = { deadlineMs: 10_000, maxHeapMb: 256, restMs: 60_000 }
const page = (html: string) => ({ html, baseUrl: 'http://a.example/', maxLength: 1024 * 1024 })
const row = (cells: string) => `<table><tr>${cells}</tr></table>`

test.for([
  ['one cell with a billion columns', row('<td colspan="1000000000">a<td>b')],
  ['the number by an entity', row('<td colspan="&#49;000000000">a<td>b')],
  ['rows and columns together', row('<td colspan=65000 rowspan=65000>a<td>b'.repeat(1000))],
] as const)('%s: the table is read at once', async ([, html]) => {
  const text = await new HtmlThread({ ...limits, maxHeapMb: 64 }).read(page(html), never)
  expect(text).toMatch(/^a +b/)
})

test('a page that takes too long or too much memory ends its thread, and the next one is read', async () => {
  const thread = new HtmlThread({ ...limits, maxHeapMb: 32 })
  const slow = new HtmlThread({ ...limits, deadlineMs: 200 })
  let turns = 0
  const ticks = setInterval(() => turns++, 5)
  const nested = page('<div>'.repeat(190_000))
  await expect(slow.read(nested, never)).rejects.toThrow('within 0.2 seconds')
  const cell = `<tr><td>${'x'.repeat(200_000)}</td><td>y</td></tr>`
  const padded = page(`<table>${cell}${'<tr><td></td><td>y</td></tr>'.repeat(20_000)}</table>`)
  await expect(thread.read(padded, never)).rejects.toThrow(ReadingLimitError)
  clearInterval(ticks)
  expect(turns).toBeGreaterThan(10)
  expect([slow.isRunning, thread.isRunning]).toEqual([false, false])
  expect(await thread.read(page('<p>next'), never)).toBe('next')
})

test('an abort ends a page at once', async () => {
  const thread = new HtmlThread(limits)
  const controller = new AbortController()
  const read = thread.read(page('<div>'.repeat(190_000)), controller.signal)
  controller.abort(new Error('left'))
  await expect(read).rejects.toThrow('left')
})

test('a thread without work ends', async () => {
  const thread = new HtmlThread({ ...limits, restMs: 10 })
  expect(await Promise.all(['a', 'b'].map((text) => thread.read(page(text), never)))).toEqual(['a', 'b'])
  await vi.waitFor(() => expect(thread.isRunning).toBe(false))
})
