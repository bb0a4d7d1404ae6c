import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()
const url = '/api/llm/provider-connections'

interface Connection {
  readonly id: string
  readonly [member: string]: unknown
}

const createConnection = (more: object = {}) =>
  wire.requestOrThrow<Connection>('POST', url, {
    body: { display_name: 'Of a test', provider: 'openai', api_key: 'connection-canary', ...more },
  })
const listConnections = () => wire.requestOrThrow<Connection[]>('GET', url)
const deleteConnection = (id: string) => wire.requestStatus('DELETE', `${url}/${id}`)

wireCase('GET /api/llm/provider-connections', 'lists them without their keys', async () => {
  const { id } = await createConnection({ base_url: 'http://127.0.0.1:9/v1' })
  const all = await listConnections()
  expect(all.find((each) => each.id === id)).toEqual({
    id,
    display_name: 'Of a test',
    provider: 'openai',
    base_url: 'http://127.0.0.1:9/v1',
    created_at: expect.any(Number),
    updated_at: expect.any(Number),
    api_key_set: true,
  })
  expect(JSON.stringify(all)).not.toContain('connection-canary')
  await deleteConnection(id)
})

wireCase(
  'POST /api/llm/provider-connections',
  'returns 201 without the key, and refuses unknown members',
  async () => {
    const body = { display_name: 'x', api_key: 'connection-canary' }
    const done = await wire.request<Connection>('POST', url, { body })
    expect([done.status, done.body]).toEqual([
      201,
      expect.objectContaining({ provider: 'custom', api_key_set: true }),
    ])
    await deleteConnection(done.body.id)
    const bad = [
      { ...body, unknown: 1 },
      { ...body, display_name: '' },
      { ...body, display_name: 'x'.repeat(129) },
      { display_name: 'x' },
    ]
    for (const one of bad) {
      const refused = await wire.request('POST', url, { body: one })
      expect([one, refused.status]).toEqual([one, 422])
      expect(JSON.stringify(refused.body)).not.toContain('connection-canary')
    }
  },
)

wireCase(
  'PATCH /api/llm/provider-connections/{id}',
  'changes members; 404 unknown, 422 empty or null',
  async () => {
    const { id } = await createConnection()
    expect(
      await wire.requestOrThrow('PATCH', `${url}/${id}`, { body: { display_name: 'New' } }),
    ).toMatchObject({
      id,
      display_name: 'New',
      provider: 'openai',
      api_key_set: true,
    })
    for (const body of [{}, { display_name: null }, { provider: null }, { unknown: 1 }])
      expect([body, await wire.requestStatus('PATCH', `${url}/${id}`, { body })]).toEqual([body, 422])
    await deleteConnection(id)
    expect(await wire.requestStatus('PATCH', `${url}/${id}`, { body: { display_name: 'x' } })).toBe(404)
  },
)

wireCase(
  'DELETE /api/llm/provider-connections/{id}',
  'returns the deleted one; 404 unknown, 409 while a profile refers to it',
  async () => {
    const { id } = await createConnection()
    const name = `wire-${randomUUID().slice(0, 8)}`
    await wire.requestOrThrow('POST', `/api/profiles/${name}`, {
      body: { llm: { model: 'openai/m', provider_connection_id: id } },
    })
    expect(await deleteConnection(id)).toBe(409)
    await wire.requestOrThrow('DELETE', `/api/profiles/${name}`)
    expect(await wire.requestOrThrow('DELETE', `${url}/${id}`)).toMatchObject({ id })
    expect([await deleteConnection(id), await deleteConnection(unknownId)]).toEqual([404, 404])
    expect((await listConnections()).map((each) => each.id)).not.toContain(id)
  },
)
