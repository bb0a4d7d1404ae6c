import { type IncomingMessage, request } from 'node:http'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { expect } from 'vitest'

/** Random requests from an OpenAPI document, and a check of their replies against it. */

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema?: { readonly enum?: readonly string[]; readonly type?: string; readonly items?: unknown }
}
export interface Operation {
  readonly operationId?: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: unknown }>> }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>
}
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}
export interface RawResponse {
  readonly status: number
  readonly type: string
  readonly body: string
}

const methods = ['get', 'post', 'put', 'patch', 'delete']

/** Every operation of a document. */
export function listOperations(document: OpenApiDocument) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, operation]) => ({
        path,
        method: method.toUpperCase(),
        operation: operation as Operation,
      })),
  )
}

export const oddText = fc.oneof(
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

/** A query of known names and others. `shape` changes the value of a parameter. */
export function queryArbitrary(
  parameters: readonly Parameter[],
  mapValue: (name: string, value: string) => string = (_, value) => value,
): fc.Arbitrary<string> {
  const one = fc.oneof(
    ...parameters
      .filter((parameter) => parameter.in === 'query')
      .map(({ name, schema }) => {
        const plausible = schema?.enum
          ? fc.constantFrom(...schema.enum)
          : fc.oneof(fc.integer({ min: -2, max: 102 }).map(String), fc.string())
        const value = fc.oneof(plausible, oddText)
        return fc.tuple(
          fc.constant(name),
          value.map((text) => mapValue(name, text)),
        )
      }),
    fc.tuple(oddText, oddText),
  )
  const encoded = fc
    .array(one, { maxLength: 4 })
    .map((pairs) => pairs.map(([name, value]) => `${percentEncode(name)}=${percentEncode(value)}`).join('&'))
  const raw = fc.string({ maxLength: 30 }).map((text) => text.replaceAll(/[^!-~]|#/g, ''))
  return fc.oneof({ weight: 5, arbitrary: encoded }, { weight: 1, arbitrary: raw })
}

export function pathSegment(text: string): string {
  return percentEncode(text) || 'x'
}

/** Percent-encodes, a lone surrogate as the bytes that some clients send for it. */
export function percentEncode(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : '%ED%A0%80'
}

const multipartBody =
  '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\ncontent\r\n--b--\r\n'

/** Bodies that conform to no schema. */
export const malformedBody = fc.oneof(
  fc.constant(undefined),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.string({ unit: 'binary', maxLength: 50 }),
  fc.constantFrom(
    multipartBody,
    multipartBody.slice(0, -8),
    multipartBody.replace('name="file"', 'name="x"'),
    '--b--',
  ),
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
export const contentType = fc.constantFrom(
  'application/json',
  'application/json; charset=utf-8',
  'application/x-ndjson',
  'text/plain',
  'multipart/form-data',
  'multipart/form-data; boundary=b',
  '',
  'application/json;;',
)

/** Endless streams are cut after a moment: their status and headers are enough. */
export async function sendRequest(
  server: { readonly url: string; readonly headers: Readonly<Record<string, string>> },
  method: string,
  path: string,
  type: string,
  content: string | Buffer | undefined,
  more: Readonly<Record<string, string>> = {},
): Promise<RawResponse> {
  const url = new URL(server.url)
  const length = content === undefined ? {} : { 'content-length': Buffer.byteLength(content) }
  const headers = { ...server.headers, ...more, ...length, ...(type === '' ? {} : { 'content-type': type }) }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = request({ host: url.hostname, port: url.port, method, path, headers }, resolve)
    outgoing.on('error', reject)
    outgoing.end(content)
  })
  const result = { status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '' }
  if (result.type.startsWith('text/event-stream')) {
    response.destroy()
    return { ...result, body: '' }
  }
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return { ...result, body: Buffer.concat(chunks).toString() }
}

/** Checks replies against the document. */
export class ResponseChecker {
  readonly #document: OpenApiDocument
  readonly #ajv = new Ajv2020({ strict: false, allErrors: false })

  constructor(document: OpenApiDocument) {
    this.#document = document
    addFormats.default(this.#ajv)
    this.#ajv.addSchema(document, 'doc')
  }

  /** Whether a schema of the document accepts a value. */
  accepts(schema: object, value: unknown): boolean {
    const text = JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"doc#/')
    return this.#ajv.validate(JSON.parse(text), value)
  }

  /** Whether the document describes this reply; a status above 499 must be documented. */
  check(path: string, method: string, operation: Operation, response: RawResponse): void {
    expect(response.status, response.body).not.toBe(500)
    // A literal path precedes a parameter, also when it lacks the method.
    if (this.#document.paths[path]?.[method.toLowerCase()] === undefined) {
      expect(response.status).toBe(405)
      return
    }
    if (response.status > 500)
      expect(Object.keys(operation.responses), response.body).toContain(String(response.status))
    const described = response.status in operation.responses ? String(response.status) : 'default'
    const content = operation.responses[described]?.content
    expect(operation.responses, `status ${response.status} is not described`).toHaveProperty(described)
    if (content === undefined) return
    const type = Object.keys(content).find((name) => name === '*/*' || response.type.startsWith(name))
    expect(type, `${response.status} has content type ${response.type}`).toBeDefined()
    if (type !== 'application/json') return
    const place = ['paths', path, method.toLowerCase(), 'responses', described, 'content', type, 'schema']
    const pointer = place
      .map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1'))
      .map(encodeURIComponent)
      .join('/')
    const validate = this.#ajv.getSchema(`doc#/${pointer}`)
    if (validate === undefined) throw new Error(`no schema at ${pointer}`)
    const isValid = validate(JSON.parse(response.body))
    expect(isValid, `${JSON.stringify(validate.errors)} in ${response.body.slice(0, 500)}`).toBe(true)
  }

  /** Literal paths precede parameters: `/api/conversations/search` is not the conversation named search. */
  matchRoute(filledPath: string, template: string): string {
    const values = filledPath.split('/')
    const candidates = template.split('/').map((_, i) =>
      template
        .split('/')
        .with(i, values[i] ?? '')
        .join('/'),
    )
    return candidates.find((path) => path !== template && path in this.#document.paths) ?? template
  }

  findOperation(filledPath: string, template: string, method: string): Operation | undefined {
    const item = this.#document.paths[this.matchRoute(filledPath, template)]
    return item?.[method.toLowerCase()] as Operation | undefined
  }
}
