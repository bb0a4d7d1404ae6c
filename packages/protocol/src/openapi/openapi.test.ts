import { expect, test } from 'vitest'
import { agentServerRoutes } from '../agent-server/routes.ts'
import type { Route } from '../core/route.ts'
import { eventKinds } from '../events/kinds.ts'
import { sandboxServerRoutes } from '../sandbox-server/routes.ts'
import { agentServerOpenApi, buildOpenApi, sandboxServerOpenApi } from './openapi.ts'

type Json = Record<string, unknown>
interface Operation extends Json {
  readonly operationId: string
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: Json }[]
  readonly responses: Json
}

const document = JSON.parse(JSON.stringify(agentServerOpenApi)) as {
  openapi: string
  info: { version: string; description: string }
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Json> }
}
const { schemas } = document.components
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
)

test('the document is OpenAPI 3.1 of the interface 0.1.0 and asks for no security scheme', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(document.info.version).toBe('0.1.0')
  expect(document.info.description).toContain('X-Session-API-Key')
  expect(document).not.toHaveProperty('security')
  expect(document).not.toHaveProperty('servers')
  expect(document.components).not.toHaveProperty('securitySchemes')
  expect(document).toHaveProperty('x-slipway-opt-ins')
})

test('each route is one operation, those for control planes left out', () => {
  const routes: Readonly<Record<string, Route>> = agentServerRoutes
  const unlisted = Object.keys(routes).filter((name) => routes[name]?.unlisted)
  expect(unlisted).toEqual(['prepareForSandboxPause', 'activateCredentialBinding'])
  expect([...operations.map(({ operation }) => operation.operationId), ...unlisted].sort()).toEqual(
    Object.keys(agentServerRoutes).sort(),
  )
})

test('each reference leads to a component', () => {
  const references = JSON.stringify(document).match(/"#\/[^"]*"/g) ?? []
  expect(references.length).toBeGreaterThan(100)
  for (const reference of new Set(references)) {
    expect(Object.keys(schemas)).toContain(reference.slice('"#/components/schemas/'.length, -1))
  }
})

test.each(['Event', 'Action', 'Observation', 'ToolDefinition'])('%s is told apart by kind', (name) => {
  const { oneOf, discriminator } = schemas[name] as unknown as {
    oneOf: { $ref: string }[]
    discriminator: { propertyName: string; mapping: Record<string, string> }
  }
  expect(discriminator.propertyName).toBe('kind')
  expect(Object.values(discriminator.mapping)).toEqual(oneOf.map((one) => one.$ref))
  for (const [kind, reference] of Object.entries(discriminator.mapping)) {
    expect(reference).toBe(`#/components/schemas/${kind}`)
    expect(schemas[kind]).toMatchObject({ properties: { kind: { const: kind } } })
  }
})

test('a union is told apart by the values of its tag, whatever its members are called', () => {
  expect(schemas.AgentProfile).toMatchObject({
    discriminator: {
      propertyName: 'agent_kind',
      mapping: {
        openhands: '#/components/schemas/OpenHandsAgentProfile',
        acp: '#/components/schemas/ACPAgentProfile',
      },
    },
  })
  expect(schemas.OpenHandsAgentProfile?.required).toEqual(['agent_kind', 'llm_profile_ref'])
})

test('every kind of event is closed, and what has a default is not required', () => {
  for (const kind of eventKinds) expect(schemas[kind]).toMatchObject({ additionalProperties: false })
  expect(schemas.PauseEvent?.required).toEqual(['kind'])
  expect(schemas.CriticResult?.required).toEqual(['score', 'message'])
  expect(schemas.EventPage?.required).toEqual(['items'])
})

test('every operation names its path parameters and its refusals', () => {
  for (const { path, operation } of operations) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const declared = (operation.parameters ?? []).filter((one) => one.in === 'path').map((one) => one.name)
    expect(declared).toEqual(names)
    const isOpen = ['health', 'console'].includes((operation.tags as string[])[0] ?? '')
    const isKeyless = isOpen || operation.operationId === 'getInit'
    expect(Object.keys(operation.responses)).toEqual(
      expect.arrayContaining(['422', 'default', ...(isKeyless ? [] : ['401'])]),
    )
    if (names.length > 0) expect(operation.responses).toHaveProperty('404')
  }
})

test('the parameters of event search are those of the specification', () => {
  const search = document.paths['/api/conversations/{conversation_id}/events/search']?.get
  const parameters = search?.parameters?.filter((one) => one.in !== 'header')
  expect(parameters?.map((one) => one.name)).toEqual([
    'conversation_id',
    'kind',
    'source',
    'body',
    'timestamp__gte',
    'timestamp__lt',
    'page_id',
    'limit',
    'sort_order',
  ])
  expect(search?.parameters?.find((one) => one.name === 'conversation_id')?.schema).toEqual({
    type: 'string',
    format: 'uuid',
  })
  expect(search?.parameters?.find((one) => one.name === 'limit')?.schema).toEqual({
    type: 'integer',
    exclusiveMinimum: 0,
    maximum: 100,
    default: 100,
  })
})

