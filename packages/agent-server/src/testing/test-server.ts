import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { app, type Handlers, listen } from '@slipway/http'
import { agentOpenApi, type RouteTable } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import { temporary } from './fixtures.ts'

/** Routes alone, on a directory of their own, for one test. */
export interface Served extends AsyncDisposable {
  readonly url: string
  readonly directory: string
  readonly cipher: Cipher
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: unknown }>
  /** The same with the body as it stands. */
  raw(method: string, path: string, body: string): Promise<{ status: number; json: unknown }>
  /** Everything that was answered or logged, and the files of the directory. */
  traces(): Promise<string>
}

export async function served<T extends RouteTable>(
  routes: T,
  handlers: (made: { readonly directory: string; readonly cipher: Cipher }) => Handlers<T>,
): Promise<Served> {
  const directory = temporary()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const texts: string[] = []
  const log = (...line: unknown[]) => void texts.push(JSON.stringify(line))
  const web = app(routes, handlers({ directory: directory.path, cipher }), { openapi: agentOpenApi, log })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  const raw = async (method: string, path: string, body?: string) => {
    const content = body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } }
    const response = await fetch(`${listening.url}${path}`, { method, ...content })
    const text = await response.text()
    texts.push(text)
    return { status: response.status, json: JSON.parse(text) as unknown }
  }
  return {
    url: listening.url,
    directory: directory.path,
    cipher,
    raw,
    call: (method, path, body) => raw(method, path, body === undefined ? undefined : JSON.stringify(body)),
    traces: async () => [...texts, ...(await filesIn(directory.path))].join('\n'),
    async [Symbol.asyncDispose]() {
      await listening.close()
      directory[Symbol.dispose]()
    },
  }
}

async function filesIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), 'latin1')))
}
