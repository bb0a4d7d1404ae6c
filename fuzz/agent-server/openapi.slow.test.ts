import { execFileSync } from 'node:child_process'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { agentServerRoutes, buildOpenApi } from '@slipway/protocol'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startAgentServer } from '../../conformance/support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../../conformance/support/agent-server-api.ts'
import {
  contentType,
  listOperations,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  pathSegment,
  percentEncode,
  type RawResponse,
  ResponseChecker,
  sendRequest,
} from '../support/openapi-requests.ts'
import type { Json } from '../support/schema-arbitraries.ts'
import { drawTexts, leastValue, readText } from '../support/schema-cases.ts'
import { bodyArbitrary, filledPath, fuzzDirectory, headers, queryArbitrary } from './arbitraries.ts'
import { type ValidRequest, validRequests } from './valid-requests.ts'

/**
 * Random and malformed requests for every route of the OpenAPI document: no reply is a 500, and every reply
 * conforms to the document. `SLIPWAY_FUZZ_RUNS` requests a route; a failure prints seed and path to replay
 * it. First one valid request of each operation, which proves that the random ones reach real operations.
 */
const runs = Number(process.env.SLIPWAY_FUZZ_RUNS ?? 10)
// With the operations that the printed document leaves out.
const routes = Object.entries(agentServerRoutes).map(([name, route]) => [
  name,
  { ...route, unlisted: undefined },
])
const document: OpenApiDocument & object = JSON.parse(
  JSON.stringify(
    buildOpenApi(Object.fromEntries(routes), { title: 'All operations', version: '1', description: '' }),
  ),
)
const operations = listOperations(document)
const responseChecker = new ResponseChecker(document)

let stop: () => Promise<unknown>
let server: { readonly url: string; readonly headers: Readonly<Record<string, string>> }
let api: AgentServerApi
/** Existing values, by the name of a parameter. */
let knownValues: Readonly<Record<string, readonly string[]>> = {}
const repository = join(fuzzDirectory, 'repository')
let commit = ''

beforeAll(async () => {
  await createRepository()
  const env = {
    SLIPWAY_SESSION_API_KEY: 'fuzz-key',
    SLIPWAY_CHECKPOINTS: 'true',
    HOME: join(fuzzDirectory, 'home'),
  }
  const started = await startAgentServer(join(fuzzDirectory, 'data'), env)
  stop = started.stop
  server = { url: started.url, headers: { 'x-session-api-key': 'fuzz-key' } }
  api = new AgentServerApi(server)
  const log = toJsonLines(messageLine('a', '2026-01-01T00:00:00Z', 'Hello'), {
    id: 'b',
    timestamp: '2026-01-01',
    kind: 'PauseEvent',
  })
  const conversations = [await api.import(log), await api.import(''), await createConversationWithMessage()]
  await saveKnownModel()
  await sendOrThrow('PUT', '/api/settings/secrets', { name: 'KNOWN', value: 'x' })
  await sendOrThrow('POST', '/api/agent-profiles/known', {
    agent_kind: 'openhands',
    llm_profile_ref: 'known',
  })
  await sendOrThrow('POST', '/api/meta-profiles/known', {
    classifier_model: 'known',
    classes: [{ description: 'any', model: 'known' }],
  })
  await sendOrThrow('POST', '/api/settings/mcp/known', { command: 'true' })
  knownValues = {
    conversation_id: conversations,
    event_id: ['a', 'b'],
    name: ['known', 'KNOWN', 'fuzz-skill', 'fuzz-plugin'],
    extension_name: ['fuzz-app'],
    runtime_conversation_id: conversations,
    settings_key: ['known'],
    profile_id: [await agentProfileId()],
    sha: [commit],
    consent_id: [await consentId('known-hooks')],
  }
}, 60_000)
afterAll(async () => {
  await stop?.()
  await rm(fuzzDirectory, { recursive: true, force: true })
}, 60_000)

async function createRepository(): Promise<void> {
  const files = {
    'tracked.txt': 'one\n',
    'fuzz-skill/SKILL.md': '---\nname: fuzz-skill\ndescription: Of the fuzz.\n---\n\nDo it.\n',
    'fuzz-app/canvas-extension.json': JSON.stringify({
      ...{ schema_version: 1, name: 'fuzz-app', display_name: 'Fuzz', version: '0.1.0' },
      ...{ entrypoint: 'dist/index.js', icon: 'assets/icon.svg' },
      contributes: { pages: [{ id: 'fuzz', title: 'fuzz', path: '/fuzz' }] },
    }),
    'fuzz-app/dist/index.js': 'export {}\n',
    'fuzz-app/assets/icon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>\n',
    'fuzz-plugin/.plugin/plugin.json': '{ "name": "fuzz-plugin", "version": "1.0.0" }\n',
  }
  await mkdir(join(fuzzDirectory, 'home'), { recursive: true })
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(repository, name, '..'), { recursive: true })
    await writeFile(join(repository, name), text)
  }
  const git = (...args: string[]) =>
    execFileSync('git', [
      '-C',
      repository,
      '-c',
      'user.name=t',
      '-c',
      'user.email=t@localhost',
      ...args,
    ]).toString()
  for (const args of [
    ['init', '-q'],
    ['add', '.'],
    ['commit', '-qm', 'first'],
  ])
    git(...args)
  await writeFile(join(repository, 'tracked.txt'), 'two\n')
  commit = git('rev-parse', 'HEAD').trim()
}

