import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { endFamily, mapCase, missing } from '../frame.ts'
import { type Json, OwnMapServer, openMapServer } from '../map-server.ts'

const server = openMapServer()

async function serverInfo(client = server as { request: typeof server.request }): Promise<Json> {
  return (await client.request<Json>('GET', '/server_info', { isAnonymous: true })).body
}

mapCase('F01.alive', 'liveness needs no key, other routes do', async () => {
  const found = await server.request('GET', '/alive', { isAnonymous: true })
  expect(found).toMatchObject({ status: 200, body: { status: 'ok' } })
  if (server.key !== undefined)
    expect(await server.requestStatus('GET', '/api/conversations/count', { isAnonymous: true })).toBe(401)
})

mapCase('F01.health', 'health needs no key', async () => {
  const found = await server.request('GET', '/health', { isAnonymous: true })
  expect(found).toMatchObject({ status: 200, body: { status: 'ok' } })
})

mapCase('F01.ready', 'readiness needs no key', async () => {
  const found = await server.request('GET', '/ready', { isAnonymous: true })
  expect(found).toMatchObject({ status: 200, body: { status: 'ready' } })
})
