import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Api, lines, message } from '../conformance/api.ts'
import { openServer, type TestServer } from '../conformance/server.ts'
import document from '../openapi/agent-server.json' with { type: 'json' }

/**
 * Random and malformed requests for every route of the OpenAPI document: nothing answers 500, and every answer is one
 * that the document describes. `SLIPWAY_FUZZ_RUNS` requests a route; a failure prints seed and path to replay it.
 */
const runs = Number(process.env.SLIPWAY_FUZZ_RUNS ?? 50)

interface Parameter {
  readonly name: string
  readonly in: string
  readonly schema?: { readonly enum?: readonly string[]; readonly type?: string }
}
interface Operation {
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>
}

const methods = ['get', 'post', 'put', 'patch', 'delete']
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([method]) => methods.includes(method))
    .map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation: operation as Operation,
    })),
)

const ajv = new Ajv2020({ strict: false, allErrors: false })
addFormats.default(ajv)
ajv.addSchema(document, 'doc')

let server: TestServer
let known: string[] = []
beforeAll(async () => {
  server = await openServer()
  const api = new Api(server)
  const log = lines(message('a', '2026-01-01T00:00:00Z', 'Hello'), {
    id: 'b',
    timestamp: '2026-01-01',
    kind: 'PauseEvent',
  })
  known = [await api.import(log), await api.import('')]
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await rm(files, { recursive: true, force: true })
})

const oddText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(
    '',
    '0',
    '-1',
    '1e9',
    '99999999999999999999',
    'null',
    'true',
    '%',
    '%zz',
    '%00',
    '../..',
    '..%2f',
    '\u0000',
    '\ud800',
    '😀',
    'a'.repeat(3000),
  ),
  fc.constantFrom(
    '2026-01-01',
    '2026-01-01T00:00:00+02:00',
    '0000-01-01T00:00:00Z',
    '9999-12-31T23:59:60Z',
    'TIMESTAMP',
    'idle',
    'keep',
  ),
)

function query(parameters: readonly Parameter[]): fc.Arbitrary<string> {
  const one = fc.oneof(
    ...parameters
      .filter((parameter) => parameter.in === 'query')
      .map(({ name, schema }) => {
        const plausible = schema?.enum
          ? fc.constantFrom(...schema.enum)
          : fc.oneof(fc.integer({ min: -2, max: 102 }).map(String), fc.string())
        const value = fc.oneof(plausible, oddText)
        return fc.tuple(fc.constant(name), name === 'path' ? value.map(harmless) : value)
      }),
    fc.tuple(oddText, oddText),
  )
  const encoded = fc
    .array(one, { maxLength: 4 })
    .map((pairs) => pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&'))
  const raw = fc.string({ maxLength: 30 }).map((text) => text.replaceAll(/[^!-~]|#/g, ''))
  return fc.oneof({ weight: 5, arbitrary: encoded }, { weight: 1, arbitrary: raw })
}

/** Files are written, and the server stops nobody from that: absolute paths are those of a directory of this test. */
const files = join(tmpdir(), `slipway-fuzz-${randomUUID()}`)

function harmless(path: string): string {
  // From there nothing leads up; half of the others is made absolute, too, so that something is there.
  const inside = path.replaceAll('..', '').replace(/^\/+/, '')
  return path.startsWith('/') || path.length % 2 === 0 ? `${files}/${inside}` : path
}

function filled(path: string): fc.Arbitrary<string> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((m) => String(m[1]))
  const value = (name: string) =>
    name === 'conversation_id'
      ? fc.oneof(
          fc.nat(1).map((i) => String(known[i])),
          fc.constant(randomUUID()),
          oddText.map(segment),
        )
      : name === 'path'
        ? oddText.map((text) => segment(harmless(`/${text}`)))
        : fc.oneof(fc.constantFrom('a', 'b', 'search', 'count'), oddText.map(segment))
  return fc
    .tuple(...names.map(value))
    .map((values) => names.reduce((text, name, i) => text.replace(`{${name}}`, values[i] ?? ''), path))
}

function segment(text: string): string {
  return encode(text) || 'x'
}

/** Percent-encodes, a lone surrogate as the bytes that some clients send for it. */
function encode(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : '%ED%A0%80'
}

/** Nobody listens there. */
const llm = { model: 'm', base_url: 'http://127.0.0.1:9/v1', num_retries: 0 }
const workspace = join(tmpdir(), 'slipway-fuzz-workspace')

const messageLike = fc.record(
  {
    role: fc.constantFrom('user', 'assistant', 'x'),
    content: fc.oneof(
      fc.string(),
      fc.array(
        fc.record({ type: fc.constantFrom('text', 'image', 'x'), text: fc.string() }, { requiredKeys: [] }),
      ),
      fc.jsonValue(),
    ),
    run: fc.oneof(fc.boolean(), fc.string()),
    title: fc.string(),
    tags: fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
    agent: fc.oneof(fc.jsonValue(), fc.constant({ llm })),
    workspace: fc.oneof(fc.jsonValue(), fc.constant({ working_dir: workspace })),
    conversation_id: fc.oneof(fc.string(), fc.uuid()),
    kind: fc.constantFrom('PauseEvent', 'MessageEvent', 'x'),
    // Commands are run as they are, so none is made up here.
    command: fc.constantFrom('true', 'echo x', 'echo x >&2; exit 3', 'kill -9 $$', '\u0000', ''),
    cwd: fc.constantFrom(tmpdir(), '/nothing-there', '', '\u0000', '\ud800'),
    timeout: fc.constantFrom(1, 5, 300, 0, 1e15, 'x', null),
    path: oddText.map(harmless),
    project_dir: fc.oneof(oddText.map(harmless), fc.constant(workspace), fc.constant(null)),
    llm: fc.oneof(fc.jsonValue(), fc.constant(llm)),
    __proto__: fc.jsonValue(),
  },
  { requiredKeys: [] },
)

const form = '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\ncontent\r\n--b--\r\n'

const body = fc.oneof(
  fc.constant(undefined),
  messageLike.map((value) => JSON.stringify(value)),
  fc
    .array(messageLike, { maxLength: 3 })
    .map((values) => values.map((value) => JSON.stringify(value)).join('\n')),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.string({ unit: 'binary', maxLength: 50 }),
  fc.constantFrom(form, form.slice(0, -8), form.replace('name="file"', 'name="x"'), '--b--'),
  fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(
    '{',
    '[',
    '{"a":',
    '{"__proto__":{"x":1}}',
    `${'['.repeat(20_000)}`,
    '\ufeff{}',
    '{"a":1e999}',
  ),
)
const contentType = fc.constantFrom(
  'application/json',
  'application/json; charset=utf-8',
  'application/x-ndjson',
  'text/plain',
  'multipart/form-data',
  'multipart/form-data; boundary=b',
  '',
  'application/json;;',
)

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string
}

/** Streams that do not end by themselves are cut after a moment: their head has been seen. */
async function ask(
  method: string,
  path: string,
  type: string,
  content: string | Buffer | undefined,
): Promise<Answer> {
  const url = new URL(server.url)
  const length = content === undefined ? {} : { 'content-length': Buffer.byteLength(content) }
  const headers = { ...server.headers, ...length, ...(type === '' ? {} : { 'content-type': type }) }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const call = request({ host: url.hostname, port: url.port, method, path, headers }, resolve)
    call.on('error', reject)
    call.end(content)
  })
  const answer = { status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '' }
  if (answer.type.startsWith('text/event-stream')) {
    response.destroy()
    return { ...answer, body: '' }
  }
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return { ...answer, body: Buffer.concat(chunks).toString() }
}

