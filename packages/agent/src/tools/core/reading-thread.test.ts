import { expect, test } from 'vitest'
import { ReadingThread } from './reading-thread.ts'

interface Message {
  readonly text: string
  readonly answered: Int32Array
}

const message = (text: string): Message => ({ text, answered: new Int32Array(new SharedArrayBuffer(4)) })

test('the answer of an interrupted read is not that of the next one', async () => {
  const thread = new ReadingThread<Message, string>({
    name: 'late',
    worker: new URL('./testing/late-worker.ts', import.meta.url),
    ...{ deadlineMs: 10_000, maxHeapMb: 64, restMs: 10_000 },
  })
  const never = new AbortController().signal
  expect(await thread.read(message('warm'), never)).toBe('warm')
  const controller = new AbortController()
  const first = message('first')
  const interrupted = thread.read(first, controller.signal)
  // Its message is sent before the thread of the test stops for the answer.
  await Promise.resolve()
  Atomics.wait(first.answered, 0, 0, 10_000)
  controller.abort(new Error('interrupted'))
  const next = thread.read(message('second'), never)
  await expect(interrupted).rejects.toThrow('interrupted')
  expect(await next).toBe('second')
})
