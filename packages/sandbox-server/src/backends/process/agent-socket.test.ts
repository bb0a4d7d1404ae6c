import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { agentSocketName, watchAgentSocket } from './agent-socket.ts'
import { sandboxPaths } from './sandbox-paths.ts'

async function createFolders() {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-watch-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const paths = sandboxPaths(directory, 'a')
  for (const folder of [paths.data, paths.sockets]) await mkdir(folder, { recursive: true })
  return paths
}

async function listenAt(path: string): Promise<void> {
  const server = createServer().listen(path)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
}

test('the socket of an agent server is noticed when it is made, once, and no other file', async () => {
  const paths = await createFolders()
  let calls = 0
  using _ = watchAgentSocket(paths, '0123456789abcdef', () => void calls++)
  await writeFile(join(paths.data, 'log.db'), '')
  await listenAt(join(paths.data, agentSocketName))
  await expect.poll(() => calls, { timeout: 20_000 }).toBe(1)
  await rm(join(paths.data, agentSocketName))
  await listenAt(join(paths.sockets, '01234567.sock'))
  // A second call would come with the events of a later watch.
  let later = 0
  using __ = watchAgentSocket(paths, 'fedcba9876543210', () => void later++)
  await listenAt(join(paths.sockets, 'fedcba98.sock'))
  await expect.poll(() => later, { timeout: 20_000 }).toBe(1)
  expect(calls).toBe(1)
})

test('folders that are missing cannot be watched, which is no error', () => {
  using _ = watchAgentSocket(sandboxPaths('/nonexistent', 'a'), '0123456789abcdef', () => {})
})