test('a body that may be left out is not required', () => {
  const events = document.paths['/api/conversations/{conversation_id}/events']
  expect(events?.get?.requestBody).toMatchObject({ required: false })
  expect(events?.post?.requestBody).toMatchObject({ required: true })
})

test('an upload is a form with a binary file, and may be too large or of another type', () => {
  const route = {
    method: 'POST',
    path: '/x',
    tag: 'test',
    summary: 'x',
    upload: true,
    responses: {},
  } as const
  const { paths } = buildOpenApi({ put: route }, { title: 't', version: '1', description: 'd' })
  const form = {
    type: 'object',
    properties: { file: { type: 'string', format: 'binary' } },
    required: ['file'],
  }
  expect(paths['/x']).toMatchObject({
    post: {
      requestBody: { required: true, content: { 'multipart/form-data': { schema: form } } },
      responses: { 413: {}, 415: {}, 422: {} },
    },
  })
})

test('headers that operations read and answer are declared', () => {
  const search = document.paths['/api/conversations/{conversation_id}/events/search']?.get
  expect(search?.parameters).toContainEqual(expect.objectContaining({ in: 'header', name: 'If-None-Match' }))
  expect(search?.responses).toMatchObject({
    200: { headers: { ETag: {} } },
    304: { description: expect.any(String) },
  })
  const declared = operations.flatMap(({ operation }) =>
    (operation.parameters ?? []).filter((one) => one.in === 'header').map(({ name }) => name),
  )
  for (const name of [
    'Idempotency-Key',
    'Last-Event-ID',
    'X-Slipway-Wire',
    'X-Expose-Secrets',
    'X-Init-API-Key',
  ])
    expect(declared).toContain(name)
})

test('the document of the sandbox server says how callers show who they are, and lists its own opt-ins only', () => {
  const sandbox = JSON.parse(JSON.stringify(sandboxServerOpenApi))
  const schemes = Object.keys(sandbox.components.securitySchemes)
  expect(sandbox.security.flatMap((one: object) => Object.keys(one)).sort()).toEqual(schemes.sort())
  expect(sandbox.paths['/alive'].get.security).toEqual([])
  expect(Object.keys(sandbox['x-slipway-opt-ins'])).toEqual(['note'])
})

test('the requests that people try first have an example, which their schema accepts', () => {
  const routes: Readonly<Record<string, Route>> = { ...agentServerRoutes, ...sandboxServerRoutes }
  const examples = Object.entries(routes).filter(([, { example }]) => example !== undefined)
  expect(examples.map(([name]) => name)).toEqual(
    expect.arrayContaining(['createConversation', 'sendMessage', 'startAppConversation', 'createUser']),
  )
  for (const [name, { body, example }] of examples)
    expect(body?.safeParse(example).error, name).toBeUndefined()
  const text = JSON.stringify(agentServerOpenApi)
  expect(text).toContain('"example":{"content":[{"type":"text","text":"Now fix what you found"}],"run":true}')
})

test.each([
  ['agent server', agentServerOpenApi],
  ['sandbox server', sandboxServerOpenApi],
])('patterns and defaults of the %s are ones that validators and generators know', (_, document) => {
  const text = JSON.stringify(document)
  expect(text.match(/\\\\[pP]\{/g)).toBeNull()
  const faults: unknown[] = []
  JSON.parse(text, (_name, value) => {
    const isUnion = Array.isArray(value?.anyOf)
    if (
      isUnion &&
      typeof value.default === 'object' &&
      value.default !== null &&
      !Array.isArray(value.default)
    )
      faults.push(value)
    return value
  })
  expect(faults).toEqual([])
})

test('what the server refuses is in the schemas: paths that are not absolute, tags without a name, empty titles', () => {
  const { paths, components } = JSON.parse(JSON.stringify(agentServerOpenApi))
  const parameter = (path: string, name: string) =>
    paths[path].get.parameters.find((one: { name: string }) => one.name === name).schema
  expect(parameter('/api/file/download', 'path').pattern).toBe('^/')
  // A slash that an address lost is added.
  expect(parameter('/api/git/changes', 'path')).not.toHaveProperty('pattern')
  expect(parameter('/api/conversations/search', 'tag').items.pattern).toBe('^[a-z0-9]+(?:[:=]|$)')
  const [title] = components.schemas.UpdateConversationRequest.properties.title.anyOf
  expect(title).toMatchObject({ minLength: 1, maxLength: 200 })
})

test('a tag that may be absent discriminates nothing, members of lists of names are properties, names have their rules', () => {
  expect(JSON.stringify(document)).not.toContain('"undefined"')
  const { properties } = schemas.ConversationInfo as { properties: Record<string, Json> }
  expect(properties.limits).toMatchObject({
    properties: { run: { properties: { used: { properties: { cost: { type: 'number' } } } } } },
  })
  const { properties: start } = schemas.StartConversationRequest as { properties: Record<string, Json> }
  expect(JSON.stringify(start.tags)).toContain('"propertyNames":{"type":"string","pattern":"^[a-z0-9]+$"}')
})

test('the description of a pause says what becomes of an idle conversation', () => {
  const pause = document.paths['/api/conversations/{conversation_id}/pause']?.post
  expect(pause?.description).toContain('An idle conversation is paused too, with a PauseEvent')
})
