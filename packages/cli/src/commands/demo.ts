import { createReadStream, rmSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { serve } from '@slipway/agent-server'
import { Client, follow } from '@slipway/client'
import { streamOf } from '../body.ts'
import { rawPage } from '../raw-page.ts'
import { paint, print } from '../terminal.ts'
import { eventTable, type SearchQuery } from './search.ts'
import { tailLine } from './tail.ts'

const sample = fileURLToPath(new URL('../../sample/sample.jsonl', import.meta.url))

/** What a step of the demo works with. */
interface Stage {
  readonly client: Client
  readonly pauseMs: number
  readonly signal: AbortSignal
}

/**
 * The whole product in some seconds: a server on a free port with its data in a temporary directory, a sample
 * conversation, searches, a live log, an export. Leaves nothing behind; rejects when a step fails.
 */
export async function demoCommand(options: {
  readonly isFast: boolean
  readonly signal: AbortSignal
}): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), 'slipway-demo-'))
  // At the exit, because a server that dies takes the process with it before anything else could clean up.
  process.once('exit', () => rmSync(data, { recursive: true, force: true }))
  const stop = new AbortController()
  const signal = AbortSignal.any([stop.signal, options.signal])
  const ready = Promise.withResolvers<string>()
  const env = { SLIPWAY_LOG_LEVEL: 'error' }
  const serving = serve({ host: '127.0.0.1', port: 0, data, env, signal: stop.signal, ready: ready.resolve })
  try {
    const url = await Promise.race([
      ready.promise,
      serving.then(() => Promise.reject(new Error('The server stopped.'))),
    ])
    await play({ client: new Client({ url }), pauseMs: options.isFast ? 0 : 400, signal })
  } finally {
    stop.abort()
    await serving.catch(() => undefined)
  }
}

async function play(stage: Stage): Promise<void> {
  const { url } = stage.client
  await heading(stage, 'A server, its log in SQLite on disk')
  await command('npx slipway serve --port 0')
  await print(`${url}\n`)
  await command(`export SLIPWAY_URL=${url}`)
  const id = await importing(stage)
  await searching(stage, id)
  await walking(stage, id)
  const size = await following(stage, id)
  await exporting(stage, id, size)
  await heading(stage, 'That was it')
  await print(`The API was at ${url}/api, its page at ${url}/docs. Both are gone now, with all data.\n`)
  await print('Start your own with "npm run dev", then "npx slipway --help".\n')
}

async function importing({ client, signal, ...stage }: Stage): Promise<string> {
  await heading({ client, signal, ...stage }, 'Import a conversation: all of it or nothing')
  await command(`npx slipway import ${relative(process.cwd(), sample) || sample}`)
  const { conversation_id, imported } = await client.importEvents(streamOf(createReadStream(sample)), {
    signal,
  })
  await print(`${imported} events in conversation ${conversation_id}\n`)
  return conversation_id
}

async function searching(stage: Stage, id: string): Promise<void> {
  const day = '2026-03-14T09:2'
  const searches: [title: string, flags: string, query: SearchQuery, least: number][] = [
    ['What did the agent do?', '--kind ActionEvent --limit 5', { kind: 'ActionEvent', limit: '5' }, 5],
    ['What did people say and stop?', '--source user', { source: 'user' }, 5],
    [
      'What happened in those ten seconds?',
      `--since ${day}8:10Z --until ${day}8:20Z`,
      { timestamp__gte: `${day}8:10Z`, timestamp__lt: `${day}8:20Z` },
      3,
    ],
    [
      'Who spoke of Σοφοκλέους? In any case, with any sigma',
      '--body "οδοσ σοφοκλεουσ"',
      { body: 'οδοσ σοφοκλεουσ' },
      1,
    ],
  ]
  for (const [title, flags, query, least] of searches) {
    await heading(stage, title)
    await command(`npx slipway search ${id} ${flags}`)
    const { items } = await page(stage, id, query)
    await print(eventTable(items, false))
    if (items.length < least) throw new Error(`The search found ${items.length} events instead of ${least}.`)
  }
}

