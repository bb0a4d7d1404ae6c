import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Json, RequestOptions, WireClient } from '../support/wire-client.ts'
import type { OwnMapServer } from './map-server.ts'

/** Sends a request, compares status and members of the body, and returns the body. */
export async function expectAnswer<T = Json>(
  server: Pick<WireClient, 'request'>,
  status: number,
  method: string,
  path: string,
  options: RequestOptions = {},
  shape?: object,
): Promise<T> {
  const answer = await server.request<T>(method, path, options)
  const found = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)?.slice(0, 500)}`
  expect(answer.status, found).toBe(status)
  if (shape !== undefined) expect(answer.body, found).toMatchObject(shape)
  return answer.body
}

/** Routes, each with a body, are 401 without a key and with a wrong one. */
export async function expectUnauthorized(
  server: Pick<WireClient, 'request'>,
  ...routes: readonly (readonly [method: string, path: string, body?: unknown])[]
): Promise<void> {
  for (const [method, path, body] of routes)
    for (const headers of [{}, { 'x-session-api-key': 'a-wrong-key' }])
      await expectAnswer(
        server,
        401,
        method,
        path,
        { isAnonymous: true, headers, ...(body === undefined ? {} : { body }) },
        { detail: 'Unauthorized' },
      )
}

/** How many conversations a server has in memory. */
export async function countLoaded(server: OwnMapServer): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: server.headers })).text()
  return Number(/^slipway_conversations_loaded (\d+)$/m.exec(text)?.[1])
}

/** The stored files of a server that contain a text. */
export async function filesWith(server: OwnMapServer, text: string): Promise<string[]> {
  const found: string[] = []
  for (const root of [server.data, server.home])
    for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name)
      if (entry.isFile() && (await readFile(path)).includes(text)) found.push(path)
    }
  return found
}
