import { mkdir, readlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { BackendProcess } from './backend-process.ts'
import { OutputTail } from './output-tail.ts'

test('a program on a socket in a deep folder leaves no link to it when it is stopped', async () => {
  using directory = temporaryDirectory()
  const dataDirectory = join(directory.path, 'd'.repeat(150))
  await mkdir(dataDirectory)
  const program = `require('http').createServer((_, answer) => answer.end()).listen(process.argv[1])`
  const backend = await BackendProcess.start({
    ...{ folder: directory.path, environment: {}, revision: 'r', artifactDirectory: directory.path },
    ...{ dataDirectory, output: new OutputTail() },
    backend: {
      argv: [process.execPath, '-e', program, '{socket}'],
      health: { path: '/', timeout_seconds: 20, interval_seconds: 0.05 },
    } as never,
  })
  await backend.waitUntilReady()
  expect(backend.state).toBe('ready')
  const link = dirname(backend.door.values.socket ?? '')
  expect(await readlink(link)).toBe(join(dataDirectory, 'run'))
  await backend.stop()
  await expect(readlink(link)).rejects.toThrow('ENOENT')
})
