import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import * as z from 'zod'
import type { ValidationIssue } from '../core/problem.ts'
import { validationIssues } from '../core/validation-issues.ts'
import { type Action, action } from './registry.ts'

type ActionKind = Action['kind']
type Json = Readonly<Record<string, unknown>>

/** More faults than this do not help a model. */
const maxIssues = 8

const schemas = new Map(action.options.map((option) => [option.shape.kind.value, option]))
const cachedParameters = new WeakMap<z.ZodObject, Record<string, unknown>>()

/**
 * JSON Schema (draft 2020-12, of type object) of the arguments that make an action, for a model: without
 * references and without `kind`. A member with a default is not required; that it may be null is left out.
 */
export function actionParameters(kind: ActionKind): Record<string, unknown> {
  return schemaParameters(actionSchema(kind))
}

/** The same for the schema of an action that is in no union. */
export function schemaParameters(schema: z.ZodObject): Record<string, unknown> {
  const cached = cachedParameters.get(schema)
  if (cached !== undefined) return cached
  const { $ref, $defs } = z.toJSONSchema(schema, { io: 'input' })
  const plain = simplify({ $ref }, isRecord($defs) ? $defs : {})
  const { kind: _, ...properties } = isRecord(plain.properties) ? plain.properties : {}
  const required = Array.isArray(plain.required) ? plain.required.filter((name) => name !== 'kind') : []
  const parameters = { type: 'object', properties, required, additionalProperties: false }
  cachedParameters.set(schema, parameters)
  return parameters
}

/** Parses arguments as an action of a kind: the action with its defaults, or an error in one sentence. */
export function parseAction<K extends ActionKind>(
  kind: K,
  args: Json,
): { readonly action: Extract<Action, { kind: K }> } | { readonly error: string } {
  // The schema was chosen by the kind, so the value has it.
  return parseArguments(actionSchema(kind), kind, args) as { action: Extract<Action, { kind: K }> }
}

/** The same for the schema of an action that is in no union. */
export function parseArguments<S extends z.ZodObject>(
  schema: S,
  kind: string,
  args: Json,
): { readonly action: z.output<S> } | { readonly error: string } {
  const result = schema.safeParse({ ...args, kind })
  return result.success
    ? { action: result.data }
    : { error: describeIssues(validationIssues(result.error, [], args)) }
}

function actionSchema(kind: ActionKind) {
  const schema = schemas.get(kind)
  if (schema === undefined) throw new Error(`no action of kind ${kind}`)
  return schema
}

function describeIssues(issues: readonly ValidationIssue[]): string {
  const parts = issues.slice(0, maxIssues).map(({ loc, msg }) => {
    const location =
      loc.length === 0 ? 'the arguments' : loc.map((step) => firstChars(String(step), 80)).join('.')
    return `${location}: ${msg}`
  })
  const more = issues.length > maxIssues ? `; and ${issues.length - maxIssues} more` : ''
  return `The arguments do not fit: ${parts.join('; ')}${more}.`
}

/** A schema with its references replaced by what they name, and without what a model does not need. */
function simplify(schema: Json, defs: Json): Record<string, unknown> {
  const { $ref, anyOf, maximum, minimum, ...all } = schema
  const { default: preset, ...others } = all
  const rest = isEmpty(preset) ? others : all
  const target = typeof $ref === 'string' ? defs[$ref.replace('#/$defs/', '')] : undefined
  const branches = Array.isArray(anyOf) ? anyOf.filter((branch) => branch?.type !== 'null') : []
  const merged: Record<string, unknown> = {
    ...(isRecord(target) ? simplify(target, defs) : {}),
    ...(branches.length === 1 && isRecord(branches[0]) ? simplify(branches[0], defs) : {}),
    ...Object.fromEntries(
      Object.entries(rest).map(([name, value]) => [name, simplifyMember(name, value, defs)]),
    ),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
  }
  if (branches.length > 1) merged.anyOf = branches.map((branch) => simplify(branch, defs))
  if (Array.isArray(merged.type)) merged.type = merged.type.find((type) => type !== 'null')
  return merged
}

/** A default that goes without saying: `false`, an empty text or list; or none. */
function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === false || value === '' || (Array.isArray(value) && value.length === 0)
  )
}

function simplifyMember(name: string, value: unknown, defs: Json): unknown {
  if (name === 'properties' && isRecord(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [key, isRecord(member) ? simplify(member, defs) : member]),
    )
  return (name === 'items' || name === 'additionalProperties') && isRecord(value)
    ? simplify(value, defs)
    : value
}
