import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { must } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { serve } from '../../serve.ts'

const page = await readFile(new URL('../../../../../docs/operations.md', import.meta.url), 'utf8')

/** The rows of the table below a heading of the page, without its head. */
function tableRowsBelow(heading: string): string[] {
  const section = must(
    page.split(/^##+ /m).find((part) => part.startsWith(`${heading}\n`)),
    heading,
  )
  const [, table] = /^\|.*\|\n\|[-|]+\|\n((?:\|.*\|\n?)*)/m.exec(section) ?? []
  return must(table, `the table of ${heading}`).trimEnd().split('\n')
}

/** What `/metrics` of a server of this process says that is ours. */
async function readMetrics(): Promise<string> {
  const data = await mkdtemp(join(tmpdir(), 'slipway-docs-'))
  const stop = new AbortController()
  const { promise: ready, resolve } = Promise.withResolvers<string>()
  const env = { SLIPWAY_LOG_LEVEL: 'error', SLIPWAY_NO_KEY: '1' }
  const over = serve({ host: '127.0.0.1', port: 0, data, env, signal: stop.signal, ready: resolve })
  try {
    return await (await fetch(`${await Promise.race([ready, over.then(() => '')])}/metrics`)).text()
  } finally {
    stop.abort()
    await over
    await rm(data, { recursive: true })
  }
}

test('the page of operations has every metric of the agent server, and no other', async () => {
  const heads = [...(await readMetrics()).matchAll(/^# HELP (slipway_\w+) (.*)\n# TYPE \w+ (\w+)$/gm)]
  const rows = heads.map(([, name, help, type]) => `| \`${name}\` | ${type} | ${help} |`)
  expect(rows.length).toBeGreaterThan(20)
  expect(tableRowsBelow('Metrics of the agent server').toSorted()).toEqual(rows.toSorted())
})
