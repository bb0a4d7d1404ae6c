import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  agentSource,
  commandName,
  eventTable,
  listCommand,
  parseRawPage,
  print,
  type SearchQuery,
  toReadableStream,
} from '@slipway/cli/toolkit'
import { type DemoContext, type DemoRun, printCommand, printHeading, verify } from './context.ts'

const samplePath = fileURLToPath(new URL('../sample-log/sample.jsonl', import.meta.url))

/** Searches, pages, lists and exports the log. Each result is checked against the others. */
export async function showEventLog(stage: DemoContext, work: DemoRun): Promise<void> {
  await showSearches(stage, work)
  await showPaging(stage, work)
  await showExport(stage, work)
  await showImport(stage)
  await printHeading(stage, 'List the conversations')
  await printCommand(`${commandName} ls --limit 5`)
  const { client, signal } = stage
  const context = { source: agentSource(client, signal), isJson: false, isWide: false, signal }
  await listCommand(context, { limit: 5, all: false, isQuiet: false })
}

async function showSearches(stage: DemoContext, { id, events }: DemoRun): Promise<void> {
  const { client, signal } = stage
  const actionCount = events.filter(({ event }) => event.kind === 'ActionEvent').length
  const userCount = events.filter(({ event }) => event.source === 'user').length
  const searches: [title: string, flags: string, query: SearchQuery, expected: number][] = [
    ['What did the agent do?', '--kind ActionEvent', { kind: 'ActionEvent' }, actionCount],
    ['What did users write?', '--source user', { source: 'user' }, userCount],
    [
      'Who mentioned Αθήνα? In any case',
      '--body "BÜROS IN ŁÓDŹ UND ΑΘΉΝΑ"',
      { body: 'BÜROS IN ŁÓDŹ UND ΑΘΉΝΑ' },
      1,
    ],
  ]
  for (const [title, flags, query, expected] of searches) {
    await printHeading(stage, title)
    await printCommand(`${commandName} search ${id} ${flags}`)
    const { items } = await readPage(stage, id, query)
    await print(eventTable(items, false))
    const { limit: _, ...filter } = query
    const count = await client.call('countEvents', { params: { conversation_id: id }, query: filter, signal })
    verify(items.length === Math.min(100, expected), `the search finds ${expected} events (${items.length})`)
    verify(count === expected, `the count is ${expected} (${count})`)
  }
}

async function showPaging(stage: DemoContext, { id, events }: DemoRun): Promise<void> {
  const { client, signal } = stage
  await printHeading(stage, 'Walk through all pages, the newest first')
  await printCommand(
    `curl "${client.url}/api/conversations/${id}/events/search?sort_order=TIMESTAMP_DESC&limit=10"`,
  )
  const collected: string[] = []
  let next: string | undefined
  do {
    const query = { sort_order: 'TIMESTAMP_DESC', limit: '10', page_id: next } as const
    const { items, next_page_id } = await readPage(stage, id, query)
    collected.push(...items)
    await print(
      `a page of ${items.length}, ${next_page_id === null ? 'the last one' : `the next is ${next_page_id}`}\n`,
    )
    next = next_page_id ?? undefined
  } while (next !== undefined)
  const count = await client.call('countEvents', { params: { conversation_id: id }, signal })
  const inOrder = collected.toReversed().every((item, at) => item === events[at]?.text)
  verify(collected.length === count && count === events.length, `the walk returns all ${count} events`)
  verify(inOrder, 'the pages have the events of the stream, in its order')
  await print(`${collected.length} events, each once, the same bytes as in the stream.\n`)
}

async function showExport(stage: DemoContext, { id, events }: DemoRun): Promise<void> {
  await printHeading(stage, 'Export it')
  await printCommand(`${commandName} export ${id} | wc`)
  const bytes = await readExport(stage, id)
  const streamed = Buffer.from(events.map(({ text }) => `${text}\n`).join(''))
  verify(bytes.equals(streamed), 'the export has the bytes of the stream')
  await print(`${bytes.length} bytes, ${events.length} lines, one event each.\n`)
}

/** The export of a log of another server, with every kind of event, is identical to the import. */
async function showImport(stage: DemoContext): Promise<void> {
  const { client, signal } = stage
  const file = relative(process.cwd(), samplePath) || samplePath
  await printHeading(stage, 'Import a log with every kind of event, and export the same bytes')
  await printCommand(`${commandName} import ${file}`)
  const { conversation_id, imported } = await client.importEvents(
    toReadableStream(createReadStream(samplePath)),
    {
      signal,
    },
  )
  await printCommand(`${commandName} export ${conversation_id} | cmp - ${file}`)
  const original = await readFile(samplePath)
  verify((await readExport(stage, conversation_id)).equals(original), 'the export is identical to the import')
  const lines = original.toString('utf8').trimEnd().split('\n')
  verify(lines.length === imported, 'every line is stored')
  const kinds = new Set(lines.map((line) => JSON.parse(line).kind))
  await print(
    `${imported} events of ${kinds.size} kinds, ${original.length} bytes, byte for byte the same.\n`,
  )
}

async function readExport({ client, signal }: DemoContext, id: string): Promise<Buffer> {
  return Buffer.from(await new Response(await client.exportEvents(id, { signal })).arrayBuffer())
}

async function readPage({ client, signal }: DemoContext, id: string, query: SearchQuery) {
  const response = await client.open('searchEvents', { params: { conversation_id: id }, query, signal })
  return parseRawPage(await response.text())
}
