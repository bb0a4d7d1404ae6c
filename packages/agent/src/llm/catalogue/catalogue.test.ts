import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { resolveRoute } from '../route.ts'
import { catalogue } from './catalogue.ts'
import { loadModelFacts } from './prices.ts'

const { providers, models, verified } = catalogue()
const base_url = 'https://own.example/v1'

test('each provider in the list can stand in front of a model', () => {
  expect(providers()).toEqual([...new Set(providers())].sort())
  expect(providers()).toEqual(expect.arrayContaining(['anthropic', 'azure', 'gemini', 'ollama', 'openai']))
  for (const provider of providers()) {
    const route = resolveRoute(llm.parse({ model: `${provider}/some-model`, base_url }))
    expect([provider, route]).toMatchObject([provider, { name: 'some-model' }])
  }
})

test('each model in the list has a route to the provider that is named in front of it', () => {
  expect(models().length).toBeGreaterThan(200)
  expect(models()).toEqual([...new Set(models())].sort())
  for (const model of models()) {
    const [provider = ''] = model.split('/')
    expect(providers()).toContain(provider)
    const route = resolveRoute(llm.parse({ model }))
    expect([model, route]).toMatchObject([model, { name: model.slice(provider.length + 1) }])
  }
})

test('models are listed by provider; nothing is listed for one that is not known', () => {
  const others = providers().filter((provider) => provider !== 'bedrock')
  expect(others.flatMap((provider) => models(provider)).sort()).toEqual(models())
  expect(models('bedrock').every((model) => model.startsWith('bedrock/'))).toBe(true)
  expect(models('bedrock')).not.toEqual([])
  expect(models('anthropic').every((model) => model.startsWith('anthropic/claude-'))).toBe(true)
  expect(models('azure')).toEqual([])
  for (const provider of ['nobody', '', '__proto__', 'google', 'constructor'])
    expect(models(provider)).toEqual([])
})

test('what does not chat is not in the list', () => {
  const others = models().filter((model) => /embed|whisper|moderation|tts|dall|transcri|imagen/.test(model))
  expect(others).toEqual([])
  const unknown = ['openai/gpt-oss-20b', 'bedrock/regional.', 'anthropic/claude-2', 'gemini/gemini-pro']
  expect(models().filter((model) => unknown.some((name) => model.startsWith(name)))).toEqual([])
})

test('verified models are in the list, by a provider of the list, and their prices are known', async () => {
  for (const [provider, names] of Object.entries(verified())) {
    expect(providers()).toContain(provider)
    for (const name of names) {
      const settings = llm.parse({ model: `${provider}/${name}` })
      expect(models(provider)).toContain(settings.model)
      const route = resolveRoute(settings)
      if ('issue' in route) throw new Error(route.issue)
      const facts = await loadModelFacts(settings, route)
      const tokens = { input: 1000, cacheRead: 0, cacheWrite: 0, output: 1000 }
      expect([name, facts.cost(tokens, new Date())]).toEqual([name, expect.any(Number)])
    }
  }
})

test('what a caller does to an answer is not seen by the next', () => {
  verified().anthropic?.push('other')
  models().pop()
  expect(verified().anthropic).not.toContain('other')
})
