import type { WireVersion } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { ModelReply } from '../../llm/model.ts'
import { Secrets } from '../../secrets/secrets.ts'
import { ServerQuestions } from '../confirm/server-questions.ts'
import { recordEvents, stateUpdate } from '../events/event-drafts.ts'
import { eventFormatter } from '../events/event-format.ts'
import { redactEvent } from '../events/redact-event.ts'
import { type TransientUpdate, TransientUpdates } from '../events/transient-updates.ts'
import { ConversationWriter } from '../events/writer.ts'
import { Checkpoints } from '../state/checkpoints.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import type { ConversationState } from '../state/state.ts'
import { UsageStats } from '../state/usage-stats.ts'
import { ConversationLeftOut } from './conversation-left-out.ts'
import { ConversationSettings } from './conversation-settings.ts'
import type { ConversationDeps, ConversationStore } from './deps.ts'

/**
 * What becomes of a run that its process left unfinished; every unanswered call gets an error in any case.
 */
export type CutRun =
  | 'paused'
  /** Its status stays `running`: the caller continues it by `run`. */
  | 'continued'
  /** The same, that many times within one run; after that it is an error. */
  | { readonly maxRecoveries: number }

export interface OpenConversationOptions {
  readonly id: string
  readonly settings: ResolvedSettings
  readonly deps: ConversationDeps
  readonly store: ConversationStore
  /** Selects the members and kinds of its events; default `seed`. */
  readonly wire?: WireVersion
  /** Listeners may subscribe before it opens and stay after it closes. */
  readonly transientUpdates?: TransientUpdates
  /** `paused` unless passed. */
  readonly cutRun?: CutRun
}

type Decide = (now: ConversationState) => readonly EventDraft[] | Promise<readonly EventDraft[]>

/** What the parts of an open conversation share. */
export interface ConversationContext {
  readonly id: string
  readonly deps: ConversationDeps
  readonly store: ConversationStore
  readonly wire: WireVersion
  readonly writer: ConversationWriter
  readonly checkpoints: Checkpoints
  readonly settings: ConversationSettings
  readonly secrets: Secrets
  readonly stats: UsageStats
  /** What servers refused in its requests. */
  readonly leftOut: ConversationLeftOut
  readonly transientUpdates: TransientUpdates
  /** What MCP servers ask the user. */
  readonly questions: ServerQuestions
  /** Aborted when the conversation closes. */
  readonly closing: AbortController
  readonly state: ConversationState
  publish(update: TransientUpdate): void
  /** Appends what `decide` returns. A Problem `busy` while an import holds the conversation. */
  append(decide: Decide): Promise<void>
  /** Appends what `decide` returns; waits while an import holds the conversation. */
  appendPatiently(decide: Decide): Promise<void>
  /**
   * Like `appendPatiently`; stores the usage statistics in the same transaction, and first what requests go
   * without from now on.
   */
  appendWithUsage(decide: Decide): Promise<void>
  /**
   * Adds the use of a model beside the agent loop: appends completion log and token ids, stores and publishes
   * the statistics.
   */
  recordUsage(reply: ModelReply, usageId: string): Promise<void>
  saveUsage(): Promise<void>
  /** The statistics as an event of the log, in conversations whose wire has it. */
  usageEvents(): readonly EventDraft[]
  publishUsage(): void
}

/** Reads the conversation's log on from the newest checkpoint. */
export async function openContext(options: OpenConversationOptions): Promise<ConversationContext> {
  const { id, deps, store, wire = 'seed', transientUpdates = new TransientUpdates() } = options
  const secrets = collectSecrets(id, options.settings, deps)
  const checkpoints = new Checkpoints(store.snapshot)
  const writer = await ConversationWriter.open(id, deps.log, {
    redact: (draft) => redactEvent(draft, secrets),
    format: eventFormatter(wire),
    checkpoints: () => checkpoints.all,
    clock: deps.clock,
  })
  const settings = new ConversationSettings(options.settings, writer, store)
  const stats = new UsageStats(store.stats)
  const usageRecord = () => ({ stats: stats.toRecord() })
  const isPatient = true
  const isStored = wire === 'current'
  const leftOut = new ConversationLeftOut(() => writer.state)
  const append = async (decide: Decide, writeOptions = {}) => {
    await writer.write(async (now) => ({ events: await decide(now) }), writeOptions)
  }
  const context: ConversationContext = {
    ...{ id, deps, store, wire, writer, checkpoints, settings, secrets, stats, leftOut, transientUpdates },
    closing: new AbortController(),
    get questions() {
      return questions
    },
    get state() {
      return writer.state
    },
    publish: (update) => transientUpdates.publish(update, writer.state.position),
    append: (decide) => append(decide),
    appendPatiently: (decide) => append(decide, { isPatient }),
    appendWithUsage: async (decide) => {
      const events = async (now: ConversationState) => [...leftOut.drafts(now), ...(await decide(now))]
      await writer.write(async (now) => ({ events: await events(now), record: usageRecord() }), { isPatient })
    },
    recordUsage: async (reply, usageId) => {
      stats.addReply(reply, usageId, deps.clock.now() * 1000)
      const events = [...recordEvents(reply, usageId), ...context.usageEvents()]
      await writer.write((now) => ({ events: [...leftOut.drafts(now), ...events], record: usageRecord() }))
      context.publish({ kind: 'stats', value: stats.snapshot(), isAside: true, isStored })
    },
    saveUsage: async () => {
      await writer.write(() => ({ events: [], record: usageRecord() }))
    },
    usageEvents: () => (isStored ? [stateUpdate('stats', stats.snapshot())] : []),
    publishUsage: () => context.publish({ kind: 'stats', value: stats.snapshot(), isStored }),
  }
  const { appendPatiently, closing } = context
  const questions = new ServerQuestions({
    secrets,
    clock: deps.clock,
    closing: closing.signal,
    appendPatiently,
  })
  return context
}

function collectSecrets(
  id: string,
  settings: ResolvedSettings,
  { redactedValues = [], resolveServerSecret, lookupFetch, server, clock, logLine }: ConversationDeps,
): Secrets {
  const sources = { ...settings.agent.agent_context?.secrets, ...settings.secrets }
  const secrets = new Secrets(sources, {
    resolveServerSecret,
    fetch: lookupFetch,
    serverPort: server?.port,
    clock,
    onFailure: (secret, reason) =>
      logLine('warn', 'a secret could not be fetched', { conversation: id, secret, reason }),
  })
  secrets.addValuesFrom(settings.agent)
  secrets.addValuesFrom(settings.agent_definitions)
  for (const value of redactedValues) secrets.addValue(value)
  return secrets
}
