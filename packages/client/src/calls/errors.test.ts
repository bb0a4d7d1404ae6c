import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { ConnectionError, readCallError } from './errors.ts'

test.each(['DEPTH_ZERO_SELF_SIGNED_CERT', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ERR_TLS_CERT_ALTNAME_INVALID'])(
  'a certificate that is refused (%s) is named, and how to trust it',
  (code) => {
    const cause = new TypeError('fetch failed', { cause: Object.assign(new Error('no'), { code }) })
    const { message } = new ConnectionError('https://a', cause, 'slipway serve')
    expect(message).toContain(`certificate of https://a is not trusted (${code}). NODE_EXTRA_CA_CERTS`)
  },
)

test('without an answer the message says how to start a server', () => {
  const cause = new TypeError('fetch failed', {
    cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }),
  })
  const { message } = new ConnectionError('http://a', cause, 'slipway serve')
  expect(message).toBe('No answer from http://a. Start a server with "slipway serve", or check the address.')
})

test.each([
  ['{"detail": "There is no such sandbox"}', false],
  ['{"detail": [{"loc": ["body", "id"], "msg": "Invalid", "type": "value_error"}]}', false],
  ['<html><h1>502 Bad Gateway</h1></html>', true],
  ['', true],
])('an answer of a proxy is distinguished from one of the server: %s', async (body, isForeign) => {
  const server = createServer((_, response) => response.writeHead(502).end(body)).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  expect((await readCallError(await fetch(`http://127.0.0.1:${port}/`))).isForeign).toBe(isForeign)
})
