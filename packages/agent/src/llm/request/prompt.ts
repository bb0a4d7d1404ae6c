/**
 * The prompt of a request in the form of the provider library.
 *
 * Problem: the same messages go to many servers. Each accepts other content in other places, each wants its
 * own reasoning back exactly as it sent it, and each refuses that of others. A prompt that differs from the
 * one before costs the provider's cache.
 *
 * Idea: one pass over the messages. What a server accepts is in `ModelCapabilities` and the API of the route;
 * names of models are not looked at here. Content that is not accepted in one place goes to the nearest place
 * where it is.
 *
 * Invariants:
 * - The prompt depends on the messages and the route alone: no time, no random id. So the prompt of the next
 *   step begins with this one.
 * - Signed reasoning goes back only to those who can read it: Claude's with its signature
 *   (`#signedReasoning`), items of the Responses API with their encrypted content (`#reasoningItem`).
 *   Reasoning that is plain text goes into the member that the server reads (`#plainReasoning`). Other
 *   reasoning is left out.
 * - Thoughts, texts and calls of Claude stand in the order in which they were received (`#inOrder`): it
 *   checks its signatures against their places.
 * - Results of one turn are one message right behind its calls. Images of results that cannot stand there
 *   wait until the last result (`#flushImages`).
 * - Ids and names are fitted in calls and results by the same functions (`fitCallId`, `fitToolName`), so they
 *   still match. An id that an earlier call of the prompt has becomes another one (`#uniqueId`).
 * - Arguments that are no JSON object are sent as an empty one. Others are the received text where the
 *   library takes a text (`#input`).
 * - At most four cache marks are set, Anthropic's limit: the first, for the system prompt, and the last three
 *   (`selectCacheMarks`). `conversation/view/projection.ts` says where marks come from.
 *
 * If you change this: errors 400 from one provider that no other provider shows, or a cache that is never
 * read. `prompt.test.ts` has a case for each API; `prompt-cache.slow.test.ts` counts what a cache would read.
 *
 * Decision page: docs/decisions/0010-libraries-of-the-agent.md
 */

import type { ImageContent, Message, MessageToolCall, TextContent } from '@slipway/protocol'
import { parseJsonObject, wellFormed } from '@slipway/shared/json'
import type { ModelCapabilities } from '../capabilities/capabilities.ts'
import { fitCallId, fitToolName } from '../capabilities/fit-names.ts'
import { type ModelRoute, type ProviderApi, serverOf } from '../route.ts'
import { type ImageSupport, imageParts, type UserPart } from './images.ts'
import {
  claudeBlocks,
  decodeOrigin,
  decodeProviderMetadata,
  googleThoughts,
  isSendable,
} from './provider-metadata.ts'
import type { ProviderOptions, SdkMessage, SdkPrompt } from './sdk-types.ts'

type Content = TextContent | ImageContent
type AssistantPart = Extract<SdkMessage, { role: 'assistant' }>['content'][number]
type ResultPart = Extract<Extract<SdkMessage, { role: 'tool' }>['content'][number], { type: 'tool-result' }>

interface PromptOptions {
  readonly route: ModelRoute
  readonly capabilities: ModelCapabilities
  /** Pass on `cache_prompt` marks. */
  readonly canCache: boolean
}

const maxMarks = 4
/** Kimi takes an empty text for a missing one. */
const noReasoning = ' '

/** The key of a provider's own options and metadata in its library. */
export function providerOptionsKey({ api, provider }: ModelRoute): string {
  const keys: Record<ProviderApi, string> = {
    chat: provider === 'azure' ? 'azure' : 'openai',
    responses: provider === 'azure' ? 'azure' : 'openai',
    anthropic: 'anthropic',
    google: 'google',
    bedrock: 'amazonBedrock',
    compatible: 'openaiCompatible',
  }
  return keys[api]
}

/** Converts messages into the library's prompt. */
export function toPrompt(messages: readonly Message[], options: PromptOptions): SdkPrompt {
  return new PromptBuilder(messages, options).prompt()
}

class PromptBuilder {
  readonly #messages: readonly Message[]
  readonly #route: ModelRoute
  readonly #key: string
  readonly #capabilities: ModelCapabilities
  readonly #imageSupport: ImageSupport
  readonly #cacheMarked: ReadonlySet<Content | Message>
  readonly #usedIds = new Set<string>()
  /** Calls of the latest answer whose results have not come. */
  #open: { readonly id: string; readonly sentId: string; readonly name: string }[] = []
  readonly #server: string | undefined
  /** In which the server sends reasoning, as far as its messages tell. */
  readonly #reasoningMember: string | undefined
  readonly #prompt: SdkPrompt = []
  /** Images of tool results, for providers that accept none there. */
  #pendingImages: UserPart[] = []

