import type { Conversation, DoorSettings, ResolvedSettings, TurnSettings } from '@slipway/agent'
import { type Llm, Problem, parseClientCallId, parseResponseId, refusedMember } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { ConversationRecord, Storage } from '@slipway/storage'
import type { ClientResult } from './prompt.ts'
import { type GatewayRequest, replaceableMembers } from './request.ts'
import { findClientCall, type ResponseView, readResponse, readTurn } from './response-log.ts'
import { isInProgress } from './response-resource.ts'

/** Where a request continues. */
export interface Source {
  readonly record: ConversationRecord
  /** The last event of what it builds on. */
  readonly end: string
  /** Nothing was said after that event. */
  readonly isLast: boolean
  /** Of a request that names a response. */
  readonly response?: ResponseView | undefined
}

/**
 * The response that a request names, or the calls that it answers; undefined when it begins something new.
 */
export async function findSource(storage: Storage, request: GatewayRequest): Promise<Source | undefined> {
  const { previousResponseId: id, prompt } = request
  if (id === undefined) return await findCalls(storage, prompt.results)
  const place = parseResponseId(id)
  const response = place && (await readResponse(storage, place))
  if (response === undefined)
    throw refusedMember(
      'previous_response_id',
      `Previous response with id '${firstChars(id, 100)}' not found.`,
    )
  if (isInProgress(response))
    throw new Problem('conflict', 'The previous response is in progress. Ask again when it is over.')
  for (const result of prompt.results) assertAnswers(response, result)
  const { record, isLast, end = response.start } = response
  return { record, end: end.id, isLast, response }
}

function assertAnswers({ items }: ResponseView, { callId, param }: ClientResult): void {
  if (items.some(({ call_id }) => call_id === callId)) return
  const name = firstChars(callId, 100)
  throw refusedMember(param, `No tool call found for function call output with call_id ${name}.`)
}

/** The conversation that has called, if it still has the calls; otherwise their results are sent as texts. */
async function findCalls(storage: Storage, results: readonly ClientResult[]): Promise<Source | undefined> {
  const places = results.map(({ callId }) => parseClientCallId(callId))
  const [first] = places
  if (first === undefined || places.some((place) => place?.conversation !== first.conversation))
    return undefined
  const [record] = await storage.conversations.get([first.conversation])
  if (record === undefined) return undefined
  const calls = await Promise.all(
    places.map((place) => (place === undefined ? undefined : findClientCall(storage, place))),
  )
  const last = calls.toSorted((a, b) => (b?.position ?? 0) - (a?.position ?? 0))[0]
  if (last === undefined || calls.includes(undefined)) return undefined
  const turn = await readTurn(storage, record.id, { after: last.position - 1 })
  return { record, end: turn.end?.id ?? last.id, isLast: turn.isLast }
}

/** What the settings of the conversation have to be for the request; undefined when they may stay. */
export function turnSettings(
  { settings }: Conversation,
  request: GatewayRequest,
  options: {
    /** The model of the request, where it counts. */
    readonly model: { readonly name: string; readonly llm: Llm } | undefined
    /** The log may be older than the settings. */
    readonly isCopy: boolean
    /** Undefined: as it is. */
    readonly suffix: { readonly text: string | undefined } | undefined
  },
): TurnSettings | undefined {
  const { clientTools, requiredTools, responseSchema, llm: members } = request.options
  const replacing = definedMembers(members)
  const isPlain =
    Object.keys(replacing).length === 0 && clientTools === undefined && responseSchema === undefined
  const { model, suffix } = options
  if (isPlain && model === undefined && suffix === undefined && settings.door === undefined) return undefined
  const base = model?.llm ?? restored(settings)
  const { client_tools, response_schema } = settings
  const own =
    settings.door === undefined ? definedMembers({ client_tools, response_schema }) : settings.door.own
  const replaced = replaceableMembers
    .filter((name) => Object.hasOwn(replacing, name))
    .map((name) => [name, base[name] ?? null])
  const door: DoorSettings = {
    waits_for_client: clientTools === undefined ? undefined : true,
    required_tools: requiredTools,
    cuts_replies: Object.hasOwn(replacing, 'max_output_tokens') || undefined,
    replaced: Object.fromEntries(replaced),
    own,
    profile: model?.name ?? settings.door?.profile,
  }
  return {
    llm: { ...base, ...replacing } as Llm, // members of a model, which the request has checked
    suffix: suffix === undefined ? settings.agent.agent_context?.system_message_suffix : suffix.text,
    clientTools: clientTools ?? own?.client_tools,
    responseSchema: responseSchema ?? own?.response_schema,
    door,
    isCopy: options.isCopy,
  }
}

/** The model as it was before the last request replaced members of it. */
function restored({ agent, door }: ResolvedSettings): Llm {
  const before = Object.entries(door?.replaced ?? {}).map(([name, value]) => [name, value ?? undefined])
  return { ...agent.llm, ...Object.fromEntries(before) }
}
