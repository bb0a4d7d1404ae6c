import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { livingSessions, markSession, sessionsDirectory } from './watch-use.ts'

test('a session lives while its process does, and not as another process with its pid', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-watch-test-'))
  expect(await livingSessions(directory)).toEqual([])
  const sessions = join(directory, sessionsDirectory)
  await mkdir(sessions)
  const file = await markSession(directory)
  // No process has this pid.
  await writeFile(join(sessions, '4194305'), '')
  expect(await livingSessions(directory)).toEqual([process.pid])
  expect(await readdir(sessions)).toEqual([String(process.pid)])
  if (process.platform === 'linux') {
    await writeFile(file, '1')
    expect(await livingSessions(directory)).toEqual([])
    expect(await readdir(sessions)).toEqual([])
  }
  await rm(directory, { recursive: true })
})
