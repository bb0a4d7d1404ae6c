import { expect } from 'vitest'
import { openWire, prove } from './wire-server.ts'

const wire = openWire()
const models = (query = {}) => wire.must<{ models: string[] }>('GET', '/api/llm/models', { query })

prove('GET /api/llm/providers', 'lists sorted names, each once', async () => {
  const { providers } = await wire.must<{ providers: string[] }>('GET', '/api/llm/providers')
  expect(providers).toEqual([...new Set(providers)].toSorted())
  for (const name of ['anthropic', 'openai']) expect(providers).toContain(name)
})

prove('GET /api/llm/models', 'lists sorted names, of all providers or of one', async () => {
  const all = (await models()).models
  expect(all.length).toBeGreaterThan(10)
  expect(all).toEqual([...new Set(all)].toSorted())
  const own = (await models({ provider: 'anthropic' })).models
  expect(own.length).toBeGreaterThan(0)
  expect(own.length).toBeLessThan(all.length)
  expect((await models({ provider: 'no-such-provider' })).models).toEqual([])
})

prove('GET /api/llm/models/verified', 'lists models by provider', async () => {
  const { models } = await wire.must<{ models: Record<string, string[]> }>('GET', '/api/llm/models/verified')
  for (const names of Object.values(models)) expect(names).toEqual(names.map(() => expect.any(String)))
  expect(Object.keys(models)).toContain('anthropic')
})
