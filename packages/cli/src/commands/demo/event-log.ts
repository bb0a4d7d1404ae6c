import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { print } from '../../output/terminal.ts'
import { rawPage } from '../../parsing/raw-page.ts'
import { streamOf } from '../../parsing/to-readable-stream.ts'
import { conversationsCommand } from '../conversations.ts'
import { eventTable, type SearchQuery } from '../search.ts'
import { command, heading, promise, type Stage, type Work } from './context.ts'

const sample = fileURLToPath(new URL('../sample-log/sample.jsonl', import.meta.url))

/** Searches, pages, lists and exports: what can be done with a log. Each answer is checked against the others. */
export async function showLog(stage: Stage, work: Work): Promise<void> {
  await searching(stage, work)
  await walking(stage, work)
  await exporting(stage, work)
  await importing(stage)
  await heading(stage, 'List the conversations')
  await command('npx slipway conversations')
  const { client, signal } = stage
  await conversationsCommand({ client, isJson: false, signal }, { limit: '5' }, { all: false })
}

async function searching(stage: Stage, { id, events }: Work): Promise<void> {
  const { client, signal } = stage
  const acted = events.filter(({ event }) => event.kind === 'ActionEvent').length
  const said = events.filter(({ event }) => event.source === 'user').length
  const searches: [title: string, flags: string, query: SearchQuery, expected: number][] = [
    ['What did the agent do?', '--kind ActionEvent', { kind: 'ActionEvent' }, acted],
    ['What did people say?', '--source user', { source: 'user' }, said],
    [
      'Who spoke of Αθήνα? In any case',
      '--body "BÜROS IN ŁÓDŹ UND ΑΘΉΝΑ"',
      { body: 'BÜROS IN ŁÓDŹ UND ΑΘΉΝΑ' },
      1,
    ],
  ]
  for (const [title, flags, query, expected] of searches) {
    await heading(stage, title)
    await command(`npx slipway search ${id} ${flags}`)
    const { items } = await page(stage, id, query)
    await print(eventTable(items, false))
    const { limit: _, ...filter } = query
    const count = await client.call('countEvents', { params: { conversation_id: id }, query: filter, signal })
    promise(items.length === Math.min(100, expected), `the search finds ${expected} events (${items.length})`)
    promise(count === expected, `the count says ${expected} (${count})`)
  }
}

async function walking(stage: Stage, { id, events }: Work): Promise<void> {
  const { client, signal } = stage
  await heading(stage, 'Walk through all pages, the newest first')
  await command(
    `curl "${client.url}/api/conversations/${id}/events/search?sort_order=TIMESTAMP_DESC&limit=10"`,
  )
  const seen: string[] = []
  let next: string | undefined
  do {
    const query = { sort_order: 'TIMESTAMP_DESC', limit: '10', page_id: next } as const
    const { items, next_page_id } = await page(stage, id, query)
    seen.push(...items)
    await print(
      `a page of ${items.length}, ${next_page_id === null ? 'the last one' : `the next is ${next_page_id}`}\n`,
    )
    next = next_page_id ?? undefined
  } while (next !== undefined)
  const count = await client.call('countEvents', { params: { conversation_id: id }, signal })
  const inOrder = seen.toReversed().every((item, at) => item === events[at]?.text)
  promise(seen.length === count && count === events.length, `the walk sees all ${count} events`)
  promise(inOrder, 'the pages hold what the stream brought, in its order')
  await print(`${seen.length} events, each once, the same bytes as the stream brought.\n`)
}

async function exporting(stage: Stage, { id, events }: Work): Promise<void> {
  await heading(stage, 'Export it')
  await command(`npx slipway export ${id} | wc`)
  const bytes = await exported(stage, id)
  const streamed = Buffer.from(events.map(({ text }) => `${text}\n`).join(''))
  promise(bytes.equals(streamed), 'the export is what the stream brought')
  await print(`${bytes.length} bytes, ${events.length} lines, one event each.\n`)
}

/** A log of another server, with every kind of event, comes out as it went in. */
async function importing(stage: Stage): Promise<void> {
  const { client, signal } = stage
  const file = relative(process.cwd(), sample) || sample
  await heading(stage, 'Bring in a log with every kind of event, and get the same bytes back')
  await command(`npx slipway import ${file}`)
  const { conversation_id, imported } = await client.importEvents(streamOf(createReadStream(sample)), {
    signal,
  })
  await command(`npx slipway export ${conversation_id} | cmp - ${file}`)
  const original = await readFile(sample)
  promise((await exported(stage, conversation_id)).equals(original), 'what went in comes out')
  const lines = original.toString('utf8').trimEnd().split('\n')
  promise(lines.length === imported, 'every line is stored')
  const kinds = new Set(lines.map((line) => JSON.parse(line).kind))
  await print(
    `${imported} events of ${kinds.size} kinds, ${original.length} bytes, byte for byte the same.\n`,
  )
}

async function exported({ client, signal }: Stage, id: string): Promise<Buffer> {
  return Buffer.from(await new Response(await client.exportEvents(id, { signal })).arrayBuffer())
}

async function page({ client, signal }: Stage, id: string, query: SearchQuery) {
  const response = await client.open('searchEvents', { params: { conversation_id: id }, query, signal })
  return rawPage(await response.text())
}
