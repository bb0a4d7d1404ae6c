import { formatInstant, parseInstant } from '@slipway/protocol'
import {
  contentImages,
  contentText,
  exitCode,
  isFailure,
  observationText,
  recordOf,
  textOf,
  type WireEvent,
} from '@slipway/protocol/event-text'
import { definedMembers, isRecord, parseJson } from '@slipway/shared/json'
import ownPackage from '../../../../package.json' with { type: 'json' }
import type { WriteFormat } from './format.ts'
import { shownEvents } from './shown-events.ts'

/**
 * ATIF, the trajectory format of Harbor (RFC 0001, version 1.8): one JSON document of steps. The calls of one
 * reply of a model are one step, with their results. A step is written when the next one begins, so memory is
 * that of one reply. A result whose call is in an earlier step is a step of the system that names the call.
 * Events without a step (updates of the state, pauses, logs of completions) are counted in `notes`.
 */
export const writeAtif: WriteFormat = async function* ({ record, batches, infoReader }) {
  const info = await infoReader.readInfo(record)
  const head = { schema_version: 'ATIF-v1.8', session_id: record.id, trajectory_id: record.id }
  yield Buffer.from(`${JSON.stringify(head).slice(0, -1)},"steps":[`)
  const steps = new Steps()
  for await (const events of batches) {
    for (const { event } of shownEvents(events)) steps.add(event)
    yield Buffer.from(steps.take())
  }
  steps.finish()
  yield Buffer.from(steps.take())
  const model = textOf(recordOf(recordOf(recordOf(info).agent).llm).model)
  const { toolDefinitions, notes } = steps
  const agent = { name: 'slipway', version: ownPackage.version }
  const tail = {
    agent: { ...agent, ...definedMembers({ model_name: model, tool_definitions: toolDefinitions }) },
    final_metrics: finalMetrics(recordOf(recordOf(info).metrics), steps.count),
    ...definedMembers({ notes }),
    ...(record.title === null ? {} : { extra: { title: record.title } }),
  }
  yield Buffer.from(`],${JSON.stringify(tail).slice(1)}\n`)
}

interface Result {
  readonly source_call_id?: string
  readonly content: string
  readonly extra?: Readonly<Record<string, unknown>>
}

interface AgentStep {
  readonly source: 'agent'
  readonly timestamp: string | undefined
  readonly message: string
  readonly reasoning_content: string | undefined
  readonly tool_calls: {
    readonly tool_call_id: string
    readonly function_name: string
    readonly arguments: Readonly<Record<string, unknown>>
  }[]
  readonly results: Result[]
}

/** Makes steps of events, in order. */
class Steps {
  #texts: string[] = []
  #open: { readonly response: string; readonly step: AgentStep } | undefined
  readonly #omitted = new Map<string, number>()
  count = 0
  toolDefinitions: readonly unknown[] | undefined

  /** The text of the steps that are whole and were not taken yet. */
  take(): string {
    const text = this.#texts.join('')
    this.#texts = []
    return text
  }

  get notes(): string | undefined {
    if (this.#omitted.size === 0) return undefined
    const counts = [...this.#omitted].map(([kind, count]) => `${count} ${kind}`)
    return `Events without a step: ${counts.join(', ')}.`
  }

  add(event: WireEvent): void {
    switch (event.kind) {
      case 'ActionEvent':
        this.#addCall(event)
        break
      case 'ObservationEvent':
      case 'AgentErrorEvent':
      case 'UserRejectObservation':
        this.#addResult(event)
        break
      case 'SystemPromptEvent':
        if (Array.isArray(event.tools)) this.toolDefinitions = event.tools.flatMap(toolDefinition)
        this.#addStep(event, 'system', contentText([event.system_prompt, event.dynamic_context]))
        break
      case 'MessageEvent':
        this.#addMessage(event)
        break
      case 'Condensation':
      case 'ConversationErrorEvent':
        this.#addStep(event, 'system', textOf(event.summary ?? event.detail) ?? '', {
          extra: definedMembers({ kind: event.kind, code: textOf(event.code) }),
        })
        break
      default:
        this.#omitted.set(event.kind, (this.#omitted.get(event.kind) ?? 0) + 1)
    }
  }

  /** A trajectory has at least one step. */
  finish(): void {
    this.#end()
    if (this.count === 0) this.#write({ source: 'system', message: 'The conversation has no steps.' })
  }

