import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  administrator,
  createUser,
  openSandboxServer,
  type SandboxServerFixture,
  textModel,
} from '../../conformance/support/sandbox-server/user.ts'
import document from '../../openapi/sandbox-server.json' with { type: 'json' }
import {
  contentType,
  listOperations,
  malformedBody,
  oddText,
  pathSegment,
  queryArbitrary,
  ResponseChecker,
  sendRequest,
} from '../support/openapi-requests.ts'
import { schemaValues } from '../support/schema-arbitraries.ts'

/**
 * Random and malformed requests for every route of the sandbox server's OpenAPI document: no reply is a 500,
 * and every reply conforms to the document. `SLIPWAY_FUZZ_RUNS` requests a route; a failure prints seed and
 * path to replay it. No request leaves this machine: sandboxes have no network, and those of the default spec
 * do not start.
 */
const runs = Number(process.env.SLIPWAY_FUZZ_RUNS ?? 10)
// Webhooks last: they store events of any shape, which no reply with events conforms to afterwards.
const operations = listOperations(document).toSorted((a, b) => Number(isWebhook(a)) - Number(isWebhook(b)))
const responseChecker = new ResponseChecker(document)

function isWebhook({ path }: { readonly path: string }): boolean {
  return path.includes('/webhooks/')
}

let fixture: SandboxServerFixture
let server: { readonly url: string; readonly headers: Readonly<Record<string, string>> }
/** Existing values, by the name of a parameter or a member. None of them is deleted. */
let knownValues: Readonly<Record<string, readonly string[]>> = {}
beforeAll(async () => {
  const specs = [
    { id: 'failing', command: ['/nothing/that/could/be/started'], network: 'none' },
    { id: 'apart', network: 'none' },
  ]
  fixture = await openSandboxServer({
    env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs), SLIPWAY_MAX_SANDBOXES: '3' },
  })
  const admin = administrator(fixture.server)
  const { id: sandbox_id, session_api_key } = await admin.startRunningSandbox('?sandbox_spec_id=apart')
  await admin.setModel(textModel)
  const task = (
    await admin.startConversation({
      sandbox_id,
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    })
  ).at(-1)
  expect(task).toMatchObject({ status: 'READY' })
  const ann = await createUser(fixture.server, { name: 'Ann' })
  const org = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', { name: 'Org' })
  await admin.requestOrThrow('POST', '/api/v1/secrets', { name: 'KNOWN', value: 'x' })
  await admin.requestOrThrow('POST', '/api/v1/settings/profiles/known', { llm: textModel })
  const conversation = String(task?.app_conversation_id)
  knownValues = {
    sandbox_id: [sandbox_id],
    conversation_id: [conversation],
    parent_conversation_id: [conversation],
    target: [conversation, `task-${task?.id}`],
    id: [sandbox_id, conversation],
    ids: [conversation, String(task?.id)],
    user_id: [ann.id],
    org_id: [org.id],
    name: ['KNOWN', 'known'],
    profile_name: ['known'],
    llm_profile: ['known'],
    sandbox_spec_id: ['failing', 'apart'],
  }
  const headers = { authorization: `Bearer ${admin.key}`, 'x-session-api-key': String(session_api_key) }
  server = { url: fixture.server.url, headers }
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 180_000)

/** One of the known values, read when the arbitrary is drawn. */
function knownValueOr(name: string, other: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const drawn = fc.nat(99).map((n) => {
    const all = knownValues[name] ?? []
    return all[n % all.length] ?? 'unknown'
  })
  return fc.oneof({ weight: 2, arbitrary: drawn }, { weight: 1, arbitrary: other })
}

function filledPath(path: string): fc.Arbitrary<string> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((m) => String(m[1]))
  const other = fc.oneof(fc.constantFrom('search', 'count', 'me'), fc.uuid(), oddText.map(pathSegment))
  return fc
    .tuple(...names.map((name) => knownValueOr(name, other)))
    .map((values) => names.reduce((text, name, i) => text.replace(`{${name}}`, () => values[i] ?? ''), path))
}

