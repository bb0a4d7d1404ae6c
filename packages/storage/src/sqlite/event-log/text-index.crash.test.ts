import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'
import { fileIdentity } from '../testing/file-identity.ts'

const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 5)
const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const writer = fileURLToPath(new URL('../testing/index-writer.ts', import.meta.url))

test(`the text index continues after a kill where it was, ${rounds} times`, {
  timeout: 60_000 + rounds * 20_000,
}, async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'index.db')
  let first: string | undefined
  for (let round = 0; round < rounds; round++) {
    const child = spawn(process.execPath, [writer, directory.path, id], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exit = once(child, 'exit')
    await once(child.stdout, 'data')
    await pause(Math.random() * 2_000)
    child.kill('SIGKILL')
    await exit
    first ??= fileIdentity(path)
    await using storage = await openStorage({ directory: directory.path })
    const [record] = await storage.conversations.get([id])
    const events = await storage.log.read(id, 0, record?.head ?? 0, 1e9)
    const expected = events.filter(({ bytes }) => bytes.includes('needle')).length
    expect(await storage.log.count(id, { body: 'NEEDLE' })).toBe(expected)
    await storage.waitUntilIndexed()
    expect(await storage.log.count(id, { body: 'NEEDLE' })).toBe(expected)
    expect(fileIdentity(path)).toBe(first)
  }
})
