import * as z from 'zod'
import { agentServerRoutes } from '../agent-server/routes.ts'
import { httpValidationError, problem } from '../core/responses.ts'
import type { Route, RouteResponse, RouteTable } from '../core/route.ts'
import { sandboxServerRoutes } from '../sandbox-server/routes.ts'

type Json = Record<string, unknown>

/** An OpenAPI 3.1 document, ready to be written as JSON. */
export interface OpenApi {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Json
  readonly components: { readonly schemas: Json; readonly [member: string]: unknown }
  readonly security?: readonly Json[]
  readonly [extension: `x-${string}`]: unknown
}

/**
 * Describes a route table. Schemas with an id become components. All are printed as input, also of answers:
 * events are served as received, so a member with a default may be absent.
 */
export function buildOpenApi(
  table: RouteTable,
  info: OpenApi['info'],
  more?: { readonly components: Json; readonly security: readonly Json[] },
): OpenApi {
  const schemas = new SchemaCollector()
  const listed = Object.entries(table).filter(([, route]) => route.unlisted === undefined)
  const operations = listed.map(([name, route]) => ({
    route,
    operation: buildOperation(name, route, schemas),
    override: more !== undefined && route.open ? { security: [] } : {},
  }))
  const { print: render, components } = schemas.render()
  const paths: Record<string, Json> = {}
  for (const { route, operation, override } of operations) {
    const path = route.path.replace('*}', '}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: { ...operation(render), ...override } }
  }
  const tags = [...new Set(Object.values(table).map((route) => route.tag))].map((name) => ({ name }))
  return {
    openapi: '3.1.0',
    info,
    'x-slipway-opt-ins': more === undefined ? optIns : { note: optIns.note },
    tags,
    paths,
    components: { ...more?.components, schemas: components },
    ...(more?.security === undefined ? {} : { security: more.security }),
  }
}

type RenderSchema = (schema: z.ZodType) => Json

/** Collects the schemas of a route, so that all are printed at once; returns the operation of the prints. */
function buildOperation(
  operationId: string,
  route: Route,
  schemas: SchemaCollector,
): (print: RenderSchema) => Json {
  const responses = allResponses(route)
  for (const schema of [
    route.params,
    route.query,
    route.body,
    ...Object.values(responses).map(({ schema }) => schema),
  ]) {
    if (schema !== undefined) schemas.add(schema)
  }
  return (print) => ({
    operationId,
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    ...buildParameters(route, print),
    ...buildRequestBody(route, print),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, response]) => [status, buildResponse(status, response, print)]),
    ),
  })
}

function buildParameters({ params, query, headers = {} }: Route, print: RenderSchema): Json {
  const parameters = [
    ...listParameters('path', params, print),
    ...listParameters('query', query, print),
    ...Object.entries(headers).map(([name, description]) => ({
      name,
      in: 'header',
      required: false,
      description,
      schema: { type: 'string' },
    })),
  ]
  return parameters.length === 0 ? {} : { parameters }
}

function listParameters(
  location: 'path' | 'query',
  schema: z.ZodObject | undefined,
  print: RenderSchema,
): Json[] {
  if (schema === undefined) return []
  const { properties, required } = parameterSchemaParts.parse(print(schema))
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: location,
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }))
}

const parameterSchemaParts = z.object({
  properties: z.record(z.string(), z.record(z.string(), z.unknown())),
  required: z.array(z.string()).default([]),
})

function buildRequestBody(route: Route, print: RenderSchema): Json {
  if (route.stream !== undefined) {
    return { requestBody: { required: true, content: { [route.stream]: { schema: { type: 'string' } } } } }
  }
  if (route.upload)
    return { requestBody: { required: true, content: { 'multipart/form-data': { schema: uploadForm } } } }
  if (route.body === undefined) return {}
  const required = !route.body.safeParse(undefined).success
  const example = route.example === undefined ? {} : { example: route.example }
  const content = { 'application/json': { schema: print(route.body), ...example } }
  return { requestBody: { required, content } }
}

/** The body of an upload. */
const uploadForm = {
  type: 'object',
  properties: { file: { type: 'string', format: 'binary' } },
  required: ['file'],
}

/** The responses of a route and the common refusals. */
function allResponses(route: Route): Readonly<Record<string, RouteResponse>> {
  const takesBody = route.body !== undefined || route.stream !== undefined || route.upload === true
  return {
    ...route.responses,
    ...(route.open ? {} : { 401: { description: 'A session key is required.' } }),
    403: { description: 'This host or origin is not allowed.' },
    ...(route.params === undefined ? {} : { 404: { description: 'There is no such thing.' } }),
    ...(takesBody
      ? {
          413: { description: 'The body is too large.' },
          415: { description: 'The body is of another type.' },
        }
      : {}),
    422: route.responses[422] ?? {
      description: 'A parameter or the body is not valid.',
      schema: httpValidationError,
    },
    default: { description: 'Any other refusal.', schema: problem },
  }
}

