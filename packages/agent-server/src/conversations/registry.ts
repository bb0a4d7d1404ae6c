import { join } from 'node:path'
import {
  type Conversation,
  type Extensions,
  Hints,
  type Keeping,
  models,
  openConversation,
  type Rim,
  type Settings,
  type Watch,
} from '@slipway/agent'
import { type Llm, type Log, Problem } from '@slipway/protocol'
import type { Cipher, ConversationRecord, EventLog, Storage } from '@slipway/storage'
import type { Profiles } from '../profiles/llm-profiles.ts'
import { type ServerSecrets, secretOfPath } from '../secrets/server-secrets.ts'
import { findRecord, missing } from './conversation-info.ts'
import { Turns } from './semaphore.ts'
import {
  type KeptRequest,
  keptRequest,
  type Origin,
  readKept,
  readSettings,
  shownSkills,
} from './stored-request.ts'
import { TaskConversations, taskOf } from './task-conversations.ts'

/** Resting conversations are looked for at least this often. */
const sweepMs = 30_000
const sealedOff =
  'The settings of this conversation were sealed with another key, so they cannot be changed. Start the server with that SLIPWAY_SECRET_KEY.'

interface Options {
  readonly storage: Storage
  readonly cipher: Cipher
  readonly profiles: Profiles
  /** Where plugins and installed skills come from. */
  readonly extensions?: Extensions
  /** What conversations look up by an address of this server. */
  readonly secrets?: Pick<ServerSecrets, 'value'>
  /** Where conversations write and read; the log of the storage unless given. */
  readonly events?: EventLog
  /** Told of what conversations do. */
  readonly watch?: Watch
  readonly log: Log
  /** Microseconds. */
  readonly now: () => number
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  readonly home: string | undefined
  readonly isConfined: boolean
  /** Hidden in every conversation. */
  readonly hidden: readonly string[]
  readonly confirmationDeadlineMs: number | undefined
  readonly maxRuns: number
  /** A conversation that nobody uses and that does nothing is closed after this. */
  readonly idleMs: number
}

interface Loaded {
  readonly opening: Promise<Conversation>
  usedAt: number
}

/** The conversations that are loaded: each at most once, opened when it is needed, closed when it rests. */
export class Agents implements AsyncDisposable {
  /** The conversations that do tasks of others. */
  readonly tasks: TaskConversations
  readonly turns: Turns
  readonly #options: Options
  readonly #rim: Omit<Rim, 'openModel'>
  readonly #hints = new Map<string, Hints>()
  readonly #loaded = new Map<string, Loaded>()
  readonly #closing = new Map<string, Promise<void>>()
  readonly #sweep: NodeJS.Timeout