async function sendOrThrow<T = unknown>(method: string, path: string, body: unknown): Promise<T> {
  const answer = await api.sendJson(method, path, body)
  if (answer.status > 299)
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body as T
}

async function saveKnownModel(): Promise<void> {
  await sendOrThrow('POST', '/api/profiles/known', { llm: { model: 'scripted/fuzz', script: [] } })
}

async function createConversationWithMessage(): Promise<string> {
  const agent = { llm: { model: 'scripted/fuzz', script: [{ text: 'Yes.' }] }, tools: [] }
  const request = { agent, workspace: { working_dir: join(fuzzDirectory, 'work') }, autotitle: false }
  const { id } = await sendOrThrow<{ id: string }>('POST', '/api/conversations', request)
  await sendOrThrow('POST', `/api/conversations/${id}/events`, { content: [{ type: 'text', text: 'Hello' }] })
  return id
}

/** The consent for a repository with a hook, below this name. */
async function consentId(name: string): Promise<string> {
  const directory = join(fuzzDirectory, name)
  const file = join(directory, '.openhands/hooks.json')
  await mkdir(join(file, '..'), { recursive: true })
  await writeFile(file, JSON.stringify({ stop: [{ hooks: [{ command: 'true' }] }] }))
  const { items } = await sendOrThrow<{ items: { id: string }[] }>('POST', '/api/repository-consents', {
    directory,
  })
  return String(items[0]?.id)
}

async function agentProfileId(): Promise<string> {
  const { body } = await api.requestJson<{ profiles: { id: string }[] }>('/api/agent-profiles')
  return String(body.profiles[0]?.id)
}

/** Sends a request unchanged and checks the reply against the document. */
async function send(one: (typeof operations)[number], valid: ValidRequest): Promise<RawResponse> {
  const { params = {}, query = {}, body, isUpload, isLog } = valid
  const path = Object.entries(params).reduce(
    (text, [name, value]) => text.replace(`{${name}}`, pathSegment(value)),
    one.path,
  )
  const search = Object.keys(query).length === 0 ? '' : `?${new URLSearchParams(query)}`
  const form = '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\nx\r\n--b--\r\n'
  const [type, content] = isUpload
    ? ['multipart/form-data; boundary=b', form]
    : isLog
      ? ['application/x-ndjson', toJsonLines(messageLine('v', '2026-01-01T00:00:00Z', 'Valid'))]
      : ['application/json', body === undefined ? undefined : JSON.stringify(body)]
  const answer = await sendRequest(server, one.method, `${path}${search}`, type, content, valid.headers)
  responseChecker.check(one.path, one.method, one.operation, answer)
  return answer
}

test('a valid request of each operation succeeds, and the reply conforms to the document', {
  timeout: 120_000,
}, async () => {
  const made: Record<string, string> = {}
  const conversation = await createConversationWithMessage()
  const page = await api.search(conversation, { kind: 'MessageEvent' })
  const things = {
    conversation,
    event: String(page.items[0]?.id),
    directory: join(fuzzDirectory, 'work'),
    repository,
    commit,
    agentProfileId: () => String(knownValues.profile_id?.[0]),
    connectionId: () => String(made.createProviderConnection),
    consentId: await consentId('valid-hooks'),
    bashEventId: () => String(made.startBashCommand),
    conversationBashEventId: () => String(made.startConversationBashCommand),
  }
  await mkdir(things.directory, { recursive: true })
  await cp(repository, join(things.directory, 'repository'), { recursive: true })
  const requests = validRequests(things)
  expect(Object.keys(requests).toSorted()).toEqual(
    operations.map(({ operation }) => operation.operationId).toSorted(),
  )
  for (const [operationId, request] of Object.entries(requests)) {
    const one = operations.find(({ operation }) => operation.operationId === operationId)
    if (one === undefined) throw new Error(`there is no ${operationId}`)
    const valid = typeof request === 'function' ? request() : request
    const { status, type, body } = await send(one, valid)
    const isRight = valid.status === undefined ? status >= 200 && status < 300 : status === valid.status
    expect([operationId, status, isRight ? '' : body]).toEqual([operationId, status, ''])
    if (type.startsWith('application/json') && body.startsWith('{'))
      made[operationId] = String(JSON.parse(body).id)
  }
})

