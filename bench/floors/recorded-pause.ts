import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Pausable, waitUntilReachable } from '../support/bare-agent-servers.ts'

const pollMs = 10

/**
 * The least that pauses for a client: a bare `node:http` server that writes the desired and the reached state
 * durably with `node:sqlite`, and pauses and resumes by the freezer, a signal or the engine. A client of it
 * waits for RUNNING as one of the sandbox server does, by a request every 10 ms.
 */
export class RecordedPause implements AsyncDisposable {
  readonly #url: string
  readonly #close: () => Promise<void>

  private constructor(url: string, close: () => Promise<void>) {
    this.#url = url
    this.#close = close
  }

  static async open(directory: string, target: Pausable & { readonly url: string }): Promise<RecordedPause> {
    const database = new DatabaseSync(join(directory, 'states.db'))
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE state (name TEXT)')
    const insert = database.prepare('INSERT INTO state VALUES (?)')
    const newest = database.prepare('SELECT name FROM state ORDER BY rowid DESC LIMIT 1')
    const resume = async () => {
      await target.resume()
      await waitUntilReachable(target.url)
      insert.run('RUNNING')
    }
    const server = createServer(async (request, response) => {
      if (request.url === '/pause') {
        insert.run('PAUSING')
        await target.pause()
        insert.run('PAUSED')
      } else if (request.url === '/resume') {
        insert.run('RESUMING')
        void resume()
      }
      response.end(String(newest.get()?.name))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    return new RecordedPause(`http://127.0.0.1:${address.port}`, async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
      database.close()
    })
  }

  async pause(): Promise<void> {
    await this.#call('/pause')
  }

  /** Resolves when it is RUNNING. */
  async resume(): Promise<void> {
    await this.#call('/resume')
    while ((await this.#call('/state')) !== 'RUNNING') await sleep(pollMs)
  }

  async #call(path: string): Promise<string> {
    const response = await fetch(`${this.#url}${path}`)
    return await response.text()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close()
  }
}
