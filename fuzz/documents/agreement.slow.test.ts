import {
  agentServerOpenApi,
  agentServerRoutes,
  type Route,
  sandboxServerOpenApi,
  sandboxServerRoutes,
} from '@slipway/protocol'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listOperations, type OpenApiDocument } from '../support/openapi-requests.ts'
import { isObject, type Json } from '../support/schema-arbitraries.ts'
import { drawTexts, leafValues, listBodyCases, readText } from '../support/schema-cases.ts'

/**
 * The OpenAPI documents say of each text, number and switch of a parameter or a body what the schemas say
 * that requests are validated with: about the bounds, and with values of other types.
 */
const servers: readonly (readonly [string, object, Readonly<Record<string, Route>>])[] = [
  ['agent server', agentServerOpenApi, agentServerRoutes],
  ['sandbox server', sandboxServerOpenApi, sandboxServerRoutes],
]

/** Rules about several members, which a JSON schema of one member cannot say. */
const rulesAcrossMembers =
  /^Exactly one of |^keep_first must be less|^A user needs a name|^Either classes or|^A message needs content/

/** Accepted besides what the documents say. */
const leniencies: readonly ((place: string, value: unknown) => boolean)[] = [
  // The handlers refuse a path that is not absolute with 400, as the wire says.
  (place, value) => / \.?path$/.test(place) && typeof value === 'string' && !value.startsWith('/'),
  // A secret without its kind.
  (place, value) => /secrets\{\}$/.test(place) && isObject(value),
  // Whatever scope is sent, a marketplace is the user's own.
  (place) => place === 'previewMarketplaces [].scope',
]

interface Verdicts {
  readonly place: string
  readonly value: unknown
  readonly document: boolean
  readonly server: ReturnType<NonNullable<Route['body']>['safeParse']>
}

/** Tells of a difference; undefined where there is none. */
function describeDifference({ place, value, document, server }: Verdicts): string | undefined {
  if (document === server.success) return undefined
  const issues = server.error?.issues ?? []
  if (issues.length > 0 && issues.every((issue) => rulesAcrossMembers.test(issue.message))) return undefined
  if (server.success && leniencies.some((allows) => allows(place, value))) return undefined
  const text = JSON.stringify(value)?.slice(0, 80)
  return `${place}: ${text} is ${document ? `refused: ${JSON.stringify(issues[0]).slice(0, 200)}` : 'accepted'}`
}

function openDocument(source: object) {
  const document: OpenApiDocument = JSON.parse(JSON.stringify(source))
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  ajv.addSchema(document, 'doc')
  const accepts = (place: readonly (string | number)[], value: unknown): boolean => {
    const steps = place.map((step) =>
      encodeURIComponent(String(step).replaceAll('~', '~0').replaceAll('/', '~1')),
    )
    return ajv.getSchema(`doc#/${steps.join('/')}`)?.(value) === true
  }
  return { document, accepts }
}

function findRoute(table: Readonly<Record<string, Route>>, operationId: string | undefined): Route {
  const route = table[String(operationId)]
  if (route === undefined) throw new Error(`There is no route ${operationId}`)
  return route
}

const draw = (leaf: Json, seed: number) => fc.sample(leafValues(leaf), { numRuns: 12, seed })

test.each(servers)('bodies of the %s are refused where its document refuses them', (_, source, table) => {
  const { document, accepts } = openDocument(source)
  const differences = new Set<string>()
  let cases = 0
  for (const { path, method, operation } of listOperations(document)) {
    const schema = operation.requestBody?.content['application/json']?.schema
    const route = findRoute(table, operation.operationId)
    if (schema === undefined || route.body === undefined) continue
    const place = [
      'paths',
      path,
      method.toLowerCase(),
      'requestBody',
      'content',
      'application/json',
      'schema',
    ]
    for (const one of listBodyCases(document, schema)) {
      cases += 1
      for (const value of draw(one.leaf, cases)) {
        const body = one.build(value)
        const server = route.body.safeParse(structuredClone(body))
        const name = `${operation.operationId} ${one.place}`
        const difference = describeDifference({ place: name, value, document: accepts(place, body), server })
        if (difference !== undefined) differences.add(difference)
      }
    }
  }
  expect([...differences]).toEqual([])
  expect(cases).toBeGreaterThan(100)
})

test.each(servers)('parameters of the %s are refused where its document refuses them', (_, source, table) => {
  const { document, accepts } = openDocument(source)
  const differences = new Set<string>()
  let cases = 0
  for (const { path, method, operation } of listOperations(document)) {
    const route = findRoute(table, operation.operationId)
    for (const [index, parameter] of (operation.parameters ?? []).entries()) {
      if (parameter.in === 'header') continue
      const member = (parameter.in === 'path' ? route.params : route.query)?.shape[parameter.name]
      const schema: Json = parameter.schema ?? {}
      const isList = schema.type === 'array'
      const leaf = isList && isObject(schema.items) ? schema.items : schema
      const place = [
        'paths',
        path,
        method.toLowerCase(),
        'parameters',
        index,
        'schema',
        ...(isList ? ['items'] : []),
      ]
      cases += 1
      for (const text of drawTexts(document, leaf, cases)) {
        // An empty one of a query counts as absent.
        if (text === '' && parameter.in === 'query') continue
        const server = member.safeParse(isList ? [text] : text)
        const name = `${operation.operationId} ${parameter.name}`
        const isValid = accepts(place, readText(document, leaf, text))
        const difference = describeDifference({ place: name, value: text, document: isValid, server })
        if (difference !== undefined) differences.add(difference)
      }
    }
  }
  expect([...differences]).toEqual([])
  expect(cases).toBeGreaterThan(100)
})
