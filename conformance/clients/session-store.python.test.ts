import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { findPython, pythonEnv } from '../support/python.ts'

const key = 'session-store-test-key'
const server = await OwnAgentServer.open({ sessionKey: key, isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())

const python = findPython('session-store')
if (python === undefined)
  console.warn('SKIPPED: .ci/python session-store has not installed the Claude Agent SDK')

test.skipIf(python === undefined)(
  'the conformance suite of claude-agent-sdk passes with the adapter for Python',
  { timeout: 120_000 },
  async () => {
    const program = resolve(import.meta.dirname, 'python/session_store.py')
    const { stdout } = await promisify(execFile)(String(python), [program, server.url, key], {
      env: pythonEnv(String(python), server.directory),
    })
    // One to look at, and one for each contract but that of summaries, which are optional.
    expect(stdout).toBe('stores 14\n')
  },
)
