import type { Handlers, Reply } from '@slipway/http'
import {
  type EventPlace,
  type gatewayRoutes,
  itemId,
  Problem,
  parseResponseId,
  type ResponsesRequest,
  refusedMember,
  responseId,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import type { Storage } from '@slipway/storage'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'
import type { Gateway, StartedTurn } from './gateway.ts'
import { readResponsesRequest } from './request.ts'
import { markId, parse, type ResponseView, readFacts, readResponse, responseKey } from './response-log.ts'
import { beginningResource, isInProgress, responseMembers, responseResource } from './response-resource.ts'
import { ResponseStream, type StreamEvent } from './response-stream.ts'
import { idHeader, startStream } from './stream-reply.ts'

interface ResponseDeps {
  readonly gateway: Gateway
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly removeConversation: (id: string) => Promise<unknown>
  readonly heartbeatMs: number
  readonly clock: Clock
}

type ResponseRoutes = Pick<
  typeof gatewayRoutes,
  'createResponse' | 'getResponse' | 'deleteResponse' | 'cancelResponse' | 'listInputItems'
>

const never = new AbortController().signal

/** Responses: parts of the logs of conversations, and what makes them. */
export function responseHandlers(deps: ResponseDeps): Handlers<ResponseRoutes> {
  const { storage } = deps
  return {
    async createResponse({ body, header, signal }) {
      const request = readResponsesRequest(body)
      const response = { members: responseMembers(body, request), input: inputItems(body) }
      const started = await deps.gateway.startTurn(request, {
        signal: body.background ? never : signal,
        ...{ header, response },
      })
      const headers = { [idHeader]: started.id }
      try {
        if (body.stream)
          return await streamResponse(deps, {
            started,
            headers,
            isStructured: request.options.responseSchema !== undefined,
          })
        if (body.background) return await backgroundResponse(deps, started, headers)
        await started.turn.complete()
        return { json: responseResource(await getResponse(storage, placeOf(started))), headers }
      } catch (error) {
        if (error instanceof Problem) return { refusal: error, headers }
        throw error
      } finally {
        if (!body.stream && !body.background) await started.finish()
      }
    },
    async getResponse({ params, query }) {
      if (query.stream === 'true')
        throw refusedMember('stream', 'A response is streamed when it is created only')
      return { json: responseResource(await findResponse(storage, params.response_id)) }
    },
    async deleteResponse({ params }) {
      await deleteResponse(deps, await findResponse(storage, params.response_id))
      return { json: { id: params.response_id, object: 'response', deleted: true } }
    },
    async cancelResponse({ params }) {
      const view = await findResponse(storage, params.response_id)
      if (!view.isCancelled) await cancelResponse(deps, view)
      return { json: responseResource(await getResponse(storage, view)) }
    },
    async listInputItems({ params, query }) {
      const { facts, ...place } = await findResponse(storage, params.response_id)
      const all = shownInput(facts.input, place)
      const ordered = query.order === 'asc' ? all : all.toReversed()
      const begin = query.after === undefined ? 0 : ordered.findIndex(({ id }) => id === query.after) + 1
      if (query.after !== undefined && begin === 0) throw refusedMember('after', 'There is no such item')
      const data = ordered.slice(begin, begin + query.limit)
      const ids = { first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null }
      return { json: { object: 'list', data, ...ids, has_more: begin + data.length < ordered.length } }
    },
  }
}

function placeOf({ id, event }: StartedTurn): EventPlace {
  return { conversation: id, event }
}

async function getResponse(storage: Storage, place: EventPlace): Promise<ResponseView> {
  const view = await readResponse(storage, place)
  if (view === undefined) throw unknownResponse(responseId(place.conversation, place.event))
  return view
}

/** A Problem `not_found` for an unknown id. */
async function findResponse(storage: Storage, id: string): Promise<ResponseView> {
  const place = parseResponseId(id)
  if (place === undefined) throw unknownResponse(id)
  return await getResponse(storage, place)
}

function unknownResponse(id: string): Problem {
  return new Problem('not_found', `Response with id '${firstChars(id, 100)}' not found.`)
}

/** The run continues; its response is read later. */
async function backgroundResponse(
  { storage }: ResponseDeps,
  started: StartedTurn,
  headers: Readonly<Record<string, string>>,
): Promise<Reply> {
  const { turn } = started
  void turn.complete().catch(() => undefined)
  await turn.sent
  return { json: beginningResource(await getResponse(storage, placeOf(started))), headers }
}

async function streamResponse(
  { storage, heartbeatMs, clock }: ResponseDeps,
  options: {
    readonly started: StartedTurn
    readonly headers: Readonly<Record<string, string>>
    readonly isStructured: boolean
  },
): Promise<Reply> {
  const { started, headers, isStructured } = options
  const { turn, id } = started
  const { conversation } = turn
  const stream = new ResponseStream({
    ...{ conversation, log: storage.log, after: conversation.state.position, isStructured, clock },
  })
  const run = turn.complete()
  // Its failure is read below, unless the caller or the conversation has gone before.
  run.catch(() => undefined)
  const stored = turn.sent.then(async () => await getResponse(storage, placeOf(started)))
  // What fails before the message is stored is answered with a status.
  const view = await stored.catch(async (error: unknown) => {
    stream[Symbol.dispose]()
    await run.catch(() => undefined)
    await started.finish()
    throw error
  })
  const begin = beginningResource(view)
  async function* events(): AsyncGenerator<StreamEvent | undefined> {
    using _ = stream
    try {
      yield { type: 'response.created', response: begin }
      yield { type: 'response.in_progress', response: begin }
      yield* stream.events(run, heartbeatMs)
      const timeout = await run.then(
        () => undefined,
        (error: unknown) => (error instanceof Problem && error.code === 'timeout' ? error : undefined),
      )
      const response = responseResource(
        await getResponse(storage, { conversation: id, event: started.event }),
      )
      await started.finish()
      if (timeout === undefined) yield { type: endType(response.status), response }
      else yield { type: 'error', ...streamError(timeout) }
    } catch (error) {
      // The conversation was deleted.
      if (!(error instanceof Problem)) throw error
      yield { type: 'error', ...streamError(error) }
    } finally {
      await started.finish()
    }
  }
  return await startStream(numbered(events()), headers)
}

function endType(status: string): string {
  return `response.${status === 'completed' || status === 'failed' ? status : 'incomplete'}`
}

function streamError({ message, code }: Problem) {
  const error = { type: 'server_error', code, message, param: null }
  return { code, message, param: null, error }
}

/** The lines of a stream of events, each with its number. */
async function* numbered(events: AsyncIterable<StreamEvent | undefined>): AsyncGenerator<string> {
  let sequence_number = 0
  for await (const event of events) {
    if (event === undefined) yield ': beat\n\n'
    else
      yield `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: sequence_number++ })}\n\n`
  }
  yield 'data: [DONE]\n\n'
}

/** Ends the run, and says in the log why. */
async function cancelResponse({ registry }: ResponseDeps, view: ResponseView): Promise<void> {
  if (!isInProgress(view)) throw refusedMember('response_id', 'The response is over: it cannot be cancelled.')
  const conversation = await registry.get(view.conversation)
  await conversation.record(
    `${responseKey}_cancelled`,
    responseId(view.conversation, view.event),
    markId(view, 'cancelled'),
  )
  await conversation.interrupt()
  await conversation.waitUntilIdle()
}

/**
 * With the last response of a conversation the conversation goes. While others are there, their log keeps the
 * events: a mark hides the response, and the conversation continues from before it if nothing follows it.
 */
async function deleteResponse(
  { storage, registry, removeConversation }: ResponseDeps,
  view: ResponseView,
): Promise<void> {
  if (isInProgress(view)) throw new Problem('conflict', 'The response is in progress. Cancel it first.')
  const { conversation: id, event } = view
  if (!(await hasOthers(storage, view))) return void (await removeConversation(id))
  const mark = { key: `${responseKey}_deleted`, value: responseId(id, event), id: markId(view, 'deleted') }
  const conversation = await registry.load(view.record)
  if (conversation === undefined) {
    const kind = { kind: 'ConversationStateUpdateEvent', source: 'environment' }
    await storage.log.append(id, [{ ...kind, ...mark }])
    return
  }
  await conversation.record(mark.key, mark.value, mark.id)
  const [before] = view.start.position > 1 ? await storage.log.read(id, view.start.position - 2, 1) : []
  if (view.isLast && before !== undefined) await conversation.navigate(before.id)
}

/** Whether the conversation has more than this response, apart from what it was copied from. */
async function hasOthers(storage: Storage, { conversation, event, record }: ResponseView): Promise<boolean> {
  const { forked_from_event_id: forkPoint } = JSON.parse(record.request ?? '{}')
  const [fork] = typeof forkPoint === 'string' ? await storage.log.get(conversation, [forkPoint]) : []
  let isOwnMessage = false
  for (let position = fork?.position ?? 0; ; ) {
    const events = await storage.log.read(conversation, position, 200)
    const last = events.at(-1)
    if (last === undefined) return false
    position = last.position
    for (const stored of events) {
      const { kind, source, ...rest } = parse(stored)
      if (readFacts({ kind, ...rest }) !== undefined) {
        const place = { conversation, event: stored.id }
        const [deleted] = await storage.log.get(conversation, [markId(place, 'deleted')])
        if (stored.id !== event && deleted === undefined) return true
        isOwnMessage = true
      } else if (kind === 'MessageEvent' && source === 'user') {
        if (!isOwnMessage) return true
        isOwnMessage = false
      }
    }
  }
}

/** The input in the form of items. */
function inputItems({ input }: ResponsesRequest): readonly unknown[] {
  if (typeof input !== 'string') return input
  return [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }]
}

function shownInput(input: unknown, place: EventPlace): { readonly id: string }[] {
  const items = Array.isArray(input) ? input.filter(isRecord) : []
  return items.map((item, index) => {
    const { content, role } = item
    const type = role === 'assistant' ? 'output_text' : 'input_text'
    const parts = typeof content === 'string' ? { content: [{ type, text: content }] } : {}
    const id = typeof item.id === 'string' ? item.id : `${itemId('msg', place)}_${index}`
    return { type: 'message', status: 'completed', ...item, ...parts, id }
  })
}