async function walking(stage: Stage, id: string): Promise<void> {
  const { client, signal } = stage
  await heading(stage, 'Walk through all pages, the newest first')
  await command(
    `curl "${client.url}/api/conversations/${id}/events/search?sort_order=TIMESTAMP_DESC&limit=25"`,
  )
  const seen = new Set<string>()
  let next: string | undefined
  do {
    const { items, next_page_id } = await page(stage, id, {
      sort_order: 'TIMESTAMP_DESC',
      limit: '25',
      page_id: next,
    })
    for (const item of items) seen.add(item)
    await print(
      `a page of ${items.length}, ${next_page_id === null ? 'the last one' : `the next is ${next_page_id}`}\n`,
    )
    next = next_page_id ?? undefined
  } while (next !== undefined)
  const count = await client.call('countEvents', { params: { conversation_id: id }, signal })
  if (seen.size !== count) throw new Error(`The walk saw ${seen.size} of ${count} events.`)
  await print(`${seen.size} events, each once.\n`)
}

const messages = [
  'Is anybody still here? 👋',
  'Bitte auch die Straßen von Łódź und Αθήνα prüfen.',
  'Γειά σου Κόσμε, 你好，世界, שלום עולם',
  'Whoever reads along has this line now, without asking again.',
  'And it was on disk before you saw it.',
]

/** Answers the position of the last event. */
async function following(stage: Stage, id: string): Promise<number> {
  const { client, pauseMs, signal } = stage
  const params = { conversation_id: id }
  const before = await client.call('countEvents', { params, signal })
  await heading(stage, 'Follow the log while messages come in')
  await command(`npx slipway tail ${id} --after ${before - 2}`)
  const stop = new AbortController()
  const sending = (async () => {
    for (const text of messages) {
      await sleep(pauseMs, undefined, { signal })
      await client.call('sendMessage', { params, body: { content: [{ type: 'text', text }] }, signal })
    }
  })()
  sending.catch(() => stop.abort())
  let sent = 0
  let last = before - 2
  const options = { after: last, signal: AbortSignal.any([signal, stop.signal]) }
  for await (const item of follow(client, id, options)) {
    await print(tailLine(item))
    if (item.position !== last + 1) throw new Error(`Position ${item.position} came after ${last}.`)
    last = item.position
    if (last > before && item.event.kind === 'MessageEvent' && ++sent === messages.length) break
  }
  await sending
  if (sent !== messages.length) throw new Error('The log ended early.')
  return last
}

async function exporting({ client, signal, ...stage }: Stage, id: string, size: number): Promise<void> {
  await heading({ client, signal, ...stage }, 'Export it: the same bytes that went in')
  await command(
    `npx slipway export ${id} | head -c ${(await readFile(sample)).length} | cmp - ${relative(process.cwd(), sample)}`,
  )
  const bytes = Buffer.from(await new Response(await client.exportEvents(id, { signal })).arrayBuffer())
  const original = await readFile(sample)
  if (!bytes.subarray(0, original.length).equals(original))
    throw new Error('The export differs from what was imported.')
  const lines = bytes.toString('utf8').split('\n').length - 1
  if (lines !== size) throw new Error(`The export has ${lines} lines instead of ${size}.`)
  await print(
    `${bytes.length} bytes, ${lines} lines; the first ${original.length} bytes are the sample, byte for byte.\n`,
  )
}

async function page({ client, signal }: Stage, id: string, query: SearchQuery) {
  const response = await client.open('searchEvents', { params: { conversation_id: id }, query, signal })
  return rawPage(await response.text())
}

async function heading({ pauseMs, signal }: Stage, title: string): Promise<void> {
  await sleep(pauseMs, undefined, { signal })
  await print(`\n${paint('bold', title)}\n`)
}

async function command(line: string): Promise<void> {
  await print(`${paint('dim', '$')} ${paint('green', line)}\n`)
}
