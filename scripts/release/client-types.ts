import type { OpenApi } from '@slipway/protocol'

type Json = Readonly<Record<string, unknown>>

/** The members of a JSON Schema that the documents use. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
  readonly description?: string
  readonly default?: unknown
}

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description?: string
  readonly schema: Schema
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>
}

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: Content & { readonly required: boolean }
  readonly responses: Readonly<Record<string, Content>>
}

/**
 * Declarations of an OpenAPI document: an interface or a type for each component, and an interface
 * `calls` with input and output of each operation. Summaries, descriptions and defaults become
 * comments.
 */
export function printCallTypes(document: OpenApi, calls: string): string {
  const components = Object.entries(document.components.schemas as Readonly<Record<string, Schema>>)
  const operations = Object.values(document.paths as Readonly<Record<string, Json>>)
    .flatMap((methods) => Object.values(methods) as Operation[])
    .map((operation) => {
      const type = `{ readonly input: ${printInput(operation)}; readonly output: ${printOutput(operation)} }`
      return `${printComment(operation.summary, operation.description)}readonly ${operation.operationId}: ${type}\n`
    })
  return `${components.map(printComponent).join('\n')}\nexport interface ${calls} {\n${operations.join('')}}\n`
}

function printComponent([name, schema]: [string, Schema]): string {
  const comment = printComment(schema.description)
  const type = printType(schema)
  return schema.type === 'object'
    ? `${comment}export interface ${name} ${type}\n`
    : `${comment}export type ${name} = ${type}\n`
}

function printInput({ parameters = [], requestBody }: Operation): string {
  const members = ['path', 'query'].flatMap((place) => {
    const found = parameters.filter((parameter) => parameter.in === place)
    if (found.length === 0) return []
    const isOptional = found.every(({ required }) => !required)
    const name = place === 'path' ? 'params' : 'query'
    return [`readonly ${name}${isOptional ? '?' : ''}: {\n${found.map(printParameter).join('')}}`]
  })
  const body = requestBody?.content?.['application/json']?.schema
  if (body !== undefined) members.push(`readonly body${requestBody?.required ? '' : '?'}: ${printType(body)}`)
  return `{ ${[...members, 'readonly headers?: Readonly<Record<string, string>>', 'readonly signal?: AbortSignal | undefined'].join('; ')} }`
}

function printParameter({ name, required, description, schema }: Parameter): string {
  const comment = printComment(description, defaultText(schema))
  return `${comment}readonly ${JSON.stringify(name)}${required ? '' : '?'}: ${printParameterType(schema)}${required ? '' : ' | undefined'}\n`
}

/** The text of a number or of a switch is accepted too. */
function printParameterType(schema: Schema): string {
  if (schema.type === 'integer' || schema.type === 'number') return `number | \`${'$'}{number}\``
  if (schema.type === 'boolean') return "boolean | 'true' | 'false'"
  return printType(schema)
}

/** Routes without a JSON schema answer text. */
function printOutput({ responses }: Operation): string {
  const successes = Object.entries(responses).filter(([status]) => status === '200' || status === '201')
  const types = successes.map(([, { content }]) => {
    const schema = content?.['application/json']?.schema
    return schema === undefined ? 'string' : printType(schema)
  })
  return [...new Set(types)].join(' | ') || 'string'
}

/** The type of a schema. */
export function printType(schema: Schema): string {
  const { $ref, enum: values, anyOf, oneOf } = schema
  if ($ref !== undefined) return $ref.slice($ref.lastIndexOf('/') + 1)
  if ('const' in schema) return JSON.stringify(schema.const)
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(' | ')
  const options = anyOf ?? oneOf
  if (options !== undefined) return [...new Set(options.map(printType))].join(' | ')
  const { type } = schema
  if (Array.isArray(type)) return type.map((one: string) => printType({ ...schema, type: one })).join(' | ')
  switch (type) {
    case 'integer':
      return 'number'
    case 'array':
      return `Array<${printType(schema.items ?? {})}>`
    case 'object':
      return printObject(schema)
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return String(type)
    default:
      return 'unknown'
  }
}

function printObject({ properties = {}, required = [], additionalProperties }: Schema): string {
  const others = typeof additionalProperties === 'object' ? printType(additionalProperties) : 'unknown'
  const isOpen = additionalProperties !== undefined && additionalProperties !== false
  const members = Object.entries(properties).map(([name, schema]) => {
    const comment = printComment(schema.description, defaultText(schema))
    const isRequired = required.includes(name)
    return `${comment}${JSON.stringify(name)}${isRequired ? '' : '?'}: ${printType(schema)}${isRequired ? '' : ' | undefined'}\n`
  })
  if (members.length === 0) return isOpen ? `{ [name: string]: ${others} }` : '{}'
  // Beside members with their own types the others are of any type.
  return `{\n${members.join('')}${isOpen ? '[name: string]: unknown\n' : ''}}`
}

function defaultText(schema: Schema): string | undefined {
  return schema.default === undefined || schema.default === null
    ? undefined
    : `Default: \`${JSON.stringify(schema.default)}\`.`
}

function printComment(...texts: readonly (string | undefined)[]): string {
  const present = texts
    .filter((text) => text !== undefined && text !== '')
    .map((text) => String(text).replaceAll('*/', '*\\/'))
  const text = present.map((one) => (/[.!?]$/.test(one) ? one : `${one}.`)).join(' ')
  return text === '' ? '' : `/** ${text} */\n`
}

/**
 * Instead of the front door of the protocol's package: what the declarations of the client import
 * from it.
 */
export const protocolTypes = `import type { AgentServerCalls, ValidationError } from './agent-server-calls.js'
import type { SandboxServerCalls } from './sandbox-server-calls.js'
export type { Event } from './agent-server-calls.js'
export type ValidationIssue = ValidationError
export type RouteTable = object
export type Route = { readonly input: unknown; readonly output: unknown }
export declare const agentServerRoutes: AgentServerCalls
export declare const sandboxServerRoutes: SandboxServerCalls
`

/**
 * Instead of the types of calls that are derived from schemas, which take a compiler some seconds.
 */
export const routeTypes = `import type { agentServerRoutes, sandboxServerRoutes } from '../../../protocol/src/index.js'
type AgentServerRoutes = typeof agentServerRoutes
type SandboxServerRoutes = typeof sandboxServerRoutes
export type RouteName = keyof AgentServerRoutes
/** The input of a call: path parameters, query and JSON body, as far as the route has them. */
export type RouteInput<R> = R extends { readonly input: infer I } ? I : never
/**
 * The arguments of a call after its name: none are needed where nothing of the input is required.
 */
export type CallArguments<R> = {} extends RouteInput<R> ? [input?: RouteInput<R>] : [input: RouteInput<R>]
/** What a successful call answers. Routes without a JSON schema answer text. */
export type RouteOutput<R> = R extends { readonly output: infer O } ? O : never
/** By the name of a route of the agent server. */
export type CallInput<N extends RouteName> = RouteInput<AgentServerRoutes[N]>
export type CallOutput<N extends RouteName> = RouteOutput<AgentServerRoutes[N]>
/** By the name of a route of the sandbox server. */
export type SandboxServerInput<N extends keyof SandboxServerRoutes> = RouteInput<SandboxServerRoutes[N]>
`
