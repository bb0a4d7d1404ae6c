import { once } from 'node:events'
import { symlinkSync } from 'node:fs'
import { Worker } from 'node:worker_threads'

const program = `
const { parentPort, workerData } = require('node:worker_threads')
const koffi = require(${JSON.stringify(import.meta.resolve('koffi').replace(/^file:\/\//, ''))})
const renameat2 = koffi.load('libc.so.6').func('int renameat2(int, const char *, int, const char *, unsigned int)')
const { directory, link, stop } = workerData
parentPort.postMessage('started')
while (Atomics.load(stop, 0) === 0) renameat2(-100, directory, -100, link, 2)
`

/**
 * Exchanges a directory with a link to another one in a loop (RENAME_EXCHANGE), in its own thread, until
 * it is disposed.
 */
export async function exchangeWithLink(directory: string, outside: string): Promise<AsyncDisposable> {
  const link = `${directory}-link`
  symlinkSync(outside, link)
  const stop = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(program, { eval: true, workerData: { directory, link, stop } })
  await once(worker, 'message')
  return {
    async [Symbol.asyncDispose]() {
      Atomics.store(stop, 0, 1)
      await once(worker, 'exit')
    },
  }
}
