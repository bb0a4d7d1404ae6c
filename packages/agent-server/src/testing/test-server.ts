import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createApp, type Handlers, listen } from '@slipway/http'
import { agentServerOpenApi, type RouteTable } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import { temporaryDirectory } from './fixtures.ts'

/** Routes alone, on their own directory, for one test. */
export interface TestServer extends AsyncDisposable {
  readonly url: string
  readonly directory: string
  readonly cipher: Cipher
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: unknown }>
  /** The same with the body as it stands. */
  callRaw(method: string, path: string, body: string): Promise<{ status: number; json: unknown }>
  /** Everything that was answered or logged, and the files of the directory. */
  collectOutput(): Promise<string>
}

export async function openTestServer<T extends RouteTable>(
  routes: T,
  handlers: (context: { readonly directory: string; readonly cipher: Cipher }) => Handlers<T>,
): Promise<TestServer> {
  const directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const output: string[] = []
  const log = (...line: unknown[]) => void output.push(JSON.stringify(line))
  const server = createApp(routes, handlers({ directory: directory.path, cipher }), {
    openapi: agentServerOpenApi,
    log,
  })
  const listening = await listen(server, { host: '127.0.0.1', port: 0 })
  const callRaw = async (method: string, path: string, body?: string) => {
    const content = body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } }
    const response = await fetch(`${listening.url}${path}`, { method, ...content })
    const text = await response.text()
    output.push(text)
    return { status: response.status, json: JSON.parse(text) as unknown }
  }
  return {
    url: listening.url,
    directory: directory.path,
    cipher,
    callRaw,
    call: (method, path, body) =>
      callRaw(method, path, body === undefined ? undefined : JSON.stringify(body)),
    collectOutput: async () => [...output, ...(await readFiles(directory.path))].join('\n'),
    async [Symbol.asyncDispose]() {
      await listening.close()
      directory[Symbol.dispose]()
    },
  }
}

async function readFiles(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), 'latin1')))
}
