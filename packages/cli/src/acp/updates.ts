import type { ContentBlock, SessionUpdate, ToolCallStatus } from '@agentclientprotocol/sdk/unstable'
import type { TransientUpdate } from '@slipway/client'
import { asObject, asString, type JsonObject } from '../output/action-text.ts'
import { summarizeEvent } from '../output/event-line.ts'
import { contentTexts, textContent, toToolCall, toToolResult } from './tool-calls.ts'

/**
 * Events and transient updates of a conversation as updates of an editor's session. Streamed text is not
 * repeated with its event; missing deltas are completed.
 */
export class SessionUpdates {
  #streamed = { content: '', reasoning_content: '' }
  /** Ids of actions without a result, by the ids of their calls: errors name the call alone. */
  readonly #openCalls = new Map<string, string>()
  /** Ids of the calls of an external agent that have begun. */
  readonly #externalCalls = new Set<string>()

  fromUpdate(update: TransientUpdate): SessionUpdate[] {
    if (update.kind === 'StreamingResetEvent') return this.#reset()
    if (update.kind === 'ConversationStateUpdateEvent') return stateUpdates(update.key, update.value)
    const { content = '', reasoning_content = '' } = update
    this.#streamed.content += content
    this.#streamed.reasoning_content += reasoning_content
    return [...thought(reasoning_content), ...said(content)]
  }

  /** Accepts any JSON value: stored events of other versions have their own kinds and shapes. */
  fromEvent(event: JsonObject): SessionUpdate[] {
    switch (event.kind) {
      case 'MessageEvent':
        return this.#message(event)
      case 'ActionEvent':
        return this.#action(event)
      case 'ObservationEvent':
        return this.#result(event)
      case 'UserRejectObservation':
        return this.#failure(asString(event.action_id), summarizeEvent(event).summary)
      case 'AgentErrorEvent':
        return this.#callError(event)
      case 'ACPToolCallEvent':
        return this.#externalCall(event)
      case 'ConversationErrorEvent':
        this.#endReply()
        return said(`${asString(event.code)}: ${asString(event.detail)}\n`)
      case 'ConversationStateUpdateEvent':
        if (event.key === 'leaf_event_id') this.#endReply()
        return stateUpdates(asString(event.key), event.value)
      default:
        return []
    }
  }

  #reset(): SessionUpdate[] {
    const isShown = this.#streamed.content !== ''
    this.#endReply()
    return isShown ? said('\n\n(The answer broke off and begins again.)\n\n') : []
  }

  #endReply(): void {
    this.#streamed = { content: '', reasoning_content: '' }
  }

  #message(event: JsonObject): SessionUpdate[] {
    const message = asObject(event.llm_message)
    if (event.source === 'agent') return this.#reply(message.reasoning_content, contentTexts(message.content))
    if (event.source !== 'user') return []
    const parts = Array.isArray(message.content) ? message.content.map(asObject) : []
    return parts.flatMap(contentBlocks).map((content) => ({ sessionUpdate: 'user_message_chunk', content }))
  }

  /** What the model thought and said, of which a part may have been streamed. */
  #reply(reasoning: unknown, texts: readonly string[]): SessionUpdate[] {
    const { content, reasoning_content } = this.#streamed
    this.#endReply()
    return [
      ...thought(remainder(reasoning_content, asString(reasoning))),
      ...said(remainder(content, texts.join(''))),
    ]
  }

  #action(event: JsonObject): SessionUpdate[] {
    const action = asObject(event.action)
    const reply = this.#reply(event.reasoning_content, contentTexts(event.thought))
    const id = asString(event.id)
    if (action.kind === 'FinishAction') return [...reply, ...said(asString(action.message))]
    if (action.kind === 'ThinkAction') return [...reply, ...thought(asString(action.thought))]
    this.#openCalls.set(asString(event.tool_call_id), id)
    const plan = planOf(action)
    return [...reply, { sessionUpdate: 'tool_call', ...toToolCall(event) }, ...plan]
  }

  #result(event: JsonObject): SessionUpdate[] {
    const observation = asObject(event.observation)
    // These say again what their action says.
    if (/^(Finish|Think)Observation$/.test(asString(observation.kind))) return []
    this.#openCalls.delete(asString(event.tool_call_id))
    return [{ sessionUpdate: 'tool_call_update', ...toToolResult(asString(event.action_id), observation) }]
  }

  #callError(event: JsonObject): SessionUpdate[] {
    const call = asString(event.tool_call_id)
    const id = this.#openCalls.get(call)
    this.#openCalls.delete(call)
    return id === undefined ? [] : this.#failure(id, asString(event.error))
  }

  #failure(toolCallId: string, reason: string): SessionUpdate[] {
    return [
      { sessionUpdate: 'tool_call_update', toolCallId, status: 'failed', content: [textContent(reason)] },
    ]
  }

  /** A call of an external agent, which has the shape of this protocol already. */
  #externalCall(event: JsonObject): SessionUpdate[] {
    const { tool_call_id, title, status, content, raw_input, raw_output } = event
    const toolCallId = asString(tool_call_id)
    const isNew = !this.#externalCalls.has(toolCallId)
    this.#externalCalls.add(toolCallId)
    const texts = (Array.isArray(content) ? content : [])
      .map((block) => asString(asObject(asObject(block).content).text) || asString(asObject(block).path))
      .filter((text) => text !== '')
    const members = {
      ...{ toolCallId, title: asString(title), status: callStatuses.get(status) ?? 'in_progress' },
      ...(texts.length === 0 ? {} : { content: texts.map(textContent) }),
      ...(raw_input == null ? {} : { rawInput: raw_input }),
      ...(raw_output == null ? {} : { rawOutput: raw_output }),
    }
    return [{ sessionUpdate: isNew ? 'tool_call' : 'tool_call_update', ...members }]
  }
}

