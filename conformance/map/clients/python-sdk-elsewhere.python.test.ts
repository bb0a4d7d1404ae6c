import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import { findPython, PythonPrograms } from '../../support/python.ts'
import { pluginFiles } from '../extensions/git-source.ts'
import { mapCase } from '../frame.ts'
import { finishReply, openMapServer, type ScriptedReply } from '../map-server.ts'

/** What other families than F33 ask of published Python packages. */
const python = findPython()
const needs = { isUnavailable: python === undefined, timeout: 300_000 }
const server = openMapServer()
let root: string
let programs: PythonPrograms
beforeAll(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-map-python-')))
  if (python !== undefined) programs = await PythonPrograms.open(python, root)
}, 300_000)
afterAll(async () => {
  await programs?.[Symbol.asyncDispose]()
  await rm(root, { recursive: true, force: true })
})

async function run<T>(program: string, settings: object, ...replies: readonly ScriptedReply[]): Promise<T> {
  const directory = await mkdtemp(join(root, 'workspace-'))
  const provider = await server.openModel(...replies)
  const scratch = await mkdtemp(join(root, 'scratch-'))
  const request = { url: server.url, key: server.key ?? '', model_url: provider.url, directory }
  return await programs.run<T>(program, { ...request, settings: { scratch, ...settings } })
}

interface Scoped {
  readonly transfers: readonly unknown[]
  readonly outside: readonly unknown[]
  readonly changes: readonly unknown[]
  readonly diffs: readonly unknown[]
  readonly refused: string
}
let scopedResult: Promise<Scoped> | undefined
const scoped = () => {
  scopedResult ??= run<Scoped>('scoped', {})
  return scopedResult
}

mapCase(
  'F14.sdk-workspace',
  'the Python SDK transfers files',
  async () => {
    expect(await scoped()).toMatchObject({
      transfers: [
        [true, true, true],
        [true, true, true],
      ],
      outside: [false, false],
    })
  },
  needs,
)
mapCase(
  'F15.sdk-workspace',
  'the Python SDK reads changes and differences',
  async () => {
    const { changes, diffs, refused } = await scoped()
    expect(changes).toEqual([[['UPDATED', 'kept.txt']], [['UPDATED', 'kept.txt']]])
    expect(diffs).toEqual([
      ['one', 'two'],
      ['one', 'two'],
    ])
    expect(refused).toContain('422')
  },
  needs,
)
mapCase(
  'F09.load-plugin-sdk',
  'the Python SDK loads a plugin',
  async () => {
    const market = join(root, 'market')
    const files = {
      ...pluginFiles('map-plugin', 'plugins/map-plugin'),
      '.claude-plugin/marketplace.json': JSON.stringify({
        name: 'map-market',
        owner: { name: 'o' },
        plugins: [{ name: 'map-plugin', source: './plugins/map-plugin', description: 'd' }],
      }),
    }
    for (const [name, text] of Object.entries(files)) await server.upload(join(market, name), text)
    const { id, refused } = await run<{ id: string; refused: string }>('plugin', { market })
    const query = { include_skills: 'true' }
    const info = await server.requestOrThrow('GET', `/api/conversations/${id}`, { query })
    expect(JSON.stringify(info)).toContain('hook-of-map-plugin')
    expect(JSON.stringify(info)).toContain('map-plugin:hello')
    expect(refused).toContain('404')
  },
  needs,
)
mapCase(
  'F30.openai-sdk',
  'the Python SDK of OpenAI',
  async () => {
    const found = await run('gateway', {}, finishReply('Hello to you.'))
    expect(found).toMatchObject({
      models: expect.arrayContaining(['openhands_python']),
      whole: 'Hello to you.',
      streamed: 'Hello to you.',
      finish: 'stop',
    })
  },
  needs,
)
