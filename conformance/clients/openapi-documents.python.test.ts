import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import { findPython, pythonEnv } from '../support/python.ts'

const { api, directory, server } = await openAgentFixture()
const python = findPython('openapi')
if (python === undefined) console.warn('SKIPPED: .ci/python openapi has not installed the readers of OpenAPI')

test.skipIf(python === undefined)(
  'both OpenAPI documents are valid to Python, and a generated client imports and calls the server',
  { timeout: 240_000 },
  async () => {
    const id = await api.import(
      toJsonLines(messageLine('a', '2026-01-01T00:00:00Z', 'one'), '{"kind":"PauseEvent","source":"user"}'),
    )
    const folder = join(directory, 'generated')
    await mkdir(folder)
    const program = resolve(import.meta.dirname, 'python/openapi_client.py')
    const documents = resolve(import.meta.dirname, '../../openapi')
    const { stdout } = await promisify(execFile)(
      String(python),
      [program, documents, folder, server.url, id],
      {
        env: pythonEnv(String(python), directory),
      },
    )
    expect(JSON.parse(stdout)).toEqual({
      modules: expect.toSatisfy((count: number) => count > 1_000),
      version: expect.any(String),
      conversations: 1,
      id,
      count: 2,
      kinds: ['MessageEvent', 'PauseEvent'],
    })
  },
)
