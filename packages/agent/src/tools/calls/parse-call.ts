import {
  type Action,
  exceedsMaxDepth,
  type MessageToolCall,
  maxDepth,
  type SecurityRisk,
  securityRisk,
} from '@slipway/protocol'
import { isRecord, parseJsonObject } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { waitFor } from '../browser/wait-for.ts'
import type { Tool } from '../core/tool.ts'
import { replaceAll } from '../files/replace-all.ts'
import { repairArguments } from './repair-arguments.ts'
import { addEditorCommand, repairCall } from './repair-names.ts'
import { repairJson, repairTypes, schemaProperties } from './repair-values.ts'

type Args = Readonly<Record<string, unknown>>

/** A parsed tool call of a model. */
type ParsedCall =
  | {
      readonly kind: 'call'
      readonly tool: Tool
      readonly action: Action
      /** UNKNOWN when the call names none, and for read-only tools. */
      readonly security_risk: SecurityRisk
      readonly summary: string | undefined
      /** As received, or with repaired name and arguments; security_risk and summary included. */
      readonly tool_call: MessageToolCall
    }
  | {
      readonly kind: 'error'
      /** For an AgentErrorEvent: what the model must change. */
      readonly error: string
      /** As received. */
      readonly tool_call: MessageToolCall
    }

/** Parses a call: repairs what it can, finds the tool, and creates the action. */
export function parseToolCall(tool_call: MessageToolCall, tools: ReadonlyMap<string, Tool>): ParsedCall {
  const failed = (error: string): ParsedCall => ({ kind: 'error', error, tool_call })
  const received = parseArguments(tool_call)
  if ('error' in received) return failed(received.error)
  const named = repairCall(tool_call.name, received.args, new Set(tools.keys()))
  const { name, args: namedArgs } = named ?? { name: tool_call.name, args: received.args }
  const tool = tools.get(name)
  const available = [...tools.keys()].map((known) => `'${known}'`).join(', ')
  if (tool === undefined) return failed(`Tool '${shortName(name)}' not found. Available: [${available}]`)
  const renamedArgs = repairArguments(namedArgs, withCommonParameters(tool.parameters))
  const completeArgs = addEditorCommand(name, renamedArgs)?.args ?? renamedArgs
  const typedArgs = repairArguments(
    repairTypes(completeArgs, tool.parameters),
    withCommonParameters(tool.parameters),
  )
  const { args, security_risk, summary, normalizedArgs } = extractCommonParameters(typedArgs, tool.parameters)
  const risk = isReadOnly(tool) ? 'UNKNOWN' : parseRisk(security_risk)
  const prefix = `Error validating the arguments of tool '${name}':`
  if (risk === undefined) return failed(`${prefix} security_risk has to be LOW, MEDIUM or HIGH.`)
  const parsed = tool.parse(args)
  if ('error' in parsed) return failed(`${prefix} ${parsed.error}`)
  const json = JSON.stringify(normalizedArgs)
  const isSame = name === tool_call.name && received.isValidJson && json === JSON.stringify(received.args)
  return {
    kind: 'call',
    tool,
    action: parsed.action,
    security_risk: risk,
    summary,
    tool_call: isSame ? tool_call : { ...tool_call, name, arguments: json },
  }
}

/** `isValidJson`: the text was valid JSON as received. */
function parseArguments({
  name,
  arguments: json,
}: MessageToolCall): { readonly args: Args; readonly isValidJson: boolean } | { readonly error: string } {
  const prefix = `Error parsing the arguments of tool '${shortName(name)}':`
  // Some providers send an empty text for a call without arguments.
  if (json.trim() === '') return { args: {}, isValidJson: false }
  if (exceedsMaxDepth(Buffer.from(json)))
    return { error: `${prefix} they nest deeper than ${maxDepth} levels.` }
  const repairedJson = repairJson(json)
  if (repairedJson === undefined) return { error: `${prefix} they are not valid JSON.` }
  const object = onlyObject(repairedJson.value)
  if (object === undefined) return { error: `${prefix} they have to be a JSON object.` }
  return { args: object, isValidJson: repairedJson.isValidJson && object === repairedJson.value }
}

/** An object, also as JSON in a string or alone in a list. */
function onlyObject(value: unknown): Args | undefined {
  if (isRecord(value)) return value
  if (Array.isArray(value)) return value.length === 1 ? onlyObject(value[0]) : undefined
  const inner = typeof value === 'string' ? repairJson(value)?.value : undefined
  return isRecord(inner) ? inner : undefined
}

/** A schema in which the common parameters have their place, so that none is taken for another. */
function withCommonParameters(parameters: Args): Args {
  const common = { security_risk: {}, summary: {}, [outsideName]: {} }
  return { ...parameters, properties: { ...common, ...schemaProperties(parameters) } }
}

function shortName(name: string): string {
  return name.length > 200 ? `${firstChars(name, 200)}...` : name
}

export function isReadOnly(tool: Tool): boolean {
  return tool.definition.annotations?.readOnlyHint === true
}

/** Tools whose command `view` changes nothing. */
const viewers: ReadonlySet<string> = new Set([
  ...['FileEditorAction', 'PlanningFileEditorAction', 'TaskTrackerAction'],
])

