import { readFileSync } from 'node:fs'
import { sandboxSpec } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { readConfig } from '../../config/config.ts'
import { SandboxSpecs } from './specs.ts'

const spec = (id: string, more: object = {}, backend = 'process') => ({
  ...sandboxSpec.parse({ id, ...more }),
  backend,
})

test('the first spec is the default', () => {
  const specs = new SandboxSpecs([spec('a'), spec('b', {}, 'docker')], 0)
  expect(specs.resolve(undefined)).toMatchObject({ id: 'a', backend: 'process' })
  expect(specs.resolve('b')).toMatchObject({ id: 'b', backend: 'docker' })
  expect(() => specs.resolve('c')).toThrow(expect.objectContaining({ code: 'invalid' }))
  expect(specs.getInfo('a')).toMatchObject({ is_default: true, command: null, image: null })
  expect(specs.getInfo('b')).toMatchObject({ is_default: false })
  expect(specs.getInfo('c')).toBeUndefined()
})

test('no answer holds a secret of the environment of a spec', () => {
  const env = {
    api_key: 'canary1',
    GITHUB_TOKEN: 'canary2',
    Db_Password: 'canary3',
    URL: 'https://u:canary4@host/?token=canary5',
    MODE: 'fast',
  }
  const info = new SandboxSpecs([spec('a', { env })], 0).getInfo('a')
  expect(JSON.stringify(info)).not.toContain('canary')
  expect(info?.initial_env).toMatchObject({ api_key: '**********', MODE: 'fast' })
})

test('the pages join into the list, and a page id of nothing is refused', () => {
  const ids = Array.from({ length: 7 }, (_, index) => `spec/${index}`)
  const specs = new SandboxSpecs(
    ids.map((id) => spec(id)),
    0,
  )
  for (const limit of [1, 2, 3, 7, 100]) {
    const walked: string[] = []
    let page_id: string | undefined
    do {
      const page = specs.listPage({ limit, page_id })
      walked.push(...page.items.map(({ id }) => id))
      expect(page.items.length).toBeLessThanOrEqual(limit)
      page_id = page.next_page_id ?? undefined
    } while (page_id !== undefined)
    expect(walked).toEqual(ids)
  }
  expect(() => specs.listPage({ limit: 1, page_id: 'x' })).toThrow(
    expect.objectContaining({ code: 'invalid' }),
  )
})

test.each([
  [{ idle_seconds: -1 }, '1.idle_seconds'],
  [{ max_session_seconds: 2.5 }, '1.max_session_seconds'],
  [{ delete_after_seconds: 2_000_000_001 }, '1.delete_after_seconds'],
  [{ delete_after_days: 3 }, '1'],
])('a lifetime of a spec that is not one is refused with its place: %o', (members, place) => {
  const specs = JSON.stringify([
    { id: 'a', delete_after_seconds: 0 },
    { id: 'b', ...members },
  ])
  expect(() => readConfig({ SLIPWAY_SANDBOX_SPECS: specs })).toThrow(`SLIPWAY_SANDBOX_SPECS: ${place}:`)
})

test('docs/sandboxes.md has each member of a spec', () => {
  const page = readFileSync(new URL('../../../../../docs/sandboxes.md', import.meta.url), 'utf8')
  const [, table = ''] = /\| member of a spec \|.*\n\|---\|---\|\n((?:\|.*\n)+)/.exec(page) ?? []
  const cells = table.split('\n').map((line) => line.split(' | ')[0] ?? '')
  const names = cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name))
  expect(names.toSorted()).toEqual(Object.keys(sandboxSpec.shape).toSorted())
})
