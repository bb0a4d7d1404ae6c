/**
 * The conversations that this server has open.
 *
 * Problem: a conversation in memory has a writer, a run, a shell and other processes, so it must be open once
 * at most, on one server at most. There are many more conversations than memory has room for, and a run that
 * was cut by a crash continues.
 *
 * Idea: a conversation is opened when it is first needed and closed when it rests. What must survive that is
 * in the log and the record. Where servers share a database, a lease says who may open it.
 *
 * Invariants:
 * - A conversation is opened once: `load` looks into `#loaded` and writes its promise there without a wait in
 *   between, and waits for a close that is under way (`#closing`).
 * - The lease is acquired before the conversation is opened, and released after its close has ended, because
 *   a close writes (`close`).
 * - Nothing that runs, waits for a deadline or has listeners is closed for its rest (`isUnused`).
 * - Transient updates belong to the id and not to the open conversation: streams continue while it is closed.
 * - A run has a slot of the server. A conversation that runs a task uses that of its waiting parent: with its
 *   own, both could wait for each other (`#runSlotsFor`).
 * - A conversation that another server may have by now is closed with `isDeleted`, which writes nothing
 *   (`#abandon`, `#dropAll`). A server that ends alone closes and writes; one that shares its database leaves
 *   the runs to others.
 * - Settings that could not be read with this key are not sealed again (`isComplete`): they would be lost.
 *
 * If you change this: a conversation with two writers in one process. The log refuses the second one by its
 * position, so what is seen is a run that stops and processes that run twice.
 *
 * Decision pages: docs/decisions/0034-cut-runs.md, docs/decisions/0028-conversation-leases.md
 */

import {
  type Conversation,
  type ConversationDeps,
  type ConversationStore,
  type CutRun,
  conversationFolder,
  loadOpenModel,
  openConversation,
  TransientUpdates,
} from '@slipway/agent'
import { type Llm, type LogFunction, Problem } from '@slipway/protocol'
import { raceAbort, Semaphore } from '@slipway/shared/async'
import { createCounter } from '@slipway/shared/metrics'
import { repeat, type Timer } from '@slipway/shared/time'
import {
  type Cipher,
  type ConversationRecord,
  type EventLog,
  HeldElsewhereError,
  type Storage,
} from '@slipway/storage'
import { parseSecretPath, type ServerSecrets } from '../secrets/server-secrets.ts'
import { closeResting, isUnused, type Rester, restMs } from './close-resting.ts'
import { conversationNotFound, getConversationRecord } from './conversation-info.ts'
import type { ConversationParts } from './parts.ts'
import { listByStatus, Recovery } from './recovery.ts'
import { RunAdmission } from './run-admission.ts'
import { SealedSettings } from './sealed-settings.ts'
import { type ConversationOrigin, readStoredRequest } from './stored-request.ts'
import { readTask, TaskConversations } from './task-conversations.ts'

/** Tools that run when a sandbox is about to be paused may continue for so long. */
const pauseMs = 4_000
/** Between two attempts to give a lease back while the database is away. */
const releaseRetryMs = 500
/** Longest interval between two sweeps for idle conversations. */
const maxSweepIntervalMs = 30_000
const sealedWithOtherKeyText =
  'The settings of this conversation were sealed with another key, so they cannot be changed. Start the server with that SLIPWAY_SECRET_KEY.'

