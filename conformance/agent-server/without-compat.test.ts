import { join } from 'node:path'
import { expect, test } from 'vitest'
import { compatModules } from '../../packages/agent-server/src/compat/modules.ts'
import { scriptedModel } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'

/** A server that leaves out what only clients of the reference ask for. */

const open = () => OwnAgentServer.open({ env: { SLIPWAY_COMPAT: 'off' }, isInProcess: true })

test('a run is followed over both sockets, and its events are searched', async () => {
  await using server = await open()
  const { api, driver } = server
  const { id } = await driver.createScripted([{ text: 'Done.' }])
  await driver.waitUntilIdle(id)
  const { status, body } = await api.requestJson<{ items: object[] }>(
    `/api/conversations/${id}/events/search?limit=100`,
  )
  expect(status).toBe(200)
  expect(body.items.length).toBeGreaterThan(2)
  await using events = driver.openSocket(`/sockets/events/${id}?resend_mode=all`)
  await events.waitUntil((all) => all.length >= body.items.length)
  await using session = driver.openSocket(`/sockets/session/${id}`)
  await session.waitUntil((frames) => frames.length > 0)
})

test('a profile is validated and a directory created', async () => {
  await using server = await open()
  const { api, directory } = server
  const saved = await api.sendJson('POST', '/api/profiles/x', { llm: scriptedModel([{ text: 'ok' }]) })
  expect(saved.status).toBe(201)
  expect((await api.sendJson('POST', '/api/profiles/x/validate', {})).status).toBe(200)
  const path = join(directory, 'new')
  expect(await api.sendJson('POST', '/file/create_directory', { path })).toMatchObject({
    status: 200,
    body: { success: true },
  })
})

test('the routes of the reference alone are missing, and not in the document', async () => {
  await using server = await open()
  const { api } = server
  const document = await api.requestJson<{ paths: Record<string, object> }>('/openapi.json')
  const routes = compatModules.flatMap((module) => Object.values(module.routes))
  expect(routes.length).toBeGreaterThan(50)
  for (const { method, path } of routes) {
    const address = path.replaceAll(/\{[^}]+\}/g, 'x')
    const { status } = await api.fetch(address, { method })
    expect([404, 405], `${method} ${path}`).toContain(status)
    expect(document.body.paths[path]?.[method.toLowerCase() as keyof object], path).toBeUndefined()
  }
})
