import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SandboxServerClient } from '@slipway/client'
import { expect, test } from 'vitest'
import { followStartTask } from './start-tasks.ts'

const task = (status: string, second: number) => ({
  id: '0'.repeat(32),
  status,
  detail: null,
  app_conversation_id: null,
  updated_at: `2026-01-01T00:00:0${second}.000000Z`,
})

/** A server whose stream is what `stream` does, and which is then asked for the task again and again. */
async function collectStatuses(
  stream: (response: ServerResponse) => void,
  later: readonly (ReturnType<typeof task> | null)[] = [],
): Promise<string[]> {
  const rest = [...later]
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    if (request.method === 'POST') stream(response)
    else response.end(JSON.stringify([rest.length > 1 ? rest.shift() : rest[0]]))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = new SandboxServerClient({ url: `http://127.0.0.1:${port}` })
  const statusList: string[] = []
  try {
    for await (const { status } of followStartTask(client, {}, AbortSignal.timeout(20_000)))
      statusList.push(status)
    return statusList
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('each state of a start comes as it is streamed', async () => {
  const stream = (response: ServerResponse) =>
    response.end(JSON.stringify([task('WORKING', 1), task('READY', 2)]))
  expect(await collectStatuses(stream)).toEqual(['WORKING', 'READY'])
})

test('a start whose stream breaks is asked for until it is over, and nothing is told twice', async () => {
  const stream = (response: ServerResponse) => {
    response.write(`[\n${JSON.stringify(task('WORKING', 1))}`, () => response.destroy())
  }
  const later = [task('WORKING', 1), task('WAITING_FOR_SANDBOX', 2), task('READY', 3)]
  expect(await collectStatuses(stream, later)).toEqual(['WORKING', 'WAITING_FOR_SANDBOX', 'READY'])
})

test('a stream that ends too early continues the same way', async () => {
  const stream = (response: ServerResponse) => response.end(`[\n${JSON.stringify(task('WORKING', 1))}`)
  expect(await collectStatuses(stream, [task('ERROR', 2)])).toEqual(['WORKING', 'ERROR'])
})

test('a start that is gone in the meantime is an error, and so is an answer without any state', async () => {
  const stream = (response: ServerResponse) => response.end(`[${JSON.stringify(task('WORKING', 1))}`)
  await expect(collectStatuses(stream, [null])).rejects.toThrow('The start is gone')
  await expect(collectStatuses((response) => response.end('[]'))).rejects.toThrow('before it began')
})

test('a refusal is told as it is', async () => {
  const stream = (response: ServerResponse) => {
    response.writeHead(429).end('{"detail":{"message":"used up","code":"x"}}')
  }
  await expect(collectStatuses(stream)).rejects.toMatchObject({ status: 429, detail: 'used up' })
})
