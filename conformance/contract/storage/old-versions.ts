import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { agentServerMain } from '@slipway/shared/process/testing'
import { expect } from 'vitest'
import { type AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { withServer } from '../../support/with-server.ts'
import type { Guarantee } from '../guarantee.ts'

/** Logs that earlier versions wrote: each has the same two conversations. */
const folder = resolve(import.meta.dirname, '../../../packages/storage/src/sqlite/testing/versions')
const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const importedId = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

/** A start has opened the log after this time. */
const maxOpenMs = 150

/** The first start of this version on a log of an earlier one is killed at any moment. */
export const oldVersions: Guarantee = {
  promise:
    'The log of every earlier version opens with every byte of its events, also after a kill in its migration.',
  round:
    'starts a server on the log of an earlier version, kills it at a random moment, starts it again, and compares exports, pages, searches and counts',
  partRounds: 50,
  async run(rounds) {
    const base = await mkdtemp(join(tmpdir(), 'slipway-versions-'))
    try {
      const files = (await readdir(folder)).filter((file) => /^log-v.*\.db\.gz$/.test(file)).toSorted()
      const expected = new Map<string, readonly string[]>()
      let migrations = 0
      for (let round = 0; round < rounds; round++) {
        const file = files[round % files.length] ?? ''
        const data = await mkdtemp(join(base, 'data-'))
        await writeFile(join(data, 'log.db'), gunzipSync(await readFile(join(folder, file))))
        const isFirst = !expected.has(file)
        if (!isFirst) migrations += Number(await startAndKill(data))
        const answers = await readAndGoOn(data)
        if (isFirst) expected.set(file, answers)
        expect(answers, file).toEqual(expected.get(file))
        await rm(data, { recursive: true })
      }
      // What was imported has the same bytes whichever version stored it.
      expect(new Set([...expected.values()].map(([imported]) => imported)).size).toBe(1)
      return { versions: files.length, starts: rounds, 'killed before ready': migrations, lost: 0 }
    } finally {
      await rm(base, { recursive: true })
    }
  },
}

/** Kills a server while it opens the log; returns whether that was before its first answer. */
async function startAndKill(data: string): Promise<boolean> {
  const args = [agentServerMain, '--port', '0', '--data', data]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  const exit = once(child, 'exit')
  let isReady = false
  child.stdout.once('data', () => {
    isReady = true
  })
  // It is there from the first statement on.
  while (!existsSync(join(data, 'log.db-wal')) && child.exitCode === null) await sleep(1)
  await sleep(Math.random() * maxOpenMs)
  child.kill('SIGKILL')
  await exit
  return !isReady
}

/** The answers of what the earlier version stored; then appends, kills and reads again. */
async function readAndGoOn(data: string): Promise<readonly string[]> {
  const text = 'written by this version'
  const answers = await withServer(data, async (api) => {
    const before = await readAll(api)
    await api.import(toJsonLines({ conversation_id: id }, messageLine('new', '2027-01-01T00:00:00Z', text)))
    return before
  })
  await withServer(data, async (api) => {
    const [imported, other = ''] = await readAll(api)
    expect(imported).toBe(answers[0])
    expect(other.startsWith(answers[1] ?? '')).toBe(true)
    expect(other.split(text).length).toBe(2)
  })
  return answers
}

/** Both exports first. */
async function readAll(api: AgentServerApi): Promise<readonly string[]> {
  const paths = [
    `${importedId}/export`,
    `${id}/export`,
    ...[importedId, id].flatMap((one) =>
      ['search?limit=100', 'search?limit=100&kind=PauseEvent&sort_order=TIMESTAMP_DESC', 'count'].map(
        (rest) => `${one}/events/${rest}`,
      ),
    ),
    `${id}/events/search?limit=100&body=text%2039%20of`,
  ]
  const answers: string[] = []
  for (const path of paths) {
    const response = await api.fetch(`/api/conversations/${path}`)
    expect(response.status, path).toBe(200)
    answers.push(await response.text())
  }
  return answers
}
