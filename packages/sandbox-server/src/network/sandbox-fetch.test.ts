import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sandboxFetch } from './sandbox-fetch.ts'

let directory: string
let internal: Server
let hostile: Server
let onSocket: Server
const requests: string[] = []

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-fetch-'))
  internal = createServer(({ url }, response) => {
    requests.push(String(url))
    response.end()
  })
  await listen(internal, 0)
  hostile = createServer((_, response) =>
    response.writeHead(307, { location: `${url(internal)}/stolen` }).end(),
  )
  onSocket = createServer((_, response) =>
    response.writeHead(302, { location: `${url(internal)}/stolen` }).end(),
  )
  await listen(hostile, 0)
  await listen(onSocket, join(directory, 'socket'))
})
afterAll(async () => {
  for (const server of [internal, hostile, onSocket]) server.close()
  await rm(directory, { recursive: true })
})

function listen(server: Server, where: number | string): Promise<void> {
  return new Promise((resolve) =>
    typeof where === 'string' ? server.listen(where, resolve) : server.listen(where, '127.0.0.1', resolve),
  )
}

function url(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a redirect of a sandbox is an error, and nothing is sent to its target', async () => {
  const addresses = [url(hostile), `http+unix://${encodeURIComponent(join(directory, 'socket'))}`]
  for (const address of addresses) {
    for (const redirect of [undefined, 'follow'] as const) {
      const init = { headers: { 'x-session-api-key': 'a key' }, ...(redirect && { redirect }) }
      await expect(sandboxFetch(`${address}/`, init)).rejects.toThrow('fetch failed')
    }
    expect((await sandboxFetch(`${address}/`, { redirect: 'manual' })).status).toBeGreaterThanOrEqual(300)
  }
  expect(requests).toEqual([])
})
