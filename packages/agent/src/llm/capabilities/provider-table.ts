import type { CallIdForm } from './fit-names.ts'

/** The form of a provider's interface. */
export type ProviderApi = 'chat' | 'responses' | 'anthropic' | 'google' | 'bedrock' | 'compatible'

/** Members of a chat request that not every OpenAI-compatible server knows. */
type OptionalMember =
  | 'reasoning_effort'
  | 'return_token_ids'
  | 'seed'
  | 'stream_options'
  | 'tool_choice'
  | 'top_k'
  | 'top_p'

/** What a server accepts. Requests contain nothing else, except what `litellm_extra_body` adds. */
export interface ServerCapabilities {
  /** `any`: what the settings ask for is sent; the server is not in the table. */
  readonly members: readonly OptionalMember[] | 'any'
  /** Names of members that differ from OpenAI's; a dot makes a member of a member. */
  readonly renamed?: Readonly<Record<string, string>>
  /** How a part of a prompt is marked for the cache; `claude`: `cache_control`, for Claude models alone. */
  readonly cacheMarks: 'none' | 'cacheControl' | 'cachePoint' | 'claude'
  /** `prompt_cache_key` routes the requests of a conversation to the same cache. */
  readonly hasCacheKey: boolean
  /**
   * The member in which plain reasoning goes back; `same`: that in which this server sent it; `own`: the
   * interface has signed blocks or items for it.
   */
  readonly reasoning: 'none' | 'same' | 'own' | 'reasoning' | 'reasoning_content' | 'reasoning_details'
  /** A message with calls needs reasoning, if only a blank one. */
  readonly needsReasoning?: true
  /**
   * Call ids: any text, word characters, at most 40 of them (OpenAI), or nine letters and digits (Mistral).
   */
  readonly callIds: CallIdForm
  /** Contents of messages: lists of parts, or a text alone. */
  readonly content: 'parts' | 'text'
  readonly images: 'none' | 'data' | 'any'
  /** The most images of a request. */
  readonly maxImages: number
  /** Images are PNG and JPEG alone. */
  readonly hasPlainImages?: true
  /** A message has a content, if only an empty one. */
  readonly needsContent?: true
  /** A result of a tool cannot be followed by a message of the user. */
  readonly needsAnswerAfterTool?: true
  /** Gemini's signatures are in `provider_specific_fields` of calls, beside Google's own place. */
  readonly hasProviderFields?: true
}

export interface Provider extends ServerCapabilities {
  readonly title: string
  /** In front of a model's name; the first is the usual spelling. */
  readonly prefixes: readonly string[]
  /** `openai`: chat or responses, by the model's name and `api_mode`. */
  readonly api: 'openai' | Exclude<ProviderApi, 'chat' | 'responses'>
  /** Of OpenAI-compatible servers; undefined: `base_url` is needed. */
  readonly baseUrl?: string
  /** Models that search the web by the Responses interface, at the same address as the other one. */
  readonly searchModels?: RegExp
  /** Models have the names of the user's deployments, at an address of the user. */
  readonly hasDeployments?: true
  readonly needsKey: boolean
  /** Its name in the price list; undefined: self-hosted, or prices by the model's own name. */
  readonly prices?: string
}

/** A server that nothing is known about: OpenAI's plain form, and what the settings ask for. */
export const plainServer: ServerCapabilities = {
  members: 'any',
  cacheMarks: 'none',
  hasCacheKey: false,
  reasoning: 'same',
  callIds: 'any',
  content: 'parts',
  images: 'any',
  maxImages: 100,
}

const openaiMembers = ['reasoning_effort', 'seed', 'stream_options', 'tool_choice', 'top_p'] as const
const ownServer = { ...plainServer, api: 'compatible', needsKey: false } as const
const hostedServer = { ...ownServer, needsKey: true } as const