  constructor(messages: readonly Message[], { route, capabilities, canCache }: PromptOptions) {
    this.#messages = messages
    this.#route = route
    this.#key = providerOptionsKey(route)
    this.#capabilities = capabilities
    this.#server = serverOf(route)
    const origins = messages.flatMap((message) => decodeOrigin(message) ?? [])
    this.#reasoningMember = origins.findLast(({ server }) => server === this.#server)?.member
    const { images, cacheMarks } = capabilities
    this.#imageSupport = { hasVision: images !== 'none', acceptsUrls: images === 'any' }
    this.#cacheMarked = canCache && cacheMarks !== 'none' ? selectCacheMarks(messages) : new Set()
  }

  prompt(): SdkPrompt {
    let isOpening = true
    for (const message of this.#messages) {
      if (message.role !== 'tool') this.#flushImages()
      if (message.role === 'system' && isOpening) this.#system(message)
      else {
        if (isOpening && message.role === 'assistant') this.#opening()
        isOpening = false
        if (message.role === 'assistant') this.#assistant(message)
        else if (message.role === 'tool') this.#tool(message)
        else this.#user(message)
      }
    }
    this.#flushImages()
    return this.#prompt
  }

  /** Three interfaces refuse a conversation that an answer begins; a log may have lost what it answers. */
  #opening(): void {
    if (!['anthropic', 'google', 'bedrock'].includes(this.#route.api)) return
    this.#prompt.push({ role: 'user', content: [text('(The beginning is not shown.)')] })
  }

  /** One message for each text where cache marks exist; other servers may reject a second one. */
  #system(message: Message): void {
    const texts = message.content.filter((part) => part.type === 'text').filter(({ text }) => text !== '')
    if (this.#capabilities.cacheMarks !== 'none') {
      for (const part of texts)
        this.#prompt.push({ role: 'system', content: part.text, ...this.#cacheMark(part) })
      return
    }
    const text = texts.map((part) => part.text).join('\n\n')
    const last = this.#prompt.at(-1)
    if (last?.role === 'system') last.content = `${last.content}\n\n${text}`
    else if (text !== '') this.#prompt.push({ role: 'system', content: text })
  }

  #user(message: Message): void {
    const content = message.content.flatMap((part): UserPart[] => this.#userParts(part))
    this.#prompt.push({ role: 'user', content: content.length > 0 ? content : [text('(no text)')] })
  }

