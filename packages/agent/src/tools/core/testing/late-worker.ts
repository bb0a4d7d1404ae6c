import { parentPort } from 'node:worker_threads'

/** Answers with the text of its message, and says so in the memory that it shares with the main thread. */
parentPort?.on('message', ({ text, answered }: { readonly text: string; readonly answered: Int32Array }) => {
  parentPort?.postMessage(text)
  Atomics.store(answered, 0, 1)
  Atomics.notify(answered, 0)
})
