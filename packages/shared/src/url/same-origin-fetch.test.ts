import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { sameOriginFetch } from './same-origin-fetch.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

async function openServer(answer: Answer) {
  const server = createServer(answer)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

const secret = 'a secret that stays at its origin'

test.for([301, 302, 303, 307, 308])(
  'a redirect (%i) to another origin is refused, and gets nothing',
  async (status) => {
    const received: string[] = []
    await using foreign = await openServer((request, response) => {
      received.push(request.url ?? '')
      response.end('taken')
    })
    await using server = await openServer((_, response) =>
      response.writeHead(status, { location: `${foreign.url}/take?x=1` }).end(),
    )
    const fetched = sameOriginFetch()(server.url, { headers: { 'x-key': secret } })
    await expect(fetched).rejects.toThrow(`${server.url} redirects to ${foreign.url}, which`)
    const posted = sameOriginFetch()(server.url, { method: 'POST', body: secret })
    await expect(posted).rejects.toThrow(`${server.url} redirects to ${foreign.url}, which`)
    expect(received).toEqual([])
  },
)

test('redirects within the origin are followed with the method, the headers and the body', async () => {
  await using server = await openServer(async (request, response) => {
    if (request.url === '/mcp') return response.writeHead(307, { location: '/mcp/' }).end()
    response.end(`${request.method} ${request.url} ${request.headers['x-key']} ${await text(request)}`)
  })
  const fetchOnce = sameOriginFetch()
  const post = { method: 'POST', headers: { 'x-key': secret }, body: 'text' }
  expect(await (await fetchOnce(`${server.url}/mcp`, post)).text()).toBe(`POST /mcp/ ${secret} text`)
  expect(await (await fetchOnce(new URL('/mcp', server.url))).text()).toBe('GET /mcp/ undefined ')
})

test('endless redirects, those that change the method and those without an address are refused', async () => {
  await using server = await openServer((request, response) =>
    response
      .writeHead(request.method === 'POST' ? 302 : 307, {
        location: request.url === '/none' ? 'http://' : '/',
      })
      .end(),
  )
  await expect(sameOriginFetch()(server.url)).rejects.toThrow('cannot be repeated')
  await expect(sameOriginFetch()(server.url, { method: 'POST' })).rejects.toThrow('cannot be repeated')
  await expect(sameOriginFetch()(`${server.url}/none`)).rejects.toThrow('redirects to an unknown address')
})
