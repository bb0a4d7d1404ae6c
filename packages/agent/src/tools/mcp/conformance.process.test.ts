import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Semaphore } from '@slipway/shared/async'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runConformanceTask } from './testing/conformance-client.ts'

/**
 * The official conformance suite of the protocol against our client, with the requirements of each era. The
 * suite starts a program for each scenario; that program passes the scenario on to this process, which spares
 * the start of the agent each time.
 */

/** Scenarios that do not pass, with the reason. The list only shrinks. */
const exceptions: Readonly<Record<string, string>> = {
  'auth/basic-cimd': 'a warning alone: a client of one machine has no public page that describes it',
  'auth/scope-step-up': 'a sign-in is made by a person beforehand, never in the middle of a call',
  'auth/client-credentials-jwt': 'extension: no keys of machines',
  'auth/client-credentials-basic': 'extension: no keys of machines',
  'auth/enterprise-managed-authorization': 'extension: no provider of identities',
  'auth/dpop': 'extension: tokens are not bound to keys',
  'auth/dpop-nonce': 'extension: tokens are not bound to keys',
  'auth/wif-jwt-bearer': 'extension: no keys of machines',
}

const program = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'))

/** Started by the suite: passes its scenario on. */
const bridge = `
import { request } from 'node:http'
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = '{}' } = process.env
const [port, url] = process.argv.slice(2)
const sent = request({ host: '127.0.0.1', port, method: 'POST' }, async (response) => {
  let failure = ''
  for await (const part of response.setEncoding('utf8')) failure += part
  console.error(failure)
  process.exitCode = failure === '' ? 0 : 1
})
sent.end(JSON.stringify({ url, scenario, context: JSON.parse(context) }))
`

/** The suite starts all scenarios at once. */
const slots = new Semaphore(4)
let server: Server
let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-cf-'))
  await writeFile(join(directory, 'bridge.mjs'), bridge)
  server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request.setEncoding('utf8')) body += part
    const release = await slots.acquire()
    const failure = await runConformanceTask(JSON.parse(body)).then(
      () => '',
      (error: unknown) => String(error),
    )
    release()
    response.end(failure)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
})

afterAll(async () => {
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
  await rm(directory, { recursive: true, force: true })
})

/** The scenarios of a revision, and whether each passed. */
async function runSuite(revision: string) {
  const { port } = server.address() as AddressInfo
  const command = `${process.execPath} ${join(directory, 'bridge.mjs')} ${port}`
  const options = ['--requirements', revision, '--timeout', '120000', '-o', join(directory, revision)]
  const args = ['client', '--command', command, ...options]
  const output = await new Promise<string>((done) => {
    execFile(process.execPath, [program, ...args], { maxBuffer: 1e8, cwd: directory }, (_, out) => done(out))
  })
  const summary = output.split('=== SUITE SUMMARY ===')[1]?.split('Total:')[0] ?? ''
  const lines = summary.matchAll(/^(✓|✗) (\S+): /gm)
  const results = new Map([...lines].map(([, mark, name]) => [String(name), mark === '✓']))
  return { results, output }
}

test.for([
  ['2025-11-25', 25],
  ['2026-07-28', 39],
] as const)(
  'the client passes the scenarios of %s, but for those with a reason',
  async ([revision, count]) => {
    const { results, output } = await runSuite(revision)
    expect(results.size).toBeGreaterThanOrEqual(count)
    const failed = [...results].filter(([, isPassed]) => !isPassed).map(([name]) => name)
    const expected = [...results.keys()].filter((name) => Object.hasOwn(exceptions, name))
    expect(failed.toSorted(), output).toEqual(expected.toSorted())
  },
)