  #end(): void {
    if (this.#open === undefined) return
    const { results, reasoning_content, timestamp, ...step } = this.#open.step
    this.#open = undefined
    const observation = results.length === 0 ? undefined : { results }
    this.#write({ ...step, ...definedMembers({ timestamp, reasoning_content, observation }) })
  }

  #addMessage(event: WireEvent): void {
    const message = recordOf(event.llm_message)
    const text = withImages(message.content)
    const source = event.source === 'agent' ? 'agent' : event.source === 'user' ? 'user' : 'system'
    const reasoning = source === 'agent' ? textOf(message.reasoning_content) : undefined
    this.#addStep(event, source, text, definedMembers({ reasoning_content: reasoning }))
  }

  #addCall(event: WireEvent): void {
    const response = textOf(event.llm_response_id) ?? ''
    if (response === '' || this.#open?.response !== response) {
      this.#end()
      const step: AgentStep = {
        source: 'agent',
        timestamp: timestampOf(event),
        message: contentText(event.thought),
        reasoning_content: textOf(event.reasoning_content),
        tool_calls: [],
        results: [],
      }
      this.#open = { response, step }
    }
    this.#open?.step.tool_calls.push({
      tool_call_id: textOf(event.tool_call_id) ?? '',
      function_name: textOf(event.tool_name) ?? '',
      arguments: callArguments(event),
    })
  }

  #addResult(event: WireEvent): void {
    const id = textOf(event.tool_call_id) ?? ''
    const observation = recordOf(event.observation)
    const text = textOf(event.error) ?? textOf(event.rejection_reason) ?? observationText(observation)
    const images = contentImages(observation.content).map(imageText)
    const content = [text, ...images].filter((part) => part !== '').join('\n')
    const facts = definedMembers({ exit_code: exitCode(event), is_error: isFailure(event) || undefined })
    const step = this.#open?.step
    if (step?.tool_calls.some((call) => call.tool_call_id === id)) {
      step.results.push({
        ...{ source_call_id: id, content },
        ...(Object.keys(facts).length === 0 ? {} : { extra: facts }),
      })
    } else {
      const results: Result[] = [{ content, extra: { ...facts, tool_call_id: id } }]
      this.#addStep(event, 'system', '', { observation: { results } })
    }
  }

  #addStep(event: WireEvent, source: string, message: string, members: object = {}): void {
    this.#end()
    this.#write({ source, message, ...definedMembers({ timestamp: timestampOf(event) }), ...members })
  }

  #write(step: object): void {
    this.count += 1
    const comma = this.count === 1 ? '' : ','
    this.#texts.push(`${comma}\n${JSON.stringify({ step_id: this.count, ...step })}`)
  }
}

/** Timestamps of imported logs may be any text: one that is no instant is left out. */
function timestampOf({ timestamp }: WireEvent): string | undefined {
  const instant = parseInstant(String(timestamp))
  return instant === undefined ? undefined : formatInstant(instant)
}

function callArguments(event: WireEvent): Readonly<Record<string, unknown>> {
  const text = recordOf(event.tool_call).arguments
  const value = typeof text === 'string' ? parseJson(text) : text
  if (isRecord(value)) return value
  const { kind: _, ...action } = recordOf(event.action)
  return action
}

function toolDefinition(tool: unknown): unknown[] {
  const { title, name, description, parameters } = recordOf(tool)
  const annotation = recordOf(recordOf(tool).annotations).title
  const found = textOf(name) ?? textOf(title) ?? textOf(annotation)
  if (found === undefined) return []
  return [{ type: 'function', function: { name: found, ...definedMembers({ description, parameters }) } }]
}

function withImages(content: unknown): string {
  return [contentText(content), ...contentImages(content).map(imageText)]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** Pictures are files beside a trajectory; this is one file. */
function imageText(url: string): string {
  return `[image: ${/^data:([\w/+.-]+)/.exec(url)?.[1] ?? url}]`
}

function finalMetrics(metrics: Readonly<Record<string, unknown>>, steps: number): object {
  const usage = recordOf(metrics.accumulated_token_usage)
  const integer = (value: unknown) => (Number.isSafeInteger(value) ? value : undefined)
  const cost = metrics.accumulated_cost
  return definedMembers({
    total_prompt_tokens: integer(usage.prompt_tokens),
    total_completion_tokens: integer(usage.completion_tokens),
    total_cached_tokens: integer(usage.cache_read_tokens),
    total_cost_usd: typeof cost === 'number' ? cost : undefined,
    total_steps: steps,
  })
}
