import { join } from 'node:path'
import { expect } from 'vitest'
import { pluginFiles } from '../extensions/git-source.ts'
import { mapCase } from '../frame.ts'
import { finishReply, type MapServer } from '../map-server.ts'
import type { PythonPlays } from './python-plays.ts'

interface Scoped {
  readonly transfers: readonly unknown[]
  readonly outside: readonly unknown[]
  readonly changes: readonly unknown[]
  readonly diffs: readonly unknown[]
  readonly refused: string
}

/** What other families than F33 ask of published Python packages. */
export function definePythonCasesElsewhere(server: MapServer, { needs, root, run }: PythonPlays): void {
  let scopedResult: Promise<Scoped> | undefined
  const scoped = () => {
    scopedResult ??= run<Scoped>('scoped').then(({ result }) => result)
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
      const market = join(root(), 'market')
      const files = {
        ...pluginFiles('map-plugin', 'plugins/map-plugin'),
        '.claude-plugin/marketplace.json': JSON.stringify({
          name: 'map-market',
          owner: { name: 'o' },
          plugins: [{ name: 'map-plugin', source: './plugins/map-plugin', description: 'd' }],
        }),
      }
      for (const [name, text] of Object.entries(files)) await server.upload(join(market, name), text)
      const { result } = await run<{ id: string; refused: string }>('plugin', { settings: { market } })
      const query = { include_skills: 'true' }
      const info = await server.requestOrThrow('GET', `/api/conversations/${result.id}`, { query })
      expect(JSON.stringify(info)).toContain('hook-of-map-plugin')
      expect(JSON.stringify(info)).toContain('map-plugin:hello')
      expect(result.refused).toContain('404')
    },
    needs,
  )
  mapCase(
    'F30.openai-sdk',
    'the Python SDK of OpenAI',
    async () => {
      const { result } = await run('gateway', { replies: [finishReply('Hello to you.')] })
      expect(result).toMatchObject({
        models: expect.arrayContaining(['openhands_python']),
        whole: 'Hello to you.',
        streamed: 'Hello to you.',
        finish: 'stop',
      })
    },
    needs,
  )
}
