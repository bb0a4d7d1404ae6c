import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const script = `import { publicFetch } from ${JSON.stringify(import.meta.resolve('./public-fetch.ts'))}
for (const url of ['http://auth.invalid/token', 'http://10.1.2.3/', 'http://localhost/', 'https://auth.invalid/'])
  await publicFetch(url, { method: 'POST', body: 'a' }).then(
    async (answer) => console.log(answer.status, await answer.text()),
    ({ message }) => console.log(message),
  )`

test('a proxy of the environment is used, where the environment excludes none and Node is told to', async () => {
  const asked: string[] = []
  const proxy = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.end('by the proxy')
  })
  proxy.on('connect', (request, socket) => {
    asked.push(`CONNECT ${request.url}`)
    socket.end('HTTP/1.1 502 No\r\n\r\n')
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void proxy.close())
  // The proxy itself may be in a private network.
  const address = `http://localhost:${(proxy.address() as AddressInfo).port}`
  const env = { http_proxy: address, https_proxy: address, no_proxy: 'localhost', NODE_USE_ENV_PROXY: '1' }
  const args = ['--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  expect(asked).toEqual(['POST http://auth.invalid/token', 'CONNECT auth.invalid:443'])
  const refused = expect.stringContaining('private network')
  expect(stdout.trim().split('\n')).toEqual(['200 by the proxy', refused, refused, expect.any(String)])
  const plain = { ...env, NODE_USE_ENV_PROXY: '' }
  expect((await promisify(execFile)(process.execPath, args, { env: plain })).stdout).not.toContain('proxy')
  expect(asked).toHaveLength(2)
})
