import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SandboxInfo } from '../support/sandbox-server/server.ts'
import {
  createUser,
  openSandboxServer,
  type SandboxServerFixture,
  type User,
} from '../support/sandbox-server/user.ts'

/** Process sandboxes that do not start, each for another reason: what their owner reads. */

const node = (script: string) => [process.execPath, '-e', script, '--']
const listen = (handler: string) =>
  node(`const { values } = require('node:util').parseArgs({ options: { socket: { type: 'string' } }, strict: false })
require('node:http').createServer(${handler}).listen(values.socket)`)
const env = { API_TOKEN: 'tok-of-the-spec' }

const specs = [
  {
    ...{ id: 'out_of_memory', env, resources: { memory_bytes: 128 * 2 ** 20 } },
    command: node('const all = []; for (;;) all.push(Buffer.alloc(8 << 20, 1))'),
  },
  {
    ...{ id: 'port_taken', env },
    command: node(`const { createServer } = require('node:net')
const server = createServer().listen(0, '127.0.0.1', () => createServer().listen(server.address().port, '127.0.0.1'))`),
  },
  {
    ...{ id: 'key_refused', env },
    command: listen(
      `({ url }, answer) => answer.writeHead(url.startsWith('/ready') ? 200 : 401).end('{"status":"ready"}')`,
    ),
  },
  { id: 'not_answering', env, command: listen('() => {}') },
  {
    ...{ id: 'disk_full', env, resources: { disk_bytes: 16 * 2 ** 20 } },
    command: [
      '/bin/sh',
      '-c',
      'dd if=/dev/zero of="$HOME/big" bs=1M count=64; echo "token $API_TOKEN"; exit 1',
    ],
  },
  { id: 'ended', env, command: ['/nothing/that/could/be/started'] },
]

let fixture: SandboxServerFixture
let user: User
beforeAll(async () => {
  fixture = await openSandboxServer({
    env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs), SLIPWAY_SANDBOX_START_SECONDS: '8' },
  })
  user = await createUser(fixture.server)
}, 60_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

async function fail(spec: string): Promise<SandboxInfo> {
  const { id } = await user.requestOrThrow<SandboxInfo>('POST', `/api/v1/sandboxes?sandbox_spec_id=${spec}`)
  return await user.waitForSandbox(id, 'ERROR')
}

test('a sandbox that does not start says why, and what to do next', { timeout: 120_000 }, async (context) => {
  const failed = await Promise.all(specs.map(({ id }) => fail(id)))
  const enforced = Object(failed[0]?.isolation).enforced as readonly string[]
  for (const info of failed) {
    const spec = String(info.sandbox_spec_id)
    const needed = { out_of_memory: 'memoryBytes', disk_full: 'diskBytes' }[spec]
    if (needed !== undefined && !enforced.includes(needed)) continue
    expect([spec, info.status_detail, info.status_reason]).toEqual([
      ...[spec, expect.stringMatching(/./)],
      { code: spec, message: expect.stringMatching(/\.$/), next_command: expect.stringMatching(/./) },
    ])
    expect(JSON.stringify(info)).not.toContain('tok-of-the-spec')
  }
  if (!enforced.includes('memoryBytes') || !enforced.includes('diskBytes'))
    context.annotate('memory or disk is not limited on this host')

  // The spec of one is gone after a restart.
  const [, , , , , ended] = failed
  await fixture.server.stop()
  const rest = specs.filter(({ id }) => id !== 'ended')
  await fixture.server.start({ env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(rest) } })
  expect((await user.getSandbox(String(ended?.id)))?.status_reason).toMatchObject({ code: 'spec_missing' })
})