/** Members that name an object or a remote address. */
const memberArbitraries: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  ...Object.fromEntries(
    ['conversation_id', 'parent_conversation_id'].map((name) => [name, knownValueOr(name, fc.uuid())]),
  ),
  ...Object.fromEntries(
    ['sandbox_id', 'profile_name', 'llm_profile', 'org_id'].map((name) => [
      name,
      knownValueOr(name, oddText),
    ]),
  ),
  sandbox_spec_id: fc.constantFrom('failing', 'x', null),
  selected_repository: fc.constantFrom('file:///nothing/there', 'a b', '', '../x', null),
  llm: fc.oneof(
    fc.jsonValue(),
    fc.constant(textModel),
    fc.record({ model: fc.string(), base_url: fc.constant('http://127.0.0.1:9/v1'), api_key: fc.string() }),
  ),
  is_admin: fc.boolean(),
}

function bodyArbitrary(content: Readonly<Record<string, { readonly schema?: unknown }>> | undefined) {
  const schema = content?.['application/json']?.schema
  const described = schemaValues(document, schema, memberArbitraries).map((value) => JSON.stringify(value))
  const events = fc.array(
    fc.record(
      {
        id: fc.oneof(fc.uuid(), fc.string()),
        timestamp: fc.oneof(fc.constant('2026-01-01T00:00:00Z'), fc.string(), fc.integer()),
        kind: fc.constantFrom('PauseEvent', 'MessageEvent', 'x', ''),
        source: fc.constantFrom('user', 'agent', 1),
      },
      { requiredKeys: [] },
    ),
    { maxLength: 3 },
  )
  return fc.oneof(
    { weight: 5, arbitrary: described },
    { weight: 1, arbitrary: events.map((value) => JSON.stringify(value)) },
    { weight: 3, arbitrary: malformedBody },
  )
}

const jsonMostly = fc.oneof({ weight: 3, arbitrary: fc.constant('application/json') }, contentType)

function namesKnownValue(path: string): boolean {
  return Object.values(knownValues).some((ids) => ids.some((id) => path.includes(id)))
}

describe.each(operations.map((one) => [`${one.method} ${one.path}`, one] as const))(
  '%s',
  (_, { path, method, operation }) => {
    test('replies to random and malformed requests conform to the document', {
      timeout: 120_000,
    }, async () => {
      await fc.assert(
        fc.asyncProperty(
          filledPath(path),
          queryArbitrary(operation.parameters ?? [], (name, value) =>
            value.length % 2 === 0 ? (knownValues[name]?.[0] ?? value) : value,
          ),
          jsonMostly,
          bodyArbitrary(operation.requestBody?.content),
          async (path_, query_, type, content) => {
            if (method === 'DELETE' && namesKnownValue(path_)) return
            const answer = await sendRequest(
              server,
              method,
              query_ === '' ? path_ : `${path_}?${query_}`,
              type,
              content,
            )
            if (path_.split('/').length !== path.split('/').length) {
              expect(answer.status).not.toBe(500)
              return
            }
            const route = responseChecker.matchRoute(path_, path)
            const found = responseChecker.findOperation(path_, path, method) ?? operation
            responseChecker.check(route, method, found, answer)
          },
        ),
        { numRuns: runs },
      )
    })
  },
)

test('no relayed request answers 500', { timeout: 120_000 }, async () => {
  const method = fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE')
  const name = fc.oneof(fc.constantFrom('agent', 'worker_1', 'x', ''), oddText.map(pathSegment))
  const rest = fc.array(
    fc.oneof(fc.constantFrom('api', 'conversations', 'alive', '..'), oddText.map(pathSegment)),
    {
      maxLength: 4,
    },
  )
  await fc.assert(
    fc.asyncProperty(
      method,
      name,
      rest,
      contentType,
      malformedBody,
      async (method_, name_, rest_, type, content) => {
        const path = `/sandboxes/${knownValues.sandbox_id?.[0]}/${name_}/${rest_.join('/')}`
        expect((await sendRequest(server, method_, path, type, content)).status).not.toBe(500)
      },
    ),
    { numRuns: runs },
  )
})

test('afterwards all objects still exist, and the server has logged no internal error', async () => {
  const admin = administrator(fixture.server)
  expect((await admin.getConversation(String(knownValues.conversation_id?.[0])))?.id).toBe(
    knownValues.conversation_id?.[0],
  )
  expect((await admin.getSandbox(String(knownValues.sandbox_id?.[0])))?.id).toBe(knownValues.sandbox_id?.[0])
  expect(fixture.server.output()).not.toMatch(/"level":"error"/)
  expect((await admin.requestJson('GET', `/api/v1/app-conversations/${randomUUID()}/download`)).status).toBe(
    404,
  )
})
