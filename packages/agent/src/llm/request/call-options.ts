import type { Llm, Message } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { findProvider, type ModelCapabilities, modelCapabilities } from '../capabilities/capabilities.ts'
import { fitToolName } from '../capabilities/fit-names.ts'
import type { ModelRequest, ModelTool } from '../model.ts'
import { isOpenaiName, type ModelRoute } from '../route.ts'
import { fitSchema, withFittedKeys } from './fit-schema.ts'
import { toPrompt } from './prompt.ts'
import { claudeBlocks, decodeProviderMetadata, isSendable } from './provider-metadata.ts'
import type { ProviderOptions, ProviderTool, SdkCallOptions } from './sdk-types.ts'

type Effort = NonNullable<SdkCallOptions['reasoning']>
const efforts: readonly string[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/** Models without reasoning; they get no effort. */
const openaiWithoutReasoning = /^(?!o\d|gpt-(?:[5-9]|\d\d)|codex|computer-use)|-chat(-latest)?$/
const modelsWithoutReasoning = /claude-(?:instant|v?2|3-(?:haiku|sonnet|opus|5)|3\.5)|gemini-(?:1|2\.0)|gemma/
/** Claude models that reason by a token budget, with half of their output limit. */
const thinkingBudgets: readonly (readonly [RegExp, number])[] = [
  [/claude-opus-4(?:-[01]|-2025|@|$)/, 16_000],
  [/claude-(?:3-7|(?:sonnet|opus|haiku)-4(?:-[05]|-2025|@|$))/, 32_000],
]
const interleavedThinking = 'interleaved-thinking-2025-05-14'
/** Shorter replies leave no room for reasoning. */
const minThinkingOutput = 2048
/** The least limit that the Responses interface accepts. */
const minResponsesOutput = 16

/** What a server takes, and the settings let it have. */
export function requestCapabilities(llm: Llm, route: ModelRoute): ModelCapabilities {
  const capabilities = modelCapabilities(route, llm.capability_overrides)
  return llm.disable_vision ? { ...capabilities, images: 'none' } : capabilities
}

/** The options of one call of the provider's library. */
export function callOptions(
  llm: Llm,
  route: ModelRoute,
  request: ModelRequest & { readonly cacheKey?: string | undefined },
): SdkCallOptions {
  const capabilities = requestCapabilities(llm, route)
  const maxOutputTokens = outputLimit(llm, route, request)
  const thinks = request.maxOutputTokens === undefined || request.maxOutputTokens >= minThinkingOutput
  const thinking = thinks ? reasoningOptions(llm, route, request) : {}
  const { reasoning, providerMembers = {}, headers } = thinking
  const cacheMembers = capabilities.hasCacheKey ? cacheOptions(llm, route, request.cacheKey) : {}
  return {
    prompt: toPrompt(request.messages, {
      route,
      capabilities,
      canCache: llm.caching_prompt,
    }),
    ...(request.tools.length > 0 && toolMembers(request, route, { llm, capabilities })),
    ...definedMembers({
      maxOutputTokens,
      temperature: llm.temperature,
      topP: llm.top_p,
      // Converse has no such parameter.
      topK: route.api === 'compatible' || route.api === 'bedrock' ? undefined : llm.top_k,
      seed: llm.seed,
      reasoning,
    }),
    ...definedMembers({ headers }),
    providerOptions: providerOptions(llm, route, { ...providerMembers, ...cacheMembers }),
    // The library drops token ids, OpenRouter's reasoning details, the member of reasoning, LiteLLM's
    // members.
    includeRawChunks:
      route.api === 'compatible' || llm.return_token_ids || llm.litellm_extra_body.return_token_ids === true,
  }
}

/** A limit of the request includes its reasoning; to one of the settings the library adds it. */
function outputLimit(llm: Llm, route: ModelRoute, request: ModelRequest): number | undefined {
  const { maxOutputTokens } = request
  const own =
    maxOutputTokens === undefined ? undefined : maxOutputTokens - reasoningBudget(llm, route, request)
  const limits = [own, llm.max_output_tokens].filter((limit) => limit !== undefined)
  if (limits.length === 0) return undefined
  const limit = Math.min(...limits)
  return route.api === 'responses' ? Math.max(limit, minResponsesOutput) : limit
}

/** The Responses interface makes every member required unless `strict` is false. */
function toolMembers(
  { tools, toolChoice, keepsCache = false }: ModelRequest,
  route: ModelRoute,
  options: { readonly llm: Llm; readonly capabilities: ModelCapabilities },
): Pick<SdkCallOptions, 'tools' | 'toolChoice'> {
  const { api } = route
  const { cacheMarks } = options.capabilities
  const search = options.llm.web_search === true ? searchTool(route) : undefined
  const hasSearch = search !== undefined && !tools.some(({ name }) => fitToolName(name) === search.name)
  const strict = api === 'responses' ? { strict: false } : {}
  const toSchema = (schema: ModelTool['parameters']) =>
    needsFittedKeys(route) ? withFittedKeys(fitSchema(schema)) : fitSchema(schema)
  // Claude's cache of messages, which is the one with marks, is that of one choice of tools.
  const canForbid = api !== 'bedrock' && !(keepsCache && cacheMarks !== 'none')
  return {
    tools: [
      ...tools.map(({ name, description, parameters }) => ({
        type: 'function' as const,
        name: fitToolName(name),
        description: api === 'chat' ? shortenDescription(description) : description,
        inputSchema: toSchema(parameters),
        ...strict,
      })),
      ...(hasSearch ? [search] : []),
    ],
    // Bedrock cannot forbid tools, and its library drops the history's calls without tools.
    ...(toolChoice === 'none' && canForbid && { toolChoice: { type: 'none' } }),
  }
}

/** Searches of one reply. */
const maxSearches = 8

/** The provider's own search of the web; undefined where none goes together with other tools. */
function searchTool({ api, name }: ModelRoute): ProviderTool | undefined {
  switch (api) {
    case 'responses':
      return { type: 'provider', id: 'openai.web_search', name: 'web_search', args: {} }
    case 'anthropic':
      return {
        type: 'provider',
        id: 'anthropic.web_search_20250305',
        name: 'web_search',
        args: { maxUses: maxSearches },
      }
    case 'google':
      // Earlier ones take either a search or functions.
      return /gemini-(?:[12]|pro|flash)/.test(name)
        ? undefined
        : { type: 'provider', id: 'google.google_search', name: 'google_search', args: {} }
    default:
      return undefined
  }
}

/** Whether only some names of properties are taken: by Claude. */
export function needsFittedKeys({ api, name }: ModelRoute): boolean {
  return api === 'anthropic' || /claude/i.test(name)
}

/** OpenAI's models before GPT-5 refuse a longer one. */
const maxDescription = 1024

function shortenDescription(description: string): string {
  return description.length <= maxDescription
    ? description
    : `${firstChars(description, maxDescription - 1)}…`
}

function providerOptions(llm: Llm, route: ModelRoute, own: ProviderOptions[string]): ProviderOptions {
  switch (route.api) {
    case 'responses': {
      const summary = llm.reasoning_summary ?? null
      const options = { store: false, reasoningSummary: summary, ...foreignReasoning(llm, route), ...own }
      return { openai: options, azure: options }
    }
    case 'chat':
      return { openai: own, azure: own }
    case 'anthropic':
      // Eagerly streamed arguments may be invalid JSON, and not every server of this interface knows the
      // option.
      return { anthropic: { toolStreaming: false, ...own } }
    case 'google':
      return { google: own }
    case 'bedrock':
      return { amazonBedrock: own }
    case 'compatible':
      return {
        openaiCompatible: {
          ...definedMembers({ top_k: llm.top_k, return_token_ids: llm.return_token_ids || undefined }),
          ...own,
        },
      }
  }
}

/** The library sends an effort to models with OpenAI's names alone, with their role for instructions. */
function foreignReasoning({ reasoning_effort: reasoningEffort }: Llm, { provider }: ModelRoute) {
  if (findProvider(provider)?.searchModels === undefined || reasoningEffort === undefined) return {}
  return { forceReasoning: true, systemMessageMode: 'system', reasoningEffort }
}

/** OpenAI's models that keep a prompt cache for 24 hours on request. */
const longCacheModels = /^gpt-(?:4\.1|5(?:\.\d+)?(?:-codex(?:-max)?|-pro)?)(?:-\d{4}-\d\d-\d\d)?$/

function cacheOptions(
  { prompt_cache_retention: retention }: Llm,
  { name }: ModelRoute,
  key: string | undefined,
) {
  if (key === undefined) return {}
  const isKnown = retention === 'in_memory' || retention === '24h'
  const hasLongCache = isKnown && longCacheModels.test(name)
  return { promptCacheKey: key, ...(hasLongCache && { promptCacheRetention: retention }) }
}

interface ReasoningOptions {
  readonly headers?: Record<string, string>
  readonly reasoning?: Effort
  readonly providerMembers?: ProviderOptions[string]
}

/** Tokens of reasoning that the library adds to a limit of output. */
export function reasoningBudget(
  llm: Llm,
  route: ModelRoute,
  { messages, maxOutputTokens: limit }: Pick<ModelRequest, 'messages' | 'maxOutputTokens'>,
): number {
  const most = thinkingBudgets.find(([names]) => names.test(route.name))?.[1]
  if (most === undefined || route.api === 'compatible' || !canThink(llm, route)) return 0
  const level = toEffort(llm.reasoning_effort, route)
  const wanted = llm.extended_thinking_budget || (level === undefined ? 0 : most)
  const isShort = limit !== undefined && limit < minThinkingOutput
  if (wanted === 0 || level === 'none' || isShort || hasUnsignedToolCalls(messages, route)) return 0
  return Math.max(1024, Math.min(wanted, most, limit === undefined ? most : Math.floor(limit / 2)))
}

function reasoningOptions(llm: Llm, route: ModelRoute, request: ModelRequest): ReasoningOptions {
  const effort = llm.reasoning_effort
  if (route.api === 'compatible')
    return effort === undefined ? {} : { providerMembers: { reasoningEffort: effort } }
  if (!canThink(llm, route)) return {}
  const level = toEffort(effort, route)
  if (level !== 'none' && thinkingBudgets.some(([names]) => names.test(route.name))) {
    if (hasUnsignedToolCalls(request.messages, route)) return {}
    const budget = reasoningBudget(llm, route, request)
    // Without one in the settings and without a limit, the library chooses it by the effort.
    const isOwn = llm.extended_thinking_budget || request.maxOutputTokens !== undefined
    if (isOwn && budget > 0) return budgetThinking(route, budget)
  }
  if (route.api === 'google') return googleThinking(llm, level)
  if (route.api === 'chat' || route.api === 'responses') return openaiThinking(effort, route, level)
  return level === undefined ? {} : { reasoning: level }
}

function canThink(llm: Llm, { api, provider, name }: ModelRoute): boolean {
  const override = llm.capability_overrides.supports_reasoning_effort
  if (typeof override === 'boolean') return override
  const known = llm.model_canonical_name?.replace(/^.*\//, '') ?? name
  if (provider === 'azure') return !isOpenaiName(known) || !openaiWithoutReasoning.test(known)
  return !(api === 'chat' || api === 'responses' ? openaiWithoutReasoning : modelsWithoutReasoning).test(
    known,
  )
}

/** The effort as the library knows it; it picks the nearest that the model has. */
function toEffort(effort: string | undefined, { api }: ModelRoute): Effort | undefined {
  if (effort === undefined || !efforts.includes(effort)) return undefined
  if (effort === 'max' && api === 'bedrock') return 'xhigh'
  return effort as Effort // it is one of the words of the list
}

function openaiThinking(
  effort: string | undefined,
  route: ModelRoute,
  level: Effort | undefined,
): ReasoningOptions {
  // A deployment's name does not identify the model, and the provider may know efforts that the library does
  // not.
  if (route.provider === 'azure' || level === undefined) {
    return effort === undefined || effort === 'none' ? {} : { providerMembers: { reasoningEffort: effort } }
  }
  return { reasoning: level }
}

function googleThinking(llm: Llm, level: Effort | undefined): ReasoningOptions {
  const thinkingBudget = level === undefined ? llm.extended_thinking_budget : undefined
  if ((level === undefined || level === 'none') && thinkingBudget === undefined) {
    return level === undefined ? {} : { reasoning: level }
  }
  const thinkingConfig = { includeThoughts: true, ...definedMembers({ thinkingBudget }) }
  return { providerMembers: { thinkingConfig }, ...definedMembers({ reasoning: level }) }
}

function budgetThinking({ api, name }: ModelRoute, budgetTokens: number): ReasoningOptions {
  const thinking = { type: 'enabled', budgetTokens }
  // Reasoning also between calls; Claude 3.7 has none.
  const betas = /claude-3/.test(name) ? [] : [interleavedThinking]
  // The library would send its own option for them as a member of the request.
  const additionalModelRequestFields = { ...(betas.length > 0 && { anthropic_beta: betas }) }
  if (api === 'bedrock')
    return { providerMembers: { reasoningConfig: thinking, additionalModelRequestFields } }
  return {
    providerMembers: { thinking },
    ...(betas.length > 0 && { headers: { 'anthropic-beta': interleavedThinking } }),
  }
}

/**
 * Whether another model began this turn: a Claude with a token budget rejects calls that its own reasoning
 * does not precede.
 */
function hasUnsignedToolCalls(messages: readonly Message[], { api }: ModelRoute): boolean {
  const since = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1)
  return since.some((message) => {
    if (message.role !== 'assistant' || (message.tool_calls ?? []).length === 0) return false
    const [first] = claudeBlocks(message).filter(({ kind }) => isSendable(kind, api))
    const order = decodeProviderMetadata(message, 'anthropic')[0]?.value ?? 'r'
    return first === undefined || !order.startsWith('r')
  })
}