/** All that is known about providers. `docs/providers.md` is printed from it. */
export const providers: readonly Provider[] = [
  {
    title: 'OpenAI',
    prefixes: ['openai'],
    api: 'openai',
    needsKey: true,
    prices: 'openai',
    ...plainServer,
    members: openaiMembers,
    hasCacheKey: true,
    reasoning: 'own',
    callIds: 'short',
  },
  {
    title: 'Azure',
    prefixes: ['azure'],
    api: 'openai',
    hasDeployments: true,
    needsKey: true,
    prices: 'azure',
    ...plainServer,
    members: openaiMembers,
    reasoning: 'own',
    callIds: 'short',
  },
  {
    title: 'Anthropic',
    prefixes: ['anthropic'],
    api: 'anthropic',
    needsKey: true,
    prices: 'anthropic',
    ...plainServer,
    cacheMarks: 'cacheControl',
    reasoning: 'own',
    callIds: 'word',
  },
  {
    title: 'Google',
    prefixes: ['gemini', 'google'],
    api: 'google',
    needsKey: true,
    prices: 'google',
    ...plainServer,
    reasoning: 'own',
  },
  {
    title: 'Amazon Bedrock',
    prefixes: ['bedrock'],
    api: 'bedrock',
    needsKey: true,
    prices: 'aws',
    ...plainServer,
    cacheMarks: 'cachePoint',
    reasoning: 'own',
    callIds: 'word',
    images: 'data',
    maxImages: 20,
  },
  {
    ...hostedServer,
    title: 'OpenRouter',
    prefixes: ['openrouter'],
    baseUrl: 'https://openrouter.ai/api/v1',
    prices: 'openrouter',
    members: [...openaiMembers, 'top_k'],
    renamed: { reasoning_effort: 'reasoning.effort' },
    cacheMarks: 'claude',
    reasoning: 'reasoning_details',
  },
  {
    ...ownServer,
    title: 'LiteLLM',
    prefixes: ['litellm_proxy'],
    members: [...openaiMembers, 'return_token_ids', 'top_k'],
    cacheMarks: 'claude',
    reasoning: 'reasoning_content',
    hasProviderFields: true,
  },
  {
    ...hostedServer,
    title: 'Mistral',
    prefixes: ['mistral'],
    baseUrl: 'https://api.mistral.ai/v1',
    prices: 'mistral',
    members: ['tool_choice', 'top_p', 'seed'],
    renamed: { seed: 'random_seed' },
    reasoning: 'none',
    callIds: 'nine',
    maxImages: 8,
    needsAnswerAfterTool: true,
  },
  {
    ...hostedServer,
    title: 'Groq',
    prefixes: ['groq'],
    baseUrl: 'https://api.groq.com/openai/v1',
    prices: 'groq',
    members: openaiMembers,
    renamed: { max_tokens: 'max_completion_tokens' },
    reasoning: 'reasoning',
    maxImages: 5,
  },
  {
    ...hostedServer,
    title: 'Cerebras',
    prefixes: ['cerebras'],
    baseUrl: 'https://api.cerebras.ai/v1',
    prices: 'cerebras',
    members: ['reasoning_effort', 'seed', 'tool_choice', 'top_p'],
    renamed: { max_tokens: 'max_completion_tokens' },
    reasoning: 'none',
    content: 'text',
    images: 'none',
  },
  {
    ...hostedServer,
    title: 'DeepSeek',
    prefixes: ['deepseek'],
    baseUrl: 'https://api.deepseek.com/v1',
    prices: 'deepseek',
    members: ['reasoning_effort', 'stream_options', 'tool_choice', 'top_p'],
    reasoning: 'reasoning_content',
    needsReasoning: true,
    content: 'text',
    images: 'none',
  },
  {
    ...hostedServer,
    title: 'xAI',
    prefixes: ['xai'],
    baseUrl: 'https://api.x.ai/v1',
    prices: 'x-ai',
    searchModels: /^grok-(?:[4-9]|\d\d)/,
    members: openaiMembers,
    reasoning: 'reasoning_content',
    hasPlainImages: true,
    needsContent: true,
  },
  {
    ...hostedServer,
    title: 'Moonshot',
    prefixes: ['moonshot'],
    baseUrl: 'https://api.moonshot.ai/v1',
    members: ['stream_options', 'tool_choice', 'top_p'],
    reasoning: 'reasoning_content',
    needsReasoning: true,
    images: 'data',
  },
  {
    ...hostedServer,
    title: 'Z.ai',
    prefixes: ['zai'],
    baseUrl: 'https://api.z.ai/api/paas/v4',
    members: ['top_p'],
    reasoning: 'reasoning_content',
  },
  {
    ...hostedServer,
    title: 'MiniMax',
    prefixes: ['minimax'],
    baseUrl: 'https://api.minimax.io/v1',
    members: ['stream_options', 'top_p'],
  },
  {
    ...hostedServer,
    title: 'DashScope',
    prefixes: ['dashscope'],
    baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    members: ['seed', 'stream_options', 'tool_choice', 'top_k', 'top_p'],
    reasoning: 'reasoning_content',
  },
  {
    ...hostedServer,
    title: 'Together',
    prefixes: ['together_ai'],
    baseUrl: 'https://api.together.xyz/v1',
    members: ['reasoning_effort', 'seed', 'tool_choice', 'top_k', 'top_p'],
    reasoning: 'reasoning',
  },
  {
    ...hostedServer,
    title: 'Fireworks',
    prefixes: ['fireworks_ai'],
    baseUrl: 'https://api.fireworks.ai/inference/v1',
    members: ['reasoning_effort', 'stream_options', 'tool_choice', 'top_k', 'top_p'],
    reasoning: 'reasoning_content',
  },
  {
    ...ownServer,
    title: 'llama.cpp',
    prefixes: ['llama_cpp'],
    baseUrl: 'http://127.0.0.1:8080/v1',
    members: ['return_token_ids', 'seed', 'stream_options', 'tool_choice', 'top_k', 'top_p'],
    // It sends ids with the probabilities of tokens.
    renamed: { return_token_ids: 'n_probs' },
    reasoning: 'reasoning_content',
  },
  {
    ...ownServer,
    title: 'Ollama',
    prefixes: ['ollama', 'ollama_chat'],
    baseUrl: 'http://127.0.0.1:11434/v1',
    members: ['reasoning_effort', 'seed', 'stream_options', 'top_p'],
    reasoning: 'reasoning',
    images: 'data',
  },
  {
    ...ownServer,
    title: 'vLLM',
    prefixes: ['vllm', 'hosted_vllm'],
    members: [...openaiMembers, 'return_token_ids', 'top_k'],
    reasoning: 'reasoning_content',
  },
  {
    ...ownServer,
    title: 'LM Studio',
    prefixes: ['lm_studio'],
    members: ['seed', 'stream_options', 'tool_choice', 'top_k', 'top_p'],
  },
  {
    ...ownServer,
    title: 'any other OpenAI-compatible server',
    prefixes: ['openai_compatible', 'openai-compatible', 'openai_like'],
  },
]
