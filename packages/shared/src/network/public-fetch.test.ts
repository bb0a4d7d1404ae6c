import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import * as addresses from './public-address.ts'
import { isLocalHost, publicFetch } from './public-fetch.ts'

async function listen() {
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString()
    const { method, url, headers } = request
    response.writeHead(201, { 'content-type': 'application/json', 'set-cookie': ['a=1', 'b=2'] })
    response.end(JSON.stringify({ method, url, type: headers['content-type'], body }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

test('a request is sent and answered as by fetch', async () => {
  const spy = vi.spyOn(addresses, 'isPublicAddress').mockReturnValue(true)
  onTestFinished(() => spy.mockRestore())
  const url = `http://127.0.0.1:${await listen()}/token?x=1`
  const body = new URLSearchParams({ code: 'a b' })
  const answer = await publicFetch(url, { method: 'POST', body })
  expect([answer.status, answer.headers.getSetCookie()]).toEqual([201, ['a=1', 'b=2']])
  const type = 'application/x-www-form-urlencoded;charset=UTF-8'
  expect(await answer.json()).toEqual({ method: 'POST', url: '/token?x=1', type, body: 'code=a+b' })
  expect(await (await publicFetch(url, { method: 'HEAD' })).text()).toBe('')
})

test.for(['127.0.0.1', '[::1]', 'localhost'])('nothing on %s is asked', async (host) => {
  const port = await listen()
  await expect(publicFetch(`http://${host}:${port}/`)).rejects.toThrow('private network')
})

test('hosts of this machine and its network are local', () => {
  const local = [
    'localhost',
    '127.0.0.1',
    '[::1]',
    '10.0.0.1',
    'mcp',
    'a.internal',
    'x.localhost',
    'nas.local',
  ]
  const others = ['mcp.example', '93.184.216.34', 'local.example']
  expect(local.filter(isLocalHost)).toEqual(local)
  expect(others.filter(isLocalHost)).toEqual([])
})