interface ConversationRegistryOptions
  extends Pick<
    ConversationDeps,
    | 'browser'
    | 'clock'
    | 'commandRules'
    | 'commandSandbox'
    | 'confirmationDeadlineMs'
    | 'directory'
    | 'environment'
    | 'hasCheckpoints'
    | 'hasLanguageServers'
    | 'isConfined'
    | 'lookupFetch'
    | 'monitor'
    | 'redactedValues'
    | 'server'
  > {
  readonly storage: Storage
  readonly cipher: Cipher
  readonly parts: ConversationParts
  /** Secrets that conversations look up by a URL of this server. */
  readonly secrets?: Pick<ServerSecrets, 'getValue'>
  /** Event log of the conversations; that of the storage unless passed. */
  readonly events?: EventLog
  readonly log: LogFunction
  readonly homeDirectory: string | undefined
  /** Limit of concurrent runs. */
  readonly maxConcurrentRuns: number
  /** Requests above that limit wait for their turn; otherwise they are refused. */
  readonly queuesRuns: boolean
  /** How often a run is continued whose server died, where no other server shares the data. */
  readonly maxRunRecoveries: number
  /** An unused idle conversation is closed after this time. */
  readonly idleMs: number
}

interface LoadedConversation extends Rester {
  readonly opening: Promise<Conversation>
  /** Once it is open. */
  conversation?: Conversation
}

/** The loaded conversations: each at most once, opened on demand, unloaded (closed) when idle. */
export class ConversationRegistry implements AsyncDisposable {
  /** Conversations that run tasks of other conversations. */
  readonly tasks: TaskConversations
  readonly runSlots: Semaphore
  readonly settings: SealedSettings
  readonly #options: ConversationRegistryOptions
  readonly #deps: Omit<ConversationDeps, 'openModel' | 'extensions' | 'mcpOAuth' | 'repositoryConsents'>
  readonly #transientUpdates = new Map<string, TransientUpdates>()
  readonly #loaded = new Map<string, LoadedConversation>()
  readonly #closing = new Map<string, Promise<void>>()
  readonly #sweepTimer: Timer
  readonly #recovery: Recovery
  #closingResting: Promise<void> | undefined
  /** Where several servers share the data. */
  readonly takeovers = createCounter(
    'slipway_conversation_takeovers_total',
    'Conversations that ran on servers that were gone, and that this server has continued.',
  )