/** The segment or pair of a parameter whose other values are plausible ones. */
function addressWith(path: string, operation: Operation, name: string, value: string): string {
  const textOf = (one: Parameter) =>
    one.name === name
      ? value
      : (knownValues[one.name]?.at(-1) ??
        (one.name === 'path' ? repository : String(leastValue(document, one.schema))))
  const parameters = operation.parameters ?? []
  const filled = parameters
    .filter((one) => one.in === 'path')
    .reduce((text, one) => text.replace(`{${one.name}}`, () => pathSegment(textOf(one))), path)
  const query = parameters
    .filter((one) => one.in === 'query' && (one.required || one.name === name))
    .map((one) => `${one.name}=${percentEncode(textOf(one))}`)
  return `${filled}?${query.join('&')}`
}

/**
 * The server refuses other paths than absolute ones with 400, and below a conversation with 422, as the wire
 * says.
 */
const isAbsolutePath = (leaf: Json) => leaf.pattern === '^/'
/** Texts that the server made, which no schema tells from others. */
const opaque = ['page_id', 'after']

test('a parameter that the document refuses is refused with its place, and others are not', {
  timeout: 300_000,
}, async () => {
  const differences: string[] = []
  let count = 0
  for (const { path, method, operation } of operations) {
    const [type = ''] = Object.keys(operation.requestBody?.content ?? {})
    for (const parameter of operation.parameters ?? []) {
      if (parameter.in === 'header' || opaque.includes(parameter.name)) continue
      const { name, schema = {} } = parameter
      const leaf: Json = 'items' in schema && typeof schema.items === 'object' ? { ...schema.items } : schema
      count += 1
      for (const text of drawTexts(document, leaf, count)) {
        if (text === '') continue
        const isAllowed = responseChecker.accepts(leaf, readText(document, leaf, text))
        // Files are written only below the folder of this run, and what others need stays.
        if (isAllowed && (name === 'path' || method !== 'GET')) continue
        const answer = await sendRequest(
          server,
          method,
          addressWith(path, operation, name, text),
          type,
          undefined,
        )
        const isNamed =
          namesParameter(answer, name) || (isAbsolutePath(leaf) && [400, 422].includes(answer.status))
        const difference = `${operation.operationId} ${name}=${JSON.stringify(text)}: ${answer.status}`
        if (answer.status === 500 || isNamed === isAllowed) differences.push(difference)
      }
    }
  }
  expect(differences).toEqual([])
  expect(count).toBeGreaterThan(200)
})

/** Whether a refusal of validation is about a parameter. */
function namesParameter({ status, body }: RawResponse, name: string): boolean {
  if (status !== 422) return false
  const { detail } = JSON.parse(body)
  return Array.isArray(detail) && detail.some(({ loc }) => loc[1] === name && loc[0] !== 'body')
}

/** Other requests still need these. */
const namesKnownValue = (path: string) =>
  path.split('/').some((step) => Object.values(knownValues).some((values) => values.includes(step)))
const jsonMostly = fc.oneof(
  { weight: 4, arbitrary: fc.constant('application/json') },
  { weight: 1, arbitrary: contentType },
)

describe.each(operations.map((one) => [`${one.method} ${one.path}`, one] as const))(
  '%s',
  (_, { path, method, operation }) => {
    test('replies to random and malformed requests conform to the document', {
      timeout: 120_000,
    }, async () => {
      // Earlier requests may have given it an address that nothing can call, and a run that fails is a 500.
      if (path.startsWith('/v1/')) await saveKnownModel()
      const type = operation.requestBody?.content['application/json'] === undefined ? contentType : jsonMostly
      await fc.assert(
        fc.asyncProperty(
          fc.record({
            path: filledPath(path, (name) => knownValues[name] ?? []),
            query: queryArbitrary(operation),
            type,
            content: bodyArbitrary(document, operation),
            headers,
          }),
          async (given) => {
            if (method === 'DELETE' && namesKnownValue(given.path)) return
            const target = given.query === '' ? given.path : `${given.path}?${given.query}`
            const answer = await sendRequest(server, method, target, given.type, given.content, given.headers)
            // A random segment may turn one path into another existing one; then only the promise about 500
            // holds.
            const isTail = path.endsWith('/{path}')
            if (!isTail && given.path.split('/').length !== path.split('/').length) {
              expect(answer.status).not.toBe(500)
              return
            }
            const route = responseChecker.matchRoute(given.path, path)
            const found = responseChecker.findOperation(given.path, path, method) ?? operation
            responseChecker.check(route, method, found, answer)
          },
        ),
        { numRuns: runs },
      )
    })
  },
)
