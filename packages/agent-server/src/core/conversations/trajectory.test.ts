import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatInstant } from '@slipway/protocol'
import { Cipher, openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { sealText } from '../secrets/sealed-text.ts'
import { redactExportedEvent, zipTrajectory } from './trajectory.ts'

/** The files of a zip as the machine's own program reads them, by name. */
function extractZip(zip: Buffer, directory: string): Map<string, string> {
  const path = join(directory, `${randomUUID()}.zip`)
  const to = join(directory, randomUUID())
  writeFileSync(path, zip)
  execFileSync('python3', ['-m', 'zipfile', '-e', path, to])
  const names = readdirSync(to, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return new Map(
    names
      .map(({ parentPath, name }) => join(parentPath, name))
      .sort()
      .map((path) => [path.slice(to.length + 1), readFileSync(path, 'utf8')]),
  )
}

async function collectChunks(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all)
}

const instant = 1_772_359_200_000_000

test('a zip has what is known of the conversation, and each event as it is stored', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const id = randomUUID()
  await storage.conversations.create({ id, title: 'Größe ✓' })
  const ids = ['a', '../../etc/é\n', 'x'.repeat(300)]
  const lines = ids.map((id, index) =>
    JSON.stringify({ id, timestamp: formatInstant(instant + index), kind: 'PauseEvent', source: 'user' }),
  )
  await storage.log.append(
    id,
    lines.map((line, index) => ({
      bytes: Buffer.from(line),
      id: ids[index] ?? '',
      instant: instant + index,
      kind: 'PauseEvent',
      source: 'user',
    })),
  )
  const [record] = await storage.conversations.get([id])
  const options = {
    log: storage.log,
    id,
    head: record?.head ?? 0,
    meta: { id, title: 'T' },
    state: { execution_status: 'idle' },
    updatedAt: instant,
  }
  await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])
  const files = extractZip(await collectChunks(zipTrajectory(options)), directory.path)
  const folder = id.replaceAll('-', '')
  expect([...files.keys()]).toEqual([
    `${folder}/base_state.json`,
    `${folder}/events/event-00000-a.json`,
    `${folder}/events/event-00001-..-..-etc---.json`,
    `${folder}/events/event-00002-${'x'.repeat(100)}.json`,
    `${folder}/meta.json`,
  ])
  expect([...files.values()].slice(1, 4)).toEqual(lines)
  expect(JSON.parse(files.get(`${folder}/base_state.json`) ?? '')).toEqual({ execution_status: 'idle' })
  expect(JSON.parse(files.get(`${folder}/meta.json`) ?? '')).toEqual({ id, title: 'T' })
  expect([
    ...extractZip(await collectChunks(zipTrajectory({ ...options, head: 0 })), directory.path).keys(),
  ]).toEqual([`${folder}/base_state.json`, `${folder}/meta.json`])
})

test('a long log is read while it is sent, and leaving early lets go', { timeout: 60_000 }, async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const id = randomUUID()
  await storage.conversations.create({ id })
  const filler = 'y'.repeat(2_000)
  for (let at = 0; at < 3; at++) {
    const drafts = Array.from({ length: 500 }, () => ({ kind: 'PauseEvent', source: 'user', filler }))
    await storage.log.append(id, drafts)
  }
  const options = { log: storage.log, id, head: 1_500, meta: {}, state: {}, updatedAt: instant }
  for await (const chunk of zipTrajectory(options)) {
    expect(chunk.subarray(0, 2).toString()).toBe('PK')
    break
  }
  expect(extractZip(await collectChunks(zipTrajectory(options)), directory.path).size).toBe(1_502)
  const cut = collectChunks(zipTrajectory({ ...options, head: 1_501 }))
  await expect(cut).rejects.toThrow('removed')
})

test('secrets of models and sealed texts are stars, wherever they stand', async () => {
  using directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const sealed = sealText(cipher, 'canary')
  const fernet = `gAAAAAB${'Zm9v'.repeat(24)}==`
  const event = {
    id: 'e',
    kind: 'ConversationStateUpdateEvent',
    value: {
      agent: {
        llm: { api_key: 'sk-canary', aws_secret_access_key: 'aws-canary', api_key_set: true, model: 'm' },
      },
      texts: [`before ${sealed} after`, { deep: fernet }],
      max_output_tokens: 5,
      api_key: null,
    },
  }
  const text = redactExportedEvent(Buffer.from(JSON.stringify(event))).toString()
  expect(JSON.parse(text)).toEqual({
    ...event,
    value: {
      agent: {
        llm: { api_key: '**********', aws_secret_access_key: '**********', api_key_set: true, model: 'm' },
      },
      texts: ['before ********** after', { deep: '**********' }],
      max_output_tokens: 5,
      api_key: null,
    },
  })
  const escaped = '{"id":"e","\\u0061pi_key":"sk-canary"}'
  expect(redactExportedEvent(Buffer.from(escaped)).toString()).not.toContain('canary')
})

test('an event without secrets is the stored bytes, also where it speaks of them', () => {
  for (const text of [
    '{"id":"e", "cost": 1.0, "text":"set api_key in the settings, \\u00e9"}',
    '{"id":"e","n":1e400,"api_key":null, "api_key_set":false}',
    '{"id":"e", "plain": "gAAAA short"}',
  ]) {
    const bytes = Buffer.from(text)
    expect(redactExportedEvent(bytes)).toBe(bytes)
  }
})