const callStatuses: ReadonlyMap<unknown, ToolCallStatus> = new Map(
  (['pending', 'in_progress', 'completed', 'failed'] as const).map((status) => [status, status]),
)

/** What is left of a text of which the beginning has been sent. */
function remainder(sent: string, whole: string): string {
  return whole.startsWith(sent) ? whole.slice(sent.length) : whole
}

export function said(text: string): SessionUpdate[] {
  return text === '' ? [] : [{ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } }]
}

function thought(text: string): SessionUpdate[] {
  return text === '' ? [] : [{ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } }]
}

function contentBlocks(part: JsonObject): ContentBlock[] {
  if (typeof part.text === 'string') return [{ type: 'text', text: part.text }]
  const urls = Array.isArray(part.image_urls) ? part.image_urls.map(asString) : []
  return urls.flatMap((url): ContentBlock[] => {
    const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? []
    if (mimeType !== undefined && data !== undefined) return [{ type: 'image', mimeType, data }]
    return URL.canParse(url) ? [{ type: 'resource_link', name: 'image', uri: url }] : []
  })
}

const taskStatuses = new Map([
  ['done', 'completed'],
  ['in_progress', 'in_progress'],
] as const)

/** The task list as the plan of the session. */
function planOf({ command, task_list }: JsonObject): SessionUpdate[] {
  if (command !== 'plan' || !Array.isArray(task_list)) return []
  const entries = task_list.map(asObject).map(({ title, status }) => ({
    content: asString(title),
    priority: 'medium' as const,
    status: taskStatuses.get(status as 'done') ?? ('pending' as const), // other values are not in the map
  }))
  return [{ sessionUpdate: 'plan', entries }]
}

function stateUpdates(key: string, value: unknown): SessionUpdate[] {
  switch (key) {
    case 'title':
      return [{ sessionUpdate: 'session_info_update', title: asString(value) }]
    case 'stats':
      return usageUpdates(asObject(asObject(asObject(value).usage_to_metrics).agent))
    case 'model_notice':
    case 'left_out':
      return said(`${asString(asObject(value).text)}\n`)
    case 'leaf_event_id':
      return said('(The conversation went back to an earlier message.)\n')
    default:
      return []
  }
}

/** Tokens in the context and the cost so far, from the metrics of the agent's model. */
export function usageUpdates({ accumulated_cost, accumulated_token_usage }: JsonObject): SessionUpdate[] {
  const { per_turn_token: used, context_window: size } = asObject(accumulated_token_usage)
  if (typeof used !== 'number' || typeof size !== 'number' || size <= 0) return []
  const hasCost = typeof accumulated_cost === 'number' && accumulated_cost > 0
  const cost = hasCost ? { cost: { amount: accumulated_cost, currency: 'USD' } } : {}
  return [{ sessionUpdate: 'usage_update', used, size, ...cost }]
}
