import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { signInToMcpServer } from './oauth.ts'

test.for([
  ['https://mcp.example/mcp', 0],
  ['http://127.0.0.1/mcp', 1],
] as const)('the server %s names an address of this machine: it is asked %i times', async ([url, times]) => {
  let asked = 0
  const internal = createServer((_, response) => {
    asked++
    response.writeHead(404).end()
  })
  internal.listen(0, '127.0.0.1')
  await once(internal, 'listening')
  onTestFinished(() => void internal.close())
  const { port } = internal.address() as AddressInfo
  const metadata = `http://127.0.0.1:${port}/metadata`
  const real = fetch
  const spy = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    if (String(input) === metadata) return await real(input, init)
    const isFirst = String(input) === url
    const headers = { 'www-authenticate': `Bearer resource_metadata="${metadata}"` }
    return new Response(null, isFirst ? { status: 401, headers } : { status: 404 })
  })
  onTestFinished(() => spy.mockRestore())
  const signIn = signInToMcpServer({
    ...{ url, headers: {}, authentication: {}, redirectUrl: 'http://localhost:1/callback' },
    consent: async () => '',
    signal: AbortSignal.timeout(10_000),
  })
  await expect(signIn).rejects.toThrow()
  expect(asked).toBe(times)
})
