import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Api, lines, message } from '../conformance/api.ts'
import { openServer, type TestServer } from '../conformance/server.ts'
import document from '../openapi/agent-server.json' with { type: 'json' }
import { ask, Conformance, contentType, oddText, operationsOf, query, segment, wildBody } from './requests.ts'

/**
 * Random and malformed requests for every route of the OpenAPI document: nothing answers 500, and every answer is one
 * that the document describes. `SLIPWAY_FUZZ_RUNS` requests a route; a failure prints seed and path to replay it.
 */
const runs = Number(process.env.SLIPWAY_FUZZ_RUNS ?? 50)

const operations = operationsOf(document)
const conformance = new Conformance(document)

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

const body = fc.oneof(
  { weight: 2, arbitrary: messageLike.map((value) => JSON.stringify(value)) },
  {
    weight: 1,
    arbitrary: fc
      .array(messageLike, { maxLength: 3 })
      .map((values) => values.map((value) => JSON.stringify(value)).join('\n')),
  },
  { weight: 5, arbitrary: wildBody },
)

describe.each(operations.map((one) => [`${one.method} ${one.path}`, one] as const))(
  '%s',
  (_, { path, method, operation }) => {
    test('answers random and malformed requests as its document says', { timeout: 60_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(
          filled(path),
          query(operation.parameters ?? [], (name, value) => (name === 'path' ? harmless(value) : value)),
          contentType,
          body,
          async (path_, query_, type, content) => {
            const isDeletion = method === 'DELETE' && known.some((id) => path_.includes(id))
            if (isDeletion) return
            const answer = await ask(
              server,
              method,
              query_ === '' ? path_ : `${path_}?${query_}`,
              type,
              content,
            )
            // A segment may turn one path into another one that exists; then only the promise about 500 is ours.
            if (path_.split('/').length !== path.split('/').length) expect(answer.status).toBeLessThan(500)
            else {
              const route = conformance.routeOf(path_, path)
              const found = conformance.operationOf(path_, path, method) ?? operation
              conformance.check(route, method, found, answer)
            }
          },
        ),
        { numRuns: runs },
      )
    })
  },
)
