import { stat } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { fileReply } from './file-reply.ts'

test.skipIf(process.platform !== 'linux')('a file whose size is unknown comes whole', async () => {
  const path = '/proc/self/status'
  const file = { path, stats: await stat(path, { bigint: true }) }
  const reply = await fileReply(file, { header: (name) => (name === 'range' ? 'bytes=0-3' : undefined) })
  expect(reply).not.toHaveProperty('status')
  expect(reply.headers).not.toHaveProperty('content-length')
  const chunks = 'chunks' in reply && reply.chunks ? await Array.fromAsync(reply.chunks) : []
  expect(chunks.join('')).toContain(`Pid:\t${process.pid}`)
})
