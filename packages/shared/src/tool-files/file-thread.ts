import { Worker } from 'node:worker_threads'
import { decodeResult, type FileRequest, type FileResponse } from './protocol.ts'
import type { ToolUser } from './tool-user.ts'

/** Does files with the rights of another user, one after another. */
export class FileThread {
  readonly #worker: Worker
  readonly #pending = new Map<number, PromiseWithResolvers<unknown>>()
  #lastId = 0

  private constructor({ uid, gid }: ToolUser) {
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), {
      workerData: { uid, gid },
      execArgv: [],
      name: 'tool-files',
    })
    this.#worker.on('message', (response: FileResponse) => this.#handleResponse(response))
    this.#worker.on('error', (error) => this.#fail(error))
    this.#worker.on('exit', () => this.#fail(new Error('The thread for files has stopped')))
  }

  /** Rejects where the system does not allow it. */
  static async start(user: ToolUser): Promise<FileThread> {
    const thread = new FileThread(user)
    await thread.#wait(0)
    return thread
  }

  /** Calls the synchronous function of `node:fs` with this name; rejects with its error. */
  async call(name: string, args: readonly unknown[]): Promise<unknown> {
    const request: FileRequest = { id: ++this.#lastId, name, args }
    this.#worker.postMessage(request)
    return decodeResult(await this.#wait(request.id))
  }

  #wait(id: number): Promise<unknown> {
    const pending = Promise.withResolvers<unknown>()
    this.#pending.set(id, pending)
    // The thread keeps the process alive only while it works.
    this.#worker.ref()
    return pending.promise
  }

  #handleResponse({ id, value, error }: FileResponse): void {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    if (this.#pending.size === 0) this.#worker.unref()
    if (error === undefined) pending?.resolve(value)
    else pending?.reject(Object.assign(new Error(error.message), error))
  }

  #fail(error: Error): void {
    for (const pending of this.#pending.values()) pending.reject(error)
    this.#pending.clear()
  }
}