  constructor(options: ConversationRegistryOptions) {
    this.#options = options
    const {
      storage,
      cipher,
      parts,
      secrets,
      events,
      log,
      homeDirectory,
      maxConcurrentRuns,
      queuesRuns,
      maxRunRecoveries: _maxRunRecoveries,
      idleMs,
      ...deps
    } = options
    const runSlots = new Semaphore(maxConcurrentRuns)
    this.runSlots = runSlots
    this.settings = new SealedSettings(storage.conversations, cipher, log)
    this.tasks = new TaskConversations(storage, this)
    this.#recovery = new Recovery({
      ...{ storage, clock: options.clock, log, confirmationDeadlineMs: options.confirmationDeadlineMs },
      load: (record) => this.load(record),
      isLoaded: (id) => this.#loaded.has(id),
      dropAll: () => this.#dropAll(),
    })
    this.#deps = {
      ...deps,
      log: events ?? storage.log,
      logLine: log,
      homeDirectory,
      findProfile: (name) => parts.models.resolve(name),
      findMetaProfile: (name) => parts.metaProfiles.get(name),
      findCredential: (id, name) => parts.credentials?.find(id, name),
      resolveServerSecret: secrets && ((url) => readServerSecret(secrets, url)),
      runSlots: {
        isQueued: queuesRuns,
        tryAcquire: () => runSlots.tryAcquire(),
        // An aborted run gets no slot and ends on its own.
        acquire: (signal) => runSlots.acquire(signal).catch(() => () => undefined),
      },
      childConversations: this.tasks,
      onRunAbandoned: storage.leases && ((id) => void this.#abandon(id)),
    }
    const sweepMs = Math.min(maxSweepIntervalMs, idleMs)
    this.#sweepTimer = repeat(options.clock, sweepMs, () => void this.#closeIdle())
  }

  /** Call it before the first effect of a request; see `RunAdmission`. */
  admitRun(isRun: boolean): RunAdmission {
    return RunAdmission.admit(isRun, this.#options.queuesRuns ? undefined : this.runSlots)
  }

  get loadedCount(): number {
    return this.#loaded.size
  }

  /** Directory of a conversation's files; it may not exist yet. */
  conversationDirectory(id: string): string {
    return conversationFolder(this.#options.directory, id)
  }

  /** A conversation that is loaded, or a promise of one that is being opened; it is not loaded for this. */
  peek(id: string): Conversation | undefined | Promise<Conversation | undefined> {
    const loaded = this.#loaded.get(id)
    return loaded?.conversation ?? loaded?.opening.catch(() => undefined)
  }

  /** The transient updates of a conversation, loaded or not. */
  transientUpdates(id: string): TransientUpdates {
    const existing = this.#transientUpdates.get(id) ?? new TransientUpdates()
    this.#transientUpdates.set(id, existing)
    return existing
  }

  /** Tells all readers of a conversation about a member that its log does not have. */
  async publishMember(
    id: string,
    key: 'title' | 'tags' | 'secret_registry' | 'hook_config',
    value: unknown,
  ): Promise<void> {
    const [record] = await this.#options.storage.conversations.get([id])
    if (record !== undefined) this.transientUpdates(id).publish({ kind: 'member', key, value }, record.head)
  }

  /** The conversation, opened; a Problem `not_found` when there is none, `conflict` when it has no agent. */
  async get(id: string): Promise<Conversation> {
    const conversation = await this.load(await getConversationRecord(this.#options.storage.conversations, id))
    if (conversation === undefined)
      throw new Problem('conflict', 'This conversation has no agent that could run.')
    return conversation
  }

  /** The same for a record; undefined when the conversation has no agent (it was imported). */
  async load(record: ConversationRecord): Promise<Conversation | undefined> {
    if (record.request === null) return undefined
    await this.#closing.get(record.id)
    const holder = await this.#options.storage.leases?.acquire(record.id)
    if (holder?.isOwn === false) throw new HeldElsewhereError()
    const existing = this.#loaded.get(record.id)
    if (existing !== undefined) {
      existing.lastUsedAt = this.#options.clock.now()
      return await existing.opening
    }
    this.#closeResting()
    const opening = this.#openConversation(record)
    const loaded: LoadedConversation = { opening, lastUsedAt: this.#options.clock.now() }
    this.#loaded.set(record.id, loaded)
    opening.then(
      (conversation) => {
        loaded.conversation = conversation
        // The idle time starts after the opening, however long that took.
        loaded.lastUsedAt = this.#options.clock.now()
      },
      () => this.#loaded.delete(record.id),
    )
    return await opening
  }

  /**
   * Opens a conversation that this server has taken while another ran it, so that the run continues here:
   * the sweep for conversations of servers that are gone passes over it from now on.
   */
  async continueRun(id: string): Promise<void> {
    if (this.#loaded.has(id)) return
    const [record] = await this.#options.storage.conversations.get([id])
    if (record?.status !== 'running') return
    await this.load(record).catch((error: unknown) => this.#recovery.logFailure(id, error))
  }

  /** `releases`: another server may take the conversation then. */
  async close(
    id: string,
    { releases, ...options }: { readonly isDeleted?: boolean; readonly releases?: true } = {},
  ): Promise<void> {
    const loaded = this.#loaded.get(id)
    if (loaded === undefined) return await this.#closing.get(id)
    this.#loaded.delete(id)
    const closed = loaded.opening
      .then((conversation) => conversation.close(options))
      .then(() => (releases ? this.#options.storage.leases?.release(id) : undefined))
      .catch(() => undefined)
      .then(() => void this.#closing.delete(id))
    this.#closing.set(id, closed)
    await closed
  }

  /** Closes conversations that were read or written to a while ago, and have nothing that would end with them. */
  async releaseMemory(): Promise<void> {
    const { parts } = this.#options
    for (const [id, { conversation, lastUsedAt }] of this.#loaded) {
      if (conversation === undefined || lastUsedAt >= this.#options.clock.now() - restMs || parts.isInUse(id))
        continue
      if (conversation.isAtRest && !conversation.transientUpdates.hasListeners)
        await this.close(id, { releases: true })
    }
  }

  /**
   * Pauses all runs and waits until they are idle or the signal aborts. Their events are durable then. A call
   * of a model is interrupted at once, tools that take long after some seconds.
   */
  async pauseAll(signal: AbortSignal): Promise<void> {
    const deadline = AbortSignal.any([signal, this.#options.clock.timeout(pauseMs)])
    for (;;) {
      const loaded = await Promise.all([...this.#loaded.keys()].map((id) => this.peek(id)))
      const running = loaded
        .filter((conversation) => conversation !== undefined)
        .filter((one) => one.isRunning)
      if (running.length === 0 || signal.aborted) return
      const stopping = running.map(async (conversation) => {
        const waitUntilIdle = () => raceAbort(conversation.waitUntilIdle(), deadline).catch(() => undefined)
        await conversation.pause()
        if (conversation.state.openActions().length > 0) await waitUntilIdle()
        if (conversation.isRunning) await conversation.interrupt()
        await waitUntilIdle()
      })
      await Promise.all(stopping)
      if (deadline.aborted) return
    }
  }

  /** Continues the runs that wait for this consent to what a repository brings. */
  async resumeAfterConsent(consentId: string): Promise<void> {
    for (const record of await listByStatus(
      this.#options.storage.conversations,
      'waiting_for_confirmation',
    )) {
      const conversation = await this.load(record).catch(() => undefined)
      if (conversation?.awaitedConsent !== consentId) continue
      await conversation.run({ waitsForSlot: true }).catch((error: unknown) => {
        // Another request has continued it.
        if (!(error instanceof Problem && error.code === 'conflict')) throw error
      })
    }
  }

  /** See `Recovery.recover`. */
  async recover(): Promise<void> {
    await this.#recovery.recover()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#sweepTimer.cancel()
    if (this.#options.storage.leases !== undefined) return await this.#dropAll()
    await Promise.all([...this.#loaded.keys()].map((id) => this.close(id)))
    await Promise.all(this.#closing.values())
  }

  /** Gives a conversation whose run cannot be written to any server that can: there the run continues. */
  async #abandon(id: string): Promise<void> {
    const { leases } = this.#options.storage
    await this.close(id, { isDeleted: true, releases: true })
    const isReleased = async () =>
      await leases?.release(id).then(
        () => true,
        () => false,
      )
    while (!this.#loaded.has(id) && (await isReleased()) === false)
      await this.#options.clock.sleep(releaseRetryMs, { ref: false })
  }

  /** Ends all runs and their processes, and writes nothing. */
  async #dropAll(): Promise<void> {
    await Promise.all([...this.#loaded.keys()].map((id) => this.close(id, { isDeleted: true })))
    await Promise.all(this.#closing.values())
  }

  async #openConversation(record: ConversationRecord): Promise<Conversation> {
    const { storage, parts } = this.#options
    const { settings, isComplete } = await this.settings.read(record)
    const { id } = record
    const sealedState = await storage.conversations.getSealedState(id)
    if (sealedState === undefined) throw conversationNotFound(id)
    const origin = readOrigin(record)
    const store: ConversationStore = {
      snapshot: sealedState.snapshot ?? null,
      stats: record.stats,
      saveSnapshot: (snapshot) => storage.conversations.saveSnapshot(id, snapshot),
      seal: (changed) => {
        if (!isComplete) throw new Problem('conflict', sealedWithOtherKeyText)
        return this.settings.seal(changed, origin)
      },
      title: {
        isMissing: async () => (await storage.conversations.get([id]))[0]?.title === null,
        set: async (title) => {
          const changed = await storage.conversations.patch(id, { missing_title: title })
          if (changed?.title === title) await this.publishMember(id, 'title', title)
        },
        model: async (): Promise<Llm | undefined> =>
          settings.title_llm_profile === undefined
            ? undefined
            : await parts.models.resolve(settings.title_llm_profile),
      },
    }
    const openModel = parts.wrapModel(await loadOpenModel())
    const { extensions, repositoryConsents, mcpOAuth } = parts
    const added = { openModel, extensions, repositoryConsents, mcpOAuth }
    const deps = { ...this.#deps, ...added, ...this.#runSlotsFor(record) }
    const transientUpdates = this.transientUpdates(id)
    const options = { id, settings, deps, store, wire: origin.wire ?? 'seed', transientUpdates }
    const conversation = await openConversation({ ...options, cutRun: this.#cutRun(origin) })
    if (conversation.state.status === 'running') this.#goOn(conversation)
    return conversation
  }

  #cutRun({ task }: ConversationOrigin): CutRun {
    const { storage, maxRunRecoveries } = this.#options
    // The parent of a task that its server left unfinished gets an error for it, and decides again.
    if (task !== undefined) return 'paused'
    return storage.leases === undefined ? { maxRecoveries: maxRunRecoveries } : 'continued'
  }

  /** Continues a run of a server that is gone. */
  #goOn(conversation: Conversation): void {
    const { log, storage } = this.#options
    const { id, state } = conversation
    if (storage.leases === undefined)
      log('info', 'a run that was cut is continued', { conversation: id, attempt: state.recoveries })
    else {
      log('info', 'a conversation of a server that is gone is taken over', { conversation: id })
      this.takeovers.inc()
    }
    conversation.run({ waitsForSlot: true }).catch((error: unknown) => {
      log('error', 'a run cannot continue', { conversation: conversation.id, reason: String(error) })
    })
  }

  /** The slots of a conversation that runs a task: none of its own while its parent waits. */
  #runSlotsFor(record: ConversationRecord): Pick<ConversationDeps, 'runSlots'> {
    const { runSlots } = this.#deps
    if (readTask(record) === undefined || runSlots === undefined) return {}
    const { parent_conversation_id: parent = '' } = readStoredRequest(record)
    const isParentBusy = () => this.#loaded.get(parent)?.conversation?.isBusy === true
    const tryAcquire = () => (isParentBusy() ? () => undefined : runSlots.tryAcquire())
    return { runSlots: { ...runSlots, tryAcquire } }
  }

  #closeResting(): void {
    const { clock, log, parts } = this.#options
    const isInUse = (id: string) => parts.isInUse(id)
    const close = (id: string) => this.close(id, { releases: true })
    this.#closingResting ??= closeResting(this.#loaded, { now: clock.now(), isInUse, close })
      .catch((error: unknown) => {
        log('warn', 'resting conversations were not closed', { reason: String(error) })
      })
      .finally(() => {
        this.#closingResting = undefined
      })
  }

  async #closeIdle(): Promise<void> {
    for (const [id, loaded] of this.#loaded) {
      const conversation = await loaded.opening.catch(() => undefined)
      if (conversation === undefined || loaded.lastUsedAt >= this.#options.clock.now() - this.#options.idleMs)
        continue
      if (isUnused(conversation)) await this.close(id, { releases: true })
    }
    this.#closeResting()
    const { storage, parts } = this.#options
    await storage.leases
      ?.releaseUnused((id) => this.#loaded.has(id) || this.#closing.has(id) || parts.isInUse(id))
      .catch(() => {})
    for (const [id, updates] of this.#transientUpdates)
      if (!updates.hasListeners && !this.#loaded.has(id)) this.#transientUpdates.delete(id)
  }
}

async function readServerSecret(
  secrets: Pick<ServerSecrets, 'getValue'>,
  url: string,
): Promise<string | undefined> {
  const name = parseSecretPath(url)
  return name === undefined ? undefined : await secrets.getValue(name)
}

function readOrigin(record: ConversationRecord): ConversationOrigin {
  const stored = readStoredRequest(record)
  const { task, wire, launched_agent_profile, forked_from_conversation_id, forked_from_event_id } = stored
  return { task, wire, launched_agent_profile, forked_from_conversation_id, forked_from_event_id }
}