  constructor(options: Options) {
    this.#options = options
    const {
      storage,
      log,
      now,
      directory,
      environment,
      home,
      isConfined,
      profiles,
      secrets,
      confirmationDeadlineMs,
    } = options
    const turns = new Turns(options.maxRuns)
    this.turns = turns
    this.tasks = new TaskConversations(storage, this)
    this.#rim = {
      log: options.events ?? storage.log,
      watch: options.watch,
      logLine: log,
      now,
      environment,
      directory,
      isConfined,
      hidden: options.hidden,
      confirmationDeadlineMs,
      ...(home === undefined ? {} : { home }),
      profile: (name) => profiles.usable(name),
      ...(secrets === undefined ? {} : { secret: (url) => ownSecret(secrets, url) }),
      turn: (signal) => turns.take(signal),
      children: this.tasks,
      ...(options.extensions === undefined ? {} : { extensions: options.extensions }),
    }
    this.#sweep = setInterval(() => void this.#closeResting(), Math.min(sweepMs, options.idleMs)).unref()
  }

  /** How many are loaded. */
  get loaded(): number {
    return this.#loaded.size
  }

  /** Where the files of a conversation are kept; it need not be there yet. */
  directoryOf(id: string): string {
    return join(this.#options.directory, id.replaceAll('-', ''))
  }

  /** The conversation if it is loaded now. */
  async peek(id: string): Promise<Conversation | undefined> {
    return await this.#loaded.get(id)?.opening.catch(() => undefined)
  }

  /** Where the hints of a conversation are heard, loaded or not. */
  hints(id: string): Hints {
    const known = this.#hints.get(id) ?? new Hints()
    this.#hints.set(id, known)
    return known
  }

  /** The conversation, opened; a Problem `not_found` when there is none, `conflict` when it has no agent. */
  async get(id: string): Promise<Conversation> {
    const conversation = await this.find(await findRecord(this.#options.storage.conversations, id))
    if (conversation === undefined)
      throw new Problem('conflict', 'This conversation has no agent that could run.')
    return conversation
  }

  /** The same for a record; undefined when the conversation has no agent (it was imported). */
  async find(record: ConversationRecord): Promise<Conversation | undefined> {
    if (record.request === null) return undefined
    await this.#closing.get(record.id)
    const known = this.#loaded.get(record.id)
    if (known !== undefined) {
      known.usedAt = Date.now()
      return await known.opening
    }
    const opening = this.#open(record)
    const loaded: Loaded = { opening, usedAt: Date.now() }
    this.#loaded.set(record.id, loaded)
    opening.then(
      () => {
        // Whoever had it opened uses it from now on, however long that took.
        loaded.usedAt = Date.now()
      },
      () => this.#loaded.delete(record.id),
    )
    return await opening
  }

  /** What is written into the record for settings: in clear without secrets, and all of it sealed. */
  seal(settings: Settings, origin: Origin = {}): { request: string; sealed: Buffer } {
    return {
      request: JSON.stringify(keptRequest(settings, origin)),
      sealed: this.#options.cipher.seal(JSON.stringify(settings)),
    }
  }

  /** The settings of a conversation, secrets in clear where they can be opened. */
  async settings(record: ConversationRecord): Promise<Settings> {
    return (await this.#unsealed(record)).settings
  }

  /** The skills that the agent of a conversation was given, without secrets; none where they cannot be read. */
  async skills(record: ConversationRecord): Promise<unknown> {
    return record.request === null ? [] : shownSkills(await this.settings(record))
  }

  async #unsealed(record: ConversationRecord): Promise<{ settings: Settings; isComplete: boolean }> {
    const vault = await this.#options.storage.conversations.vault(record.id)
    const sealed = vault?.sealed ?? null
    const text = sealed === null ? undefined : this.#options.cipher.open(sealed)
    if (text === undefined && sealed !== null) {
      this.#options.log('warn', 'the secrets of a conversation cannot be opened', { conversation: record.id })
    }
    return text === undefined
      ? { settings: readKept(record.request ?? 'null'), isComplete: sealed === null }
      : { settings: readSettings(text), isComplete: true }
  }

  /** Closes it if it is loaded. */
  async close(id: string, options: { readonly isDeleted?: boolean } = {}): Promise<void> {
    const loaded = this.#loaded.get(id)
    if (loaded === undefined) return await this.#closing.get(id)
    this.#loaded.delete(id)
    const over = loaded.opening
      .then((conversation) => conversation.close(options))
      .catch(() => undefined)
      .then(() => void this.#closing.delete(id))
    this.#closing.set(id, over)
    await over
  }

  /** Pauses what runs and waits until it rests, or until the signal aborts. What a run has written is durable then. */
  async rest(signal: AbortSignal): Promise<void> {
    const { promise: left, resolve } = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => resolve(), { once: true })
    for (;;) {
      const loaded = await Promise.all([...this.#loaded.keys()].map((id) => this.peek(id)))
      const busy = loaded.filter((conversation) => conversation?.isRunning)
      if (busy.length === 0 || signal.aborted) return
      const resting = busy.map(async (conversation) => {
        await conversation?.pause()
        await conversation?.settled()
      })
      await Promise.race([Promise.all(resting), left])
    }
  }

  /** Opens the conversations that were running when the process died, which answers and pauses them, and those with a deadline. */
  async recover(): Promise<void> {
    for (const status of ['running', 'waiting_for_confirmation']) {
      let page_id: string | undefined
      const found: ConversationRecord[] = []
      do {
        const query = { limit: 100, sort_order: 'CREATED_AT', status, page_id } as const
        const page = await this.#options.storage.conversations.search(query)
        found.push(...page.items)
        page_id = page.next_page_id ?? undefined
      } while (page_id !== undefined)
      for (const record of found) {
        const isTimed = this.#options.confirmationDeadlineMs !== undefined || hasDeadline(record)
        if (status !== 'running' && !isTimed) continue
        await this.find(record).catch((error: unknown) => {
          const reason = error instanceof Error ? error.message : String(error)
          this.#options.log('error', 'a conversation cannot be recovered', {
            conversation: record.id,
            reason,
          })
        })
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sweep)
    await Promise.all([...this.#loaded.keys()].map((id) => this.close(id)))
    await Promise.all(this.#closing.values())
  }

  async #open(record: ConversationRecord): Promise<Conversation> {
    const { storage, profiles } = this.#options
    const { settings, isComplete } = await this.#unsealed(record)
    const { id } = record
    const vault = await storage.conversations.vault(id)
    if (vault === undefined) throw missing(id)
    const origin = originOf(record)
    const keeping: Keeping = {
      snapshot: vault?.snapshot ?? null,
      stats: record.stats,
      saveSnapshot: (snapshot) => storage.conversations.saveSnapshot(id, snapshot),
      seal: (changed) => {
        // What cannot be read now is not written over: with the right key it is there again.
        if (!isComplete) throw new Problem('conflict', sealedOff)
        return this.seal(changed, origin)
      },
      title: {
        isMissing: async () => (await storage.conversations.get([id]))[0]?.title === null,
        set: async (title) => {
          const [now] = await storage.conversations.get([id])
          if (now?.title === null) await storage.conversations.patch(id, { title })
        },
        model: async (): Promise<Llm | undefined> =>
          settings.title_llm_profile === undefined
            ? undefined
            : await profiles.usable(settings.title_llm_profile),
      },
    }
    const rim = { ...this.#rim, openModel: await models(), ...this.#turnOf(record) }
    const wire = origin.wire ?? 'seed'
    return await openConversation({ id, settings, rim, keeping, wire, hints: this.hints(id) })
  }

  /**
   * A conversation that does a task runs in the turn of the one that waits for it: with a turn of its own, the two could wait
   * for each other for ever.
   */
  #turnOf(record: ConversationRecord): Pick<Rim, 'turn'> {
    const { turn } = this.#rim
    if (taskOf(record) === undefined || turn === undefined) return {}
    const { parent_conversation_id: parent = '' }: KeptRequest = JSON.parse(record.request ?? '{}')
    return {
      turn: async (signal) =>
        (await this.peek(parent))?.isBusy === true ? () => undefined : await turn(signal),
    }
  }

  async #closeResting(): Promise<void> {
    for (const [id, loaded] of this.#loaded) {
      const conversation = await loaded.opening.catch(() => undefined)
      if (conversation === undefined || loaded.usedAt >= Date.now() - this.#options.idleMs) continue
      if (conversation.isBusy || conversation.hints.isHeard) continue
      await this.close(id)
    }
    for (const [id, hints] of this.#hints) if (!hints.isHeard && !this.#loaded.has(id)) this.#hints.delete(id)
  }
}

async function ownSecret(secrets: Pick<ServerSecrets, 'value'>, url: string): Promise<string | undefined> {
  const name = secretOfPath(url)
  return name === undefined ? undefined : await secrets.value(name)
}

function originOf(record: ConversationRecord): Origin {
  const kept: KeptRequest = JSON.parse(record.request ?? '{}')
  const { forked_from_conversation_id: conversation, forked_from_event_id: event } = kept
  const { launched_agent_profile, wire } = kept
  return {
    ...(kept.task === undefined ? {} : { task: kept.task }),
    ...(wire === undefined ? {} : { wire }),
    ...(launched_agent_profile === undefined ? {} : { launched_agent_profile }),
    ...(conversation === undefined ? {} : { forked_from_conversation_id: conversation }),
    ...(event === undefined ? {} : { forked_from_event_id: event }),
  }
}

function hasDeadline(record: ConversationRecord): boolean {
  const kept: KeptRequest = JSON.parse(record.request ?? '{}')
  return kept.confirmation_policy !== undefined && 'deadline_seconds' in kept.confirmation_policy
}
