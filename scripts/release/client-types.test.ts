import { agentServerOpenApi, type OpenApi, sandboxServerOpenApi } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { printCallTypes } from './client-types.ts'

const json = (schema: object) => ({ content: { 'application/json': { schema } } })
const document: OpenApi = {
  openapi: '3.1.0',
  info: { title: '', version: '', description: '' },
  tags: [],
  paths: {
    '/things/{id}': {
      put: {
        operationId: 'putThing',
        summary: 'Store a thing',
        description: 'All of it.',
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          { name: 'limit', in: 'query', required: false, schema: { type: 'integer', default: 5 } },
          { name: 'x-key', in: 'header', required: false, schema: { type: 'string' } },
        ],
        requestBody: { required: true, ...json({ $ref: '#/components/schemas/Thing' }) },
        responses: { 201: json({ type: 'array', items: { type: ['string', 'null'] } }), 404: {} },
      },
    },
    '/text': { get: { operationId: 'getText', summary: 'A text', responses: { 200: {} } } },
  },
  components: {
    schemas: {
      Thing: {
        type: 'object',
        description: 'It ends a comment: */',
        properties: {
          kind: { const: 'thing' },
          size: { anyOf: [{ type: 'number' }, { enum: ['s', 'm'] }], description: 'How large', default: 's' },
        },
        required: ['kind'],
        additionalProperties: {},
      },
      Names: { type: 'object', additionalProperties: { type: 'boolean' } },
      Either: { oneOf: [{ $ref: '#/components/schemas/Thing' }, { type: 'object', properties: {} }] },
    },
  },
}

test('components and operations become interfaces with comments', () => {
  expect(printCallTypes(document, 'Calls').replaceAll(/\s+/g, ' ')).toBe(
    [
      '/** It ends a comment: *\\/. */ export interface Thing { "kind": "thing"',
      '/** How large. Default: `"s"`. */ "size"?: number | "s" | "m" | undefined [name: string]: unknown }',
      'export interface Names { [name: string]: boolean }',
      'export type Either = Thing | {}',
      'export interface Calls { /** Store a thing. All of it. */',
      'readonly putThing: { readonly input: { readonly params: { readonly "id": string };',
      `readonly query?: { /** Default: \`5\`. */ readonly "limit"?: number | \`${'$'}{number}\` | undefined };`,
      'readonly body: Thing; readonly headers?: Readonly<Record<string, string>>;',
      'readonly signal?: AbortSignal | undefined }; readonly output: Array<string | null> }',
      '/** A text. */ readonly getText: { readonly input: { readonly headers?: Readonly<Record<string, string>>;',
      'readonly signal?: AbortSignal | undefined }; readonly output: string } } ',
    ].join(' '),
  )
})

test.each([
  ['agent server', agentServerOpenApi],
  ['sandbox server', sandboxServerOpenApi],
])('every operation of the %s has types, and nothing in them is unnamed', (_, { toJSON }) => {
  const openApi = toJSON()
  const text = printCallTypes(openApi, 'Calls')
  const operations = Object.values(openApi.paths).flatMap((methods) => Object.values(methods as object))
  for (const { operationId } of operations) expect(text).toContain(`readonly ${operationId}: {`)
  const names = new Set(Object.keys(openApi.components.schemas))
  for (const [, name = ''] of text.matchAll(/Array<(\w+)>/g))
    expect(names.has(name) || /^(string|number|boolean|unknown)$/.test(name), name).toBe(true)
})
