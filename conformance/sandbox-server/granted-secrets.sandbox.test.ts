import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'
import {
  createUser,
  lookUpSecret,
  openSandboxServer,
  type SandboxServerFixture,
  textModel,
  type User,
} from '../support/sandbox-server/user.ts'

/** What a sandbox can look up: secrets that its conversations were granted, and no others of its owner. */

let fixture: SandboxServerFixture
let server: SandboxServer
let ann: User
beforeAll(async () => {
  fixture = await openSandboxServer()
  server = fixture.server
  ann = await createUser(server, { name: 'Ann' })
  await ann.setModel(textModel)
  for (const name of ['ONE', 'TWO', 'THREE']) await saveSecret(name)
  const providers = { provider_tokens: { github: { token: 'value-of-github' } } }
  await ann.requestOrThrow('POST', '/api/v1/secrets/git-providers', providers)
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

async function saveSecret(name: string): Promise<void> {
  await ann.requestOrThrow('POST', '/api/v1/secrets', { name, value: `value-of-${name}` })
}

/** As a program in the sandbox that has its session key. */
const lookUp = ({ id, session_api_key }: SandboxInfo, name: string) =>
  lookUpSecret(server, id, name, { 'x-session-api-key': String(session_api_key) })

async function listNames(sandbox: SandboxInfo): Promise<readonly string[]> {
  const { secrets } = JSON.parse((await lookUp(sandbox, '')).text)
  return secrets.map(({ name }: { name: string }) => name)
}

const slow = { timeout: 120_000 }

test('a sandbox looks up the secrets that its conversations name, and no others', slow, async () => {
  const { sandbox_id } = await ann.createConversation({ secret_names: ['ONE'] })
  const sandbox = await ann.waitForSandbox(sandbox_id, 'RUNNING')
  expect(await listNames(sandbox)).toEqual(['ONE'])
  expect(await lookUp(sandbox, 'ONE')).toEqual({ status: 200, text: 'value-of-ONE' })
  const missing = await lookUp(sandbox, 'NOT_THERE')
  for (const name of ['TWO', 'THREE', 'github_token']) expect(await lookUp(sandbox, name)).toEqual(missing)
  expect(missing.status).toBe(404)

  // Another conversation adds what it names; grants survive a restart of the server and a pause.
  await ann.createConversation({ sandbox_id, secret_names: ['TWO'] })
  expect(await listNames(sandbox)).toEqual(['ONE', 'TWO'])
  const unknown = (await ann.startConversation({ sandbox_id, secret_names: ['NOT_THERE'] })).at(-1)
  expect(unknown).toMatchObject({ status: 'ERROR', detail: expect.stringContaining('NOT_THERE') })
  await server.stop()
  await server.start()
  await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`)
  await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
  const resumed = await ann.waitForSandbox(sandbox_id, 'RUNNING')
  expect(await listNames(resumed)).toEqual(['ONE', 'TWO'])

  // A name that is granted finds nothing of other users.
  const bea = await createUser(server)
  const theirs = await bea.startRunningSandbox()
  expect(await listNames(theirs)).toEqual([])
  expect((await lookUp(theirs, 'ONE')).status).toBe(404)
})

test(
  'a sandbox never sees secrets that are stored after its last start of a conversation',
  slow,
  async () => {
    const { sandbox_id } = await ann.createConversation()
    const sandbox = await ann.waitForSandbox(sandbox_id, 'RUNNING')
    const alone = await ann.startRunningSandbox()
    const before = await listNames(sandbox)
    expect(before).toEqual(expect.arrayContaining(['ONE', 'TWO', 'THREE']))
    // No conversation uses the provider; the owner who starts their own sandbox gives it everything.
    expect(before).not.toContain('github_token')
    expect(await listNames(alone)).toEqual([...before, 'github_token'])
    await saveSecret('LATER')
    for (const one of [sandbox, alone]) {
      expect(await listNames(one)).not.toContain('LATER')
      expect((await lookUp(one, 'LATER')).status).toBe(404)
    }
    await ann.createConversation({ sandbox_id })
    expect((await lookUp(sandbox, 'LATER')).status).toBe(200)
    expect((await lookUp(alone, 'LATER')).status).toBe(404)
  },
)
