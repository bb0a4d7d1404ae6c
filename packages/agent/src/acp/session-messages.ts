import type { AcpModelInfo } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'

/** Readers of what programs send. Versions differ: what is missing or of another shape is left out. */

type Json = Readonly<Record<string, unknown>>

export function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function readRecord(value: unknown): Json {
  return isRecord(value) ? value : {}
}

export function readList(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter(isRecord) : []
}

/** What a program says of itself. */
export interface AgentAbilities {
  readonly name: string | undefined
  readonly version: string | undefined
  readonly canLoad: boolean
  readonly canResume: boolean
  readonly acceptsImages: boolean
  readonly mcp: { readonly http: boolean; readonly sse: boolean }
  readonly authMethods: readonly string[]
}

export function readAbilities(result: Json): AgentAbilities {
  const { name, version } = readRecord(result.agentInfo)
  const abilities = readRecord(result.agentCapabilities)
  const mcp = readRecord(abilities.mcpCapabilities)
  return {
    name: readText(name),
    version: readText(version),
    canLoad: abilities.loadSession === true,
    canResume: isRecord(readRecord(abilities.sessionCapabilities).resume),
    acceptsImages: readRecord(abilities.promptCapabilities).image === true,
    mcp: { http: mcp.http === true, sse: mcp.sse === true },
    authMethods: readList(result.authMethods).flatMap(({ id }) => readText(id) ?? []),
  }
}

/** The models of a session and how they are chosen. */
export interface SessionModels {
  readonly current: string | undefined
  readonly available: readonly AcpModelInfo[]
  /** A session option, or undefined for the older method of its own. */
  readonly optionId: string | undefined
}

/** Undefined when a session says nothing of models. */
export function readModels(result: Json): SessionModels | undefined {
  const option = readList(result.configOptions).find(
    ({ id, type, category }) => type === 'select' && (id === 'model' || category === 'model'),
  )
  if (option !== undefined) {
    const available = optionEntries(option).flatMap((entry) => modelInfo(entry, entry.value))
    return { current: readText(option.currentValue), available, optionId: String(option.id) }
  }
  if (!isRecord(result.models)) return undefined
  const available = readList(result.models.availableModels).flatMap((entry) =>
    modelInfo(entry, entry.modelId),
  )
  return { current: readText(result.models.currentModelId), available, optionId: undefined }
}

/** The session option for how much a model reasons. Programs name it differently. */
interface EffortOption {
  readonly id: string
  readonly current: string | undefined
  readonly values: readonly string[]
}

/** Undefined when the session offers none, which may depend on its model. */
export function readEffort(result: Json): EffortOption | undefined {
  const option = readList(result.configOptions).find(
    ({ id, type, category }) =>
      type === 'select' && (category === 'thought_level' || /^(reasoning_)?effort$/.test(String(id))),
  )
  if (option === undefined) return undefined
  return {
    id: String(option.id),
    current: readText(option.currentValue),
    values: optionEntries(option).flatMap(({ value }) => readText(value) ?? []),
  }
}

/** The entries of an option, which may be grouped. */
function optionEntries(option: Json): readonly Json[] {
  return readList(option.options).flatMap((entry) =>
    Array.isArray(entry.options) ? readList(entry.options) : [entry],
  )
}

function modelInfo({ name, description }: Json, id: unknown): AcpModelInfo[] {
  const model_id = readText(id)
  if (model_id === undefined) return []
  return [{ model_id, name: readText(name) ?? null, description: readText(description) ?? null }]
}

/** What a turn has used, if the program says so. */
interface TurnUsage {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly thought: number
}

export function readUsage(result: Json): TurnUsage | undefined {
  if (isRecord(result.usage)) {
    const { inputTokens, outputTokens, cachedReadTokens, cachedWriteTokens, thoughtTokens } = result.usage
    return {
      input: readCount(inputTokens),
      output: readCount(outputTokens),
      cacheRead: readCount(cachedReadTokens),
      cacheWrite: readCount(cachedWriteTokens),
      thought: readCount(thoughtTokens),
    }
  }
  const count = readRecord(readRecord(result._meta).quota).token_count
  if (!isRecord(count)) return undefined
  const [input, output] = [readCount(count.input_tokens), readCount(count.output_tokens)]
  return { input, output, cacheRead: 0, cacheWrite: 0, thought: 0 }
}

export function readCount(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}

interface PermissionOption {
  readonly optionId: string
  readonly kind: string
}

export interface PermissionRequest {
  readonly toolCall: Json
  readonly options: readonly PermissionOption[]
}

export function readPermission(params: Json): PermissionRequest {
  const options = readList(params.options).flatMap(({ optionId, kind }) => {
    const id = readText(optionId)
    return id === undefined ? [] : [{ optionId: id, kind: readText(kind) ?? '' }]
  })
  return { toolCall: readRecord(params.toolCall), options }
}

/** The answer to a request: once, if the program offers that. Without a fitting option it is cancelled. */
export function permissionAnswer({ options }: PermissionRequest, isAllowed: boolean): object {
  const kinds = isAllowed ? ['allow_once', 'allow_always'] : ['reject_once', 'reject_always']
  // "Always" would allow calls that the user has not seen.
  const chosen =
    options.find(({ kind }) => kind === kinds[0]) ??
    (isAllowed ? undefined : options.find(({ kind }) => kind === kinds[1]))
  return chosen === undefined
    ? { outcome: { outcome: 'cancelled' } }
    : { outcome: { outcome: 'selected', optionId: chosen.optionId } }
}