/** Whether an action changes nothing: its tool only reads, or the action only views. */
export function onlyReads(tool: Tool, action: Action): boolean {
  return isReadOnly(tool) || (viewers.has(action.kind) && 'command' in action && action.command === 'view')
}

function parseRisk(value: unknown): SecurityRisk | undefined {
  const result = securityRisk.safeParse(
    typeof value === 'string' ? value.trim().toUpperCase() : (value ?? 'UNKNOWN'),
  )
  return result.success ? result.data : undefined
}

/**
 * Extracts `security_risk` (or a similar name) and `summary` from arguments, unless the tool has a parameter
 * of that name. `normalizedArgs`: all arguments, with the correct name.
 */
export function extractCommonParameters(input: Args, parameters: Args = {}) {
  const properties = schemaProperties(parameters)
  const names = Object.keys(input).filter((name) => !Object.hasOwn(properties, name))
  const riskName = Object.hasOwn(properties, 'security_risk')
    ? undefined
    : (names.find((name) => name === 'security_risk') ?? names.find(isRiskName))
  const isCommon = (name: string) => name === outsideName && names.includes(name)
  const summaryName = names.find((name) => name === 'summary')
  const entries = Object.entries(input)
  const summary = summaryName === undefined ? undefined : input[summaryName]
  return {
    args: Object.fromEntries(
      entries.filter(([name]) => name !== riskName && name !== summaryName && !isCommon(name)),
    ),
    security_risk: riskName === undefined ? undefined : input[riskName],
    summary: typeof summary === 'string' && summary.trim() !== '' ? summary : undefined,
    normalizedArgs: Object.fromEntries(
      entries.map(([name, value]) => [name === riskName ? 'security_risk' : name, value]),
    ),
  }
}

/** `securityRisk`, `security-risk`, `risk_level`, `secuirty_risk`. */
function isRiskName(name: string): boolean {
  const letters = name.toLowerCase().replaceAll(/[^a-z]/g, '')
  return /^(s[a-z]{4,9}ri?s?k|(security)?risk(level)?|security(level|rating)?)$/.test(letters)
}

/**
 * The parameters of a tool for the model: with `summary`, and with `security_risk` where it is asked for.
 */
export function addCommonParameters(
  parameters: Readonly<Record<string, unknown>>,
  { hasRisk, isDescribed = true, canAskOutside = false }: CommonParameters,
): Record<string, unknown> {
  const common = {
    ...(hasRisk && { security_risk: { ...levels, ...(isDescribed && { description: riskDescription }) } }),
    ...(canAskOutside ? { [outsideName]: outside } : {}),
    summary: { type: 'string', ...(isDescribed && { description: summaryDescription }) },
  }
  const own = schemaProperties(parameters)
  const added = Object.entries(common).filter(([name]) => !Object.hasOwn(own, name))
  // What the tool needs comes first: models give arguments in this order.
  return shortenParameters({ ...parameters, properties: { ...own, ...Object.fromEntries(added) } })
}

/** Without what says nothing to a model: no required members, no others (they are refused when they come). */
export function shortenParameters(parameters: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { additionalProperties, required, ...rest } = parameters
  return {
    ...rest,
    ...(Array.isArray(required) && required.length > 0 ? { required } : {}),
    ...(isRecord(additionalProperties) ? { additionalProperties } : {}),
  }
}

interface CommonParameters {
  readonly hasRisk: boolean
  /** False: the prompt says what they mean. */
  readonly isDescribed?: boolean
  readonly canAskOutside?: boolean
}

const levels = { type: 'string', enum: ['LOW', 'MEDIUM', 'HIGH'] }
const riskDescription =
  'LOW: reads, or reversible changes to files of the task. MEDIUM: installs, deletes, or reaches beyond them. HIGH: may destroy data, reveal secrets, or reach systems of others.'

/** The request of a call to run outside of the sandbox for commands. */
const outsideName = 'outside_sandbox'
const outside = { type: 'boolean', description: 'Ask the user to run this outside of the sandbox.' }

interface StoredCall {
  readonly tool_call?: unknown
  readonly action?: unknown
}

/** Whether a call, as it is stored, asks to run outside of the sandbox for commands. */
export function asksForOutside(call: StoredCall): boolean {
  return isSwitchedOn(call, outsideName)
}

/** Whether an edit, as it is stored, is for every place of its old text; actions have no member for it. */
export function asksToReplaceAll(call: StoredCall): boolean {
  const kind = actionKind(call)
  return (kind === 'FileEditorAction' || kind === 'EditAction') && isSwitchedOn(call, replaceAll.name)
}

/** The text that a page has to show before it is read, likewise. */
export function findAwaitedText(call: StoredCall): string | undefined {
  const text = actionKind(call) === 'BrowserGetStateAction' ? argument(call, waitFor.name) : undefined
  return typeof text === 'string' && text.trim() !== '' ? text : undefined
}

function actionKind({ action }: StoredCall): unknown {
  return isRecord(action) ? action.kind : undefined
}

function isSwitchedOn(call: StoredCall, name: string): boolean {
  return argument(call, name) === true
}

function argument({ tool_call }: StoredCall, name: string): unknown {
  const json = isRecord(tool_call) ? tool_call.arguments : undefined
  return typeof json === 'string' ? parseJsonObject(json)?.[name] : undefined
}

const summaryDescription = 'What it does, for the user.'