function conforms(path: string, method: string, operation: Operation, answer: Answer): void {
  expect(answer.status, answer.body).toBeLessThan(500)
  const described = answer.status in operation.responses ? String(answer.status) : 'default'
  const content = operation.responses[described]?.content
  expect(operation.responses, `status ${answer.status} is not described`).toHaveProperty(described)
  if (content === undefined) return
  const type = Object.keys(content).find((name) => answer.type.startsWith(name))
  expect(type, `${answer.status} has content type ${answer.type}`).toBeDefined()
  if (type !== 'application/json') return
  const place = ['paths', path, method.toLowerCase(), 'responses', described, 'content', type, 'schema']
  const pointer = place
    .map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1'))
    .map(encodeURIComponent)
    .join('/')
  const validate = ajv.getSchema(`doc#/${pointer}`)
  if (validate === undefined) throw new Error(`no schema at ${pointer}`)
  const isValid = validate(JSON.parse(answer.body))
  expect(isValid, `${JSON.stringify(validate.errors)} in ${answer.body.slice(0, 500)}`).toBe(true)
}

describe.each(operations.map((one) => [`${one.method} ${one.path}`, one] as const))(
  '%s',
  (_, { path, method, operation }) => {
    test('answers random and malformed requests as its document says', { timeout: 60_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(
          filled(path),
          query(operation.parameters ?? []),
          contentType,
          body,
          async (path_, query_, type, content) => {
            const isDeletion = method === 'DELETE' && known.some((id) => path_.includes(id))
            if (isDeletion) return
            const answer = await ask(method, query_ === '' ? path_ : `${path_}?${query_}`, type, content)
            // A segment may turn one path into another one that exists; then only the promise about 500 is ours.
            if (path_.split('/').length !== path.split('/').length) expect(answer.status).toBeLessThan(500)
            else conforms(routeOf(path_, path), method, operationOf(path_, path, method) ?? operation, answer)
          },
        ),
        { numRuns: runs },
      )
    })
  },
)

/** Literal paths win over parameters: `/api/conversations/search` is not the conversation named search. */
function routeOf(filledPath: string, template: string): string {
  const values = filledPath.split('/')
  const candidates = template.split('/').map((_, i) =>
    template
      .split('/')
      .with(i, values[i] ?? '')
      .join('/'),
  )
  return candidates.find((path) => path !== template && path in document.paths) ?? template
}

function operationOf(filledPath: string, template: string, method: string): Operation | undefined {
  const item = (document.paths as Record<string, Record<string, Operation> | undefined>)[
    routeOf(filledPath, template)
  ]
  return item?.[method.toLowerCase()]
}