/** A success has no body unless the route declares one. */
function buildResponse(
  status: string,
  { description, schema, contentType, headers }: RouteResponse,
  print: RenderSchema,
): Json {
  const common = { description, ...(headers === undefined ? {} : { headers: describeHeaders(headers) }) }
  if (contentType !== undefined) {
    const content = [contentType].flat().map((type) => [type, { schema: { type: 'string' } }])
    return { ...common, content: Object.fromEntries(content) }
  }
  if (schema === undefined && /^[23]/.test(status)) return common
  return { ...common, content: { 'application/json': { schema: print(schema ?? problem) } } }
}

function describeHeaders(headers: Readonly<Record<string, string>>): Json {
  const entries = Object.entries(headers)
  return Object.fromEntries(
    entries.map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
  )
}

/** Schemas that are printed together, so that shared ones are printed once. */
class SchemaCollector {
  readonly #names = new Map<z.ZodType, string>([[problem, 'problem']])

  add(schema: z.ZodType): void {
    if (!this.#names.has(schema)) this.#names.set(schema, String(this.#names.size))
  }

  render(): { print: RenderSchema; components: Json } {
    const all = z.object(Object.fromEntries([...this.#names].map(([schema, name]) => [name, schema])))
    const json = z.toJSONSchema(all, { io: 'input', override: adjustJsonSchema })
    const text = JSON.stringify(json).replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/')
    const { properties, $defs } = renderedSchemaParts.parse(JSON.parse(text, simplifyUnion))
    return { print: (schema) => properties[this.#names.get(schema) ?? ''] ?? {}, components: $defs }
  }
}

const schemaMap = z.record(z.string(), z.record(z.string(), z.unknown()))
const renderedSchemaParts = z.object({ properties: schemaMap, $defs: schemaMap })

/**
 * Adds discriminators, defaults of transformed texts and texts that are accepted; removes the
 * bounds of safe integers.
 */
function adjustJsonSchema({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodTypes
  jsonSchema: z.core.JSONSchema.BaseSchema
}): void {
  if (zodSchema instanceof z.ZodDefault) jsonSchema.default = zodSchema.def.defaultValue
  const { default: metaDefault } = (zodSchema instanceof z.ZodType ? zodSchema.meta() : undefined) ?? {}
  if (metaDefault !== undefined) jsonSchema.default = metaDefault
  // Client generators give up a whole component for a default that is an object of a union.
  if (jsonSchema.anyOf !== undefined && isObject(jsonSchema.default)) {
    const text = JSON.stringify(jsonSchema.default)
    const described = jsonSchema.description === undefined ? '' : `${jsonSchema.description} `
    jsonSchema.description = `${described}Default: ${text}.`
    delete jsonSchema.default
  }
  if (jsonSchema.acceptsText === true) addText(jsonSchema)
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  if (jsonSchema.type === 'object') adjustPropertyNames(jsonSchema)
  if (zodSchema instanceof z.ZodDiscriminatedUnion) addDiscriminator(zodSchema, jsonSchema)
}

/** A union with what accepts everything accepts everything. */
function simplifyUnion(_name: string, value: unknown): unknown {
  if (!isObject(value) || !Array.isArray(value.anyOf)) return value
  const { anyOf, ...rest } = value
  return anyOf.some((one) => isObject(one) && Object.keys(one).length === 0) ? rest : value
}

type JsonSchema = z.core.JSONSchema.BaseSchema

/** A text is accepted besides what the schema describes. */
function addText(jsonSchema: JsonSchema): void {
  const names = ['type', 'items', 'minItems', 'oneOf'].filter((name) => name in jsonSchema)
  const described = Object.fromEntries(names.map((name) => [name, jsonSchema[name]]))
  for (const name of ['acceptsText', ...names]) delete jsonSchema[name]
  jsonSchema.anyOf = [{ type: 'string' }, described]
}

/** Names from a list become properties; the type of names is always a text. */
function adjustPropertyNames(jsonSchema: JsonSchema): void {
  const { propertyNames, additionalProperties } = jsonSchema
  if (!isSchema(propertyNames)) return
  const { enum: names, type: _, ...rules } = propertyNames
  if (names !== undefined) {
    const members = names.map((name) => [String(name), structuredClone(additionalProperties ?? {})])
    jsonSchema.properties = Object.fromEntries(members)
    jsonSchema.additionalProperties = false
  }
  if (names !== undefined || Object.keys(rules).length === 0) delete jsonSchema.propertyNames
}

function isSchema(value: JsonSchema | boolean | undefined): value is JsonSchema {
  return typeof value === 'object'
}

function addDiscriminator(zodSchema: z.ZodDiscriminatedUnion, jsonSchema: JsonSchema): void {
  const { discriminator, options } = zodSchema.def
  const mapping = options.flatMap((option) => {
    const id = z.globalRegistry.get(option)?.id
    const tags = [...(option._zod.propValues?.[discriminator] ?? [])]
    return tags.map(
      (tag) => [String(tag), id === undefined ? undefined : `#/components/schemas/${id}`] as const,
    )
  })
  // An option without an id cannot be referenced, and a member that may be absent cannot be read: constants
  // discriminate these.
  if (mapping.some(([tag, reference]) => tag === 'undefined' || reference === undefined)) return
  jsonSchema.discriminator = { propertyName: discriminator, mapping: Object.fromEntries(mapping) }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `version` is that of the interface (spec 9), not of the server. */
const agentServerInfo = {
  title: 'Slipway Agent Server',
  version: '0.1.0',
  description:
    'Conversations and their logs. When the server has session keys, one of them is sent in the header X-Session-API-Key with every request but those tagged health. Events are served byte for byte as they are stored. A query parameter that is empty counts as absent where the schema allows no empty one. A page id of another collection is 409; a GET whose `If-None-Match` names what the client has is 304.',
}

const sandboxServerInfo = {
  title: 'Slipway Sandbox Server',
  version: '1.0.0',
  description:
    'Sandboxes, the conversations in them, and their history. Callers send an API key as Authorization: Bearer, X-Session-API-Key or X-Access-Token; agent servers send the session key of their sandbox to the routes tagged webhooks. What belongs to others looks missing.',
}

const optIns = {
  note: 'An event is one of 14 closed kinds. Others appear only in a conversation whose writer asked for them.',
  task_tool_set:
    'A conversation whose agent was given this tool has TaskTool among its tools, and actions and observations of the kinds TaskAction and TaskObservation.',
  apply_patch:
    'A conversation whose agent was given this tool has ApplyPatchTool among its tools, and actions and observations of the kinds ApplyPatchAction and ApplyPatchObservation.',
  background_terminal:
    'A conversation whose agent was given this tool has BackgroundTerminalTool among its tools, and actions and observations of the kinds BackgroundTerminalAction and BackgroundTerminalObservation.',
  web_fetch:
    'A conversation whose agent was given this tool has WebFetchTool among its tools, and actions and observations of the kinds WebFetchAction and WebFetchObservation.',
  route_task_to_model:
    'A conversation whose agent was given this tool has ClassifyAndSwitchLLMTool among its tools, and actions and observations of the kinds ClassifyAndSwitchLLMAction and ClassifyAndSwitchLLMObservation.',
  invoke_skill:
    'A conversation whose agent was given this tool has InvokeSkillTool among its tools, and actions and observations of the kinds InvokeSkillAction and InvokeSkillObservation.',
  'X-Slipway-Wire: current':
    'A conversation that was created with this header has newer members and kinds too, InterruptEvent and HookExecutionEvent among them, and the tool invoke_skill where its agent has skills.',
  client_tools:
    'A conversation with tools that its client carries out has ClientToolAction and ClientToolObservation.',
  'llm.stream': 'Readers get StreamingDeltaEvents, which are never stored, while a model generates.',
  'import?unknown=keep':
    'Events of other versions and kinds are stored and served as they came. Only kind, id and timestamp are looked at.',
}

/** A description that is built when it is written as JSON, not when a program starts. */
function lazyOpenApi(...args: Parameters<typeof buildOpenApi>): { toJSON(): OpenApi } {
  return { toJSON: () => buildOpenApi(...args) }
}

/**
 * How callers of the sandbox server show who they are; the agent server's document declares none (spec 5).
 */
const sandboxServerSecurity = {
  components: {
    securitySchemes: {
      bearer: { type: 'http', scheme: 'bearer' },
      apiKey: { type: 'apiKey', in: 'header', name: 'X-Session-API-Key' },
      accessToken: { type: 'apiKey', in: 'header', name: 'X-Access-Token' },
    },
  },
  security: [{ bearer: [] }, { apiKey: [] }, { accessToken: [] }],
}

export const agentServerOpenApi = lazyOpenApi(agentServerRoutes, agentServerInfo)

/** That of a server without some of the routes. */
export function agentServerOpenApiOf(names: readonly string[]): { toJSON(): OpenApi } {
  const served = new Set(names)
  const routes = Object.entries(agentServerRoutes).filter(([name]) => served.has(name))
  return lazyOpenApi(Object.fromEntries(routes), agentServerInfo)
}

export const sandboxServerOpenApi = lazyOpenApi(sandboxServerRoutes, sandboxServerInfo, sandboxServerSecurity)
