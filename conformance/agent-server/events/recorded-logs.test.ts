import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { asRecord } from '@slipway/shared/json'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'

/** A folder of recorded event logs of other writers, one event a line, named `*.jsonl`. */
const folder = process.env.SLIPWAY_DATA
const files = folder === undefined ? [] : readdirSync(folder).filter((file) => file.endsWith('.jsonl'))
if (folder === undefined) {
  console.warn('SKIPPED: recorded logs are not tested, because SLIPWAY_DATA names no folder of *.jsonl files')
}

const { api } = await openAgentFixture()

test.skipIf(folder === undefined)('the folder of recorded logs is not empty', () => {
  expect(files.length).toBeGreaterThan(0)
})

test.each(files)(
  '%s imports, exports the same bytes, and every filter pages through the same events',
  async (file) => {
    const bytes = readFileSync(join(String(folder), file))
    const id = await api.import(bytes, '?unknown=keep')
    expect(Buffer.compare(await api.export(id), bytes)).toBe(0)

    const events = bytes
      .toString()
      .trimEnd()
      .split('\n')
      .map((line): ApiEvent => JSON.parse(line))
    // The code of a command is in the observation or its metadata.
    const codes = events.map(({ observation }) => commandCode(observation))
    const countFailed = async () => {
      const path = `/api/conversations/${id}/events/overview`
      const { body } = await api.requestJson<{ covered: number; buckets: { failed: number }[] }>(path)
      return body.covered < events.length ? -1 : body.buckets.reduce((sum, { failed }) => sum + failed, 0)
    }
    await expect.poll(countFailed).toBeGreaterThanOrEqual(codes.filter((code) => code > 0).length)
    for (const { query, keeps } of buildFilters(events)) {
      const expected = events.filter(keeps).map(eventText).sort()
      for (const sort_order of ['TIMESTAMP', 'TIMESTAMP_DESC']) {
        const walked = await api.searchAll(id, { ...query, sort_order, limit: '7' })
        expect(walked.map(eventText).sort(), JSON.stringify(query)).toEqual(expected)
        const times = walked.map((event) => toMicroseconds(event.timestamp))
        expect(times).toEqual([...times].sort((a, b) => (sort_order === 'TIMESTAMP' ? a - b : b - a)))
      }
      expect(await api.count(id, query)).toBe(expected.length)
    }
  },
)

test.each(files.filter((file) => !/^(swe|tab)-/.test(file)))(
  '%s is refused by a strict import with a location, or imported completely',
  async (file) => {
    const bytes = readFileSync(join(String(folder), file))
    const { status, body } = await api.requestJson<{ detail?: { loc: unknown[] }[] }>(
      '/api/conversations/import',
      {
        method: 'POST',
        headers: { 'content-type': 'application/x-ndjson' },
        body: bytes,
      },
    )
    expect([201, 409, 422]).toContain(status)
    if (status === 422) expect(body.detail?.[0]?.loc.slice(0, 2)).toEqual(['body', expect.any(Number)])
  },
)

function commandCode(observation: unknown): number {
  const { exit_code, metadata } = asRecord(observation)
  return Number(exit_code ?? asRecord(metadata).exit_code ?? 0)
}

interface Filter {
  readonly query: Readonly<Record<string, string>>
  keeps(event: ApiEvent): boolean
}

function buildFilters(events: readonly ApiEvent[]): Filter[] {
  const kinds = [...new Set(events.map(({ kind }) => kind))]
  const sources = [...new Set(events.map(({ source }) => source ?? 'agent'))]
  const middle = String(events[Math.floor(events.length / 2)]?.timestamp)
  const needles = ['the', 'THE', 'e', 'in', '\n', '%', '"']
  return [
    { query: {}, keeps: () => true },
    ...kinds.map((kind) => ({ query: { kind }, keeps: (event: ApiEvent) => event.kind === kind })),
    ...sources.map((source) => ({ query: { source }, keeps: (event: ApiEvent) => event.source === source })),
    {
      query: { timestamp__gte: middle },
      keeps: (event) => toMicroseconds(event.timestamp) >= toMicroseconds(middle),
    },
    {
      query: { timestamp__lt: middle },
      keeps: (event) => toMicroseconds(event.timestamp) < toMicroseconds(middle),
    },
    ...needles.map((body) => ({
      query: { body },
      keeps: (event: ApiEvent) =>
        searchableTexts(event).some((part) => part.toLowerCase().includes(body.toLowerCase())),
    })),
  ]
}

function eventText(event: ApiEvent): string {
  return JSON.stringify(event)
}

/** Microseconds, computed independently of the server's code. */
function toMicroseconds(timestamp: string): number {
  const zoned = /Z$|[+-]\d\d:\d\d$/.test(timestamp) ? timestamp : `${timestamp}Z`
  const digits = /\.(\d+)/.exec(zoned)?.[1] ?? ''
  return Date.parse(zoned.replace(/\.\d+/, '')) * 1000 + Number(digits.slice(0, 6).padEnd(6, '0'))
}

/** The texts that `body` searches, computed independently of the server's code. */
function searchableTexts(event: ApiEvent): string[] {
  if (event.kind !== 'MessageEvent') return []
  const llm = event.llm_message as { content?: { text?: string }[]; reasoning_content?: string | null }
  const extended = (event.extended_content ?? []) as { text?: string }[]
  return [...(llm.content ?? []), ...extended]
    .flatMap((part) => part.text ?? [])
    .concat(llm.reasoning_content ?? [])
}
