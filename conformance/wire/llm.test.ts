import { expect } from 'vitest'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()
const listModels = (query = {}) =>
  wire.requestOrThrow<{ models: string[] }>('GET', '/api/llm/models', { query })

wireCase('GET /api/llm/providers', 'lists sorted names, each once', async () => {
  const { providers } = await wire.requestOrThrow<{ providers: string[] }>('GET', '/api/llm/providers')
  expect(providers).toEqual([...new Set(providers)].toSorted())
  for (const name of ['anthropic', 'openai']) expect(providers).toContain(name)
})

wireCase('GET /api/llm/models', 'lists sorted names, of all providers or of one', async () => {
  const all = (await listModels()).models
  expect(all.length).toBeGreaterThan(10)
  expect(all).toEqual([...new Set(all)].toSorted())
  const own = (await listModels({ provider: 'anthropic' })).models
  expect(own.length).toBeGreaterThan(0)
  expect(own.length).toBeLessThan(all.length)
  expect((await listModels({ provider: 'no-such-provider' })).models).toEqual([])
})

wireCase('GET /api/llm/models/verified', 'lists models by provider', async () => {
  const { models } = await wire.requestOrThrow<{ models: Record<string, string[]> }>(
    'GET',
    '/api/llm/models/verified',
  )
  for (const names of Object.values(models)) expect(names).toEqual(names.map(() => expect.any(String)))
  expect(Object.keys(models)).toContain('anthropic')
})