  #userParts(part: Content): UserPart[] {
    if (part.type === 'image') {
      const parts = imageParts(part, this.#imageSupport)
      const last = parts.at(-1)
      return last === undefined ? [] : [...parts.slice(0, -1), { ...last, ...this.#cacheMark(part) }]
    }
    return part.text === '' ? [] : [{ type: 'text', text: part.text, ...this.#cacheMark(part) }]
  }

  #assistant(message: Message): void {
    const calls = message.tool_calls ?? []
    this.#open = calls.map(({ id, name }) => ({ id, sentId: this.#uniqueId(id), name }))
    const parts = {
      r: this.#reasoningParts(message),
      t: this.#textParts(message),
      c: calls.flatMap((call, index) => [
        ...this.#itemsBefore(message, index),
        this.#call(message, call, index),
      ]),
    }
    const content = [...this.#inOrder(message, parts), ...this.#ending(message)]
    if (content.every((part) => part.type === 'reasoning')) return
    const members = { ...this.#openRouterDetails(message), ...this.#plainReasoning(message) }
    this.#prompt.push({ role: 'assistant', content, ...this.#options(members) })
  }

  /** A call without a result is missing, and the rest keeps its order. */
  #inOrder(
    message: Message,
    parts: Readonly<Record<'r' | 't' | 'c', readonly (AssistantPart | undefined)[]>>,
  ): AssistantPart[] {
    const isClaude = this.#route.api === 'anthropic' || this.#route.api === 'bedrock'
    const order = isClaude ? (decodeProviderMetadata(message, 'anthropic')[0]?.value ?? '') : ''
    const rest = { r: [...parts.r], t: [...parts.t], c: [...parts.c] }
    const ordered = [...order].flatMap((letter) => rest[letter as keyof typeof rest]?.splice(0, 1) ?? [])
    return [...ordered, ...rest.r, ...rest.t, ...rest.c].filter((part) => part !== undefined)
  }

  #reasoningParts(message: Message): (AssistantPart | undefined)[] {
    const { api } = this.#route
    if (api === 'anthropic' || api === 'bedrock') return this.#signedReasoning(message)
    if (api === 'responses') return this.#reasoningItem(message.responses_reasoning_item)
    const thoughts = api === 'google' ? googleThoughts(message) : []
    return thoughts.map(({ thinking, signature: thoughtSignature }) =>
      this.#reasoning(thinking, { thoughtSignature }),
    )
  }

  /** Undefined stands for a hidden thought of the other interface: it keeps its place in the order. */
  #signedReasoning(message: Message): (AssistantPart | undefined)[] {
    const isBedrock = this.#route.api === 'bedrock'
    return claudeBlocks(message).map((block) => {
      if (block.kind === 'thinking') return this.#reasoning(block.text, { signature: block.signature })
      if (!isSendable(block.kind, this.#route.api)) return undefined
      return this.#reasoning('', { [isBedrock ? 'redactedContent' : 'redactedData']: block.data })
    })
  }

  /**
   * Reasoning that was received as plain text. Servers that need it beside calls take a blank one where it is
   * not known.
   */
  #plainReasoning(message: Message): Record<string, string> {
    const { reasoning, needsReasoning } = this.#capabilities
    const isSame = reasoning === 'same'
    const member = isSame ? this.#reasoningMember : reasoning
    if (this.#route.api !== 'compatible' || (member !== 'reasoning' && member !== 'reasoning_content'))
      return {}
    const isOwn = isSame ? this.#isFromHere(message) : isPlain(message)
    if (isOwn && message.reasoning_content) return { [member]: message.reasoning_content }
    return (isSame || needsReasoning) && message.tool_calls?.length ? { [member]: noReasoning } : {}
  }

  #isFromHere(message: Message): boolean {
    return this.#server !== undefined && decodeOrigin(message)?.server === this.#server
  }

  /** An item that the server does not store needs its encrypted content. */
  #reasoningItem(item: Message['responses_reasoning_item']): AssistantPart[] {
    const encrypted = item?.encrypted_content
    if (!item || !encrypted) return []
    const own = { ...(item.id ? { itemId: item.id } : {}), reasoningEncryptedContent: encrypted }
    const summaries = item.summary.length > 0 ? item.summary : ['']
    return summaries.map((summary) => this.#reasoning(summary, own))
  }

  #itemsBefore(message: Message, call: number): AssistantPart[] {
    if (this.#route.api !== 'responses') return []
    return decodeProviderMetadata(message, 'openai')
      .filter(({ kind, index }) => kind === 'item' && index === call)
      .flatMap(({ value }) => this.#reasoningItem(parseItem(value)))
  }

  #textParts(message: Message): AssistantPart[] {
    const texts = message.content.filter((part) => part.type === 'text')
    return texts.flatMap((part, index): AssistantPart[] => {
      if (part.text === '') return []
      const own = this.#pieceMetadata(message, 'text', index)
      return [{ type: 'text', text: part.text, ...this.#cacheMark(part, own) }]
    })
  }

  #call(message: Message, call: MessageToolCall, index: number): AssistantPart {
    const own = this.#pieceMetadata(message, 'call', index)
    return {
      type: 'tool-call',
      toolCallId: this.#open[index]?.sentId ?? fitCallId(call.id, this.#capabilities.callIds),
      toolName: fitToolName(call.name),
      input: this.#input(call.arguments),
      ...this.#options(own),
    }
  }

  /** Metadata of a text or call: Google's signature, OpenAI's phase. */
  #pieceMetadata(message: Message, kind: 'text' | 'call', index: number): Record<string, string> {
    const { api } = this.#route
    const owner = api === 'responses' ? 'openai' : 'google'
    const isFromHere = api === 'compatible' && this.#isFromHere(message)
    if (api !== 'responses' && api !== 'google' && !isFromHere) return {}
    const found = decodeProviderMetadata(message, owner).find(
      (one) => one.kind === kind && one.index === index,
    )
    if (found === undefined) return {}
    return owner === 'openai' ? { phase: found.value } : { thoughtSignature: found.value }
  }

  #ending(message: Message): AssistantPart[] {
    if (this.#route.api !== 'google') return []
    return decodeProviderMetadata(message, 'google')
      .filter(({ kind }) => kind === 'end')
      .map(({ value }) => ({ type: 'text', text: '', ...this.#options({ thoughtSignature: value }) }))
  }

  #openRouterDetails(message: Message): ProviderOptions[string] {
    if (this.#capabilities.reasoning !== 'reasoning_details') return {}
    const details = parseJsonObject(decodeProviderMetadata(message, 'openrouter')[0]?.value ?? '')?.details
    return Array.isArray(details) ? { reasoning_details: details } : {}
  }

  /** The received text where the library accepts a text, else an object. */
  #input(received: string): unknown {
    const value = parseJsonObject(received)
    if (value === undefined) return {}
    const { api, provider } = this.#route
    const takesText =
      api === 'compatible' || ((api === 'chat' || api === 'responses') && provider !== 'azure')
    if (!takesText) return value
    const fitted = wellFormed(value)
    return fitted === value ? received : JSON.stringify(fitted)
  }

  #tool(message: Message): void {
    const id = message.tool_call_id ?? ''
    const at = this.#open.findIndex((call) => call.id === id)
    const [call] = at < 0 ? [] : this.#open.splice(at, 1)
    const part: ResultPart = {
      type: 'tool-result',
      toolCallId: call?.sentId ?? fitCallId(id, this.#capabilities.callIds),
      toolName: fitToolName(call?.name ?? message.name ?? 'tool'),
      output: this.#output(message, call?.sentId ?? id),
      ...(this.#cacheMarked.has(message) ? this.#options(this.#markOptions()) : {}),
    }
    const last = this.#prompt.at(-1)
    if (last?.role === 'tool') last.content.push(part)
    else this.#prompt.push({ role: 'tool', content: [part] })
  }

  #output(message: Message, id: string): ResultPart['output'] {
    const parts = message.content.flatMap((part): UserPart[] =>
      part.type === 'image'
        ? imageParts(part, this.#imageSupport)
        : part.text === ''
          ? []
          : [text(part.text)],
    )
    const files = parts.filter((part) => part.type === 'file')
    const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []))
    if (files.length === 0) return { type: 'text', value: texts.join('\n') }
    const { api } = this.#route
    if (api !== 'chat' && api !== 'compatible') return { type: 'content', value: parts }
    this.#pendingImages.push(text(`Images of the result of the call ${id}:`), ...files)
    return { type: 'text', value: [...texts, '[Its images follow below.]'].join('\n') }
  }

  #flushImages(): void {
    if (this.#pendingImages.length === 0) return
    this.#prompt.push({ role: 'user', content: this.#pendingImages })
    this.#pendingImages = []
  }

  /** Providers repeat their own ids, and refuse repeated ids. */
  #uniqueId(id: string): string {
    const { callIds } = this.#capabilities
    let fitted = fitCallId(id, callIds)
    for (let count = 2; this.#usedIds.has(fitted); count++) fitted = fitCallId(`${id}-${count}`, callIds)
    this.#usedIds.add(fitted)
    return fitted
  }

  #reasoning(value: string, own?: Record<string, string>): AssistantPart {
    return { type: 'reasoning', text: value, ...(own === undefined ? {} : this.#options(own)) }
  }

  #cacheMark(part: Content, own: Record<string, string> = {}): { providerOptions?: ProviderOptions } {
    return this.#options(this.#cacheMarked.has(part) ? { ...own, ...this.#markOptions() } : own)
  }

  #markOptions(): ProviderOptions[string] {
    const { cacheMarks } = this.#capabilities
    return { [cacheMarks]: { type: cacheMarks === 'cachePoint' ? 'default' : 'ephemeral' } }
  }

  /** Gemini behind an OpenAI-like server reads its signatures from the library's own place for them. */
  #options(own: ProviderOptions[string]): { providerOptions?: ProviderOptions } {
    if (Object.keys(own).length === 0) return {}
    const key = this.#route.api === 'compatible' && 'thoughtSignature' in own ? 'google' : this.#key
    return { providerOptions: { [key]: own } }
  }
}

function text(value: string): { type: 'text'; text: string } {
  return { type: 'text', text: value }
}

/** It belongs to no provider. */
function isPlain(message: Message): boolean {
  const isFree = message.thinking_blocks.length === decodeProviderMetadata(message, 'compatible').length
  return isFree && !message.responses_reasoning_item
}

/** A reasoning item that was carried; a log from elsewhere may hold anything there. */
function parseItem(value: string): Message['responses_reasoning_item'] {
  const { id, summary, encrypted_content } = parseJsonObject(value) ?? {}
  return {
    id: typeof id === 'string' ? id : undefined,
    summary: Array.isArray(summary) ? summary.map(String) : [],
    encrypted_content: typeof encrypted_content === 'string' ? encrypted_content : undefined,
  }
}

/** Of texts and images, and of tool results as wholes. */
function selectCacheMarks(messages: readonly Message[]): ReadonlySet<Content | Message> {
  const found = messages.flatMap((message): (Content | Message)[] => {
    const own = message.content.filter((part) => part.cache_prompt && !isEmpty(part))
    if (message.role !== 'tool') return own
    return own.length > 0 ? [message] : []
  })
  const selected = found.length <= maxMarks ? found : [...found.slice(0, 1), ...found.slice(1 - maxMarks)]
  return new Set(selected)
}

function isEmpty(part: Content): boolean {
  return part.type === 'text' ? part.text === '' : part.image_urls.length === 0
}
