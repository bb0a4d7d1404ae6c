import { readFile } from 'node:fs/promises'
import { must } from '@slipway/protocol'
import { createCounter, createHistogram } from '@slipway/shared/metrics'
import { expect, test } from 'vitest'
import { StorageQuota } from '../accounts/storage-quota.ts'
import { StepMetrics, statusTransitions } from '../sandboxes/state/sandbox-repository.ts'
import { createStateMetrics } from './state-metrics.ts'

const page = await readFile(new URL('../../../../docs/sandboxes.md', import.meta.url), 'utf8')

const storedByNobody = {
  users: { getLimits: async () => ({ max_conversations: null, max_stored_mb: null, max_sandboxes: null }) },
  conversations: { listIds: async () => [], countAll: async () => 0 },
  records: { count: async () => 0, sumBytes: async () => 0 },
  maxConversations: 0,
  maxStoredMb: 0,
}

/** The rows of the table below a heading of the page, without its head. */
function rowsBelow(heading: string): string[] {
  const section = must(
    page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)),
    heading,
  )
  const [, table] = /^\|.*\|\n\|[-|]+\|\n((?:\|.*\|\n?)*)/m.exec(section) ?? []
  return must(table, `the table of ${heading}`).trimEnd().split('\n')
}

test('the page of sandboxes has every state and where it leads, and no other', () => {
  const shown = rowsBelow('States').map((row) => {
    const [, state, , next = ''] = row.split('|').map((cell) => cell.trim())
    return [state, next]
  })
  const known = Object.entries(statusTransitions).map(([state, next]) => [
    `\`${state}\``,
    next.map((one) => `\`${one}\``).join(' '),
  ])
  expect(shown).toEqual(known)
})

test('the page of operations has every metric of the sandbox server, and no other', async () => {
  const operations = await readFile(new URL('../../../../docs/operations.md', import.meta.url), 'utf8')
  const metrics = createStateMetrics({
    rows: { async *iterateAll() {} },
    steps: new StepMetrics(),
    starter: {
      activeCount: 0,
      durations: createHistogram(
        'slipway_conversation_start_duration_seconds',
        'Time of starts of conversations by outcome.',
        [1],
        'outcome',
      ),
    },
    ingest: {
      bodyBytes: 0,
      duplicates: createCounter(
        'slipway_ingest_duplicate_members_total',
        'Received events in which an object has a name twice; they are stored as they came.',
      ),
    },
    storageQuota: { refusals: new StorageQuota(storedByNobody).refusals },
    records: storedByNobody.records,
  })
  const families = await Promise.all(metrics.map((metric) => metric.get()))
  const rows = families.map(({ name, type, help }) => `| \`${name}\` | ${type} | ${help} |`)
  const [, section = ''] = operations.split('### Metrics of the sandbox server\n')
  expect(section.split('\n## ', 1)[0]?.match(/^\| `.*$/gm)).toEqual(rows)
})
