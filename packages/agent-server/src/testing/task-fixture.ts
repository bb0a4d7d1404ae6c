import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Conversation } from '@slipway/agent'
import { type Event, llm, startConversationRequest } from '@slipway/protocol'
import { Cipher, openStorage, type SqliteStorage } from '@slipway/storage'
import { createConversation } from '../conversations/create.ts'
import { Agents } from '../conversations/registry.ts'
import { Profiles } from '../profiles/llm-profiles.ts'
import { creating } from './fixtures.ts'

type Stored = Event & { readonly id: string } & Readonly<Record<string, unknown>>

interface Options {
  readonly maxRuns?: number
  readonly idleMs?: number
}

/** A server's conversations for tests of tasks: models are profiles that play scripts, the rest is real. */
export class TaskScene implements AsyncDisposable {
  readonly directory: string
  readonly workspace: string
  readonly storage: SqliteStorage
  readonly profiles: Profiles
  readonly lines: string[] = []
  agents: Agents
  readonly #options: Options

  private constructor(parts: {
    readonly directory: string
    readonly storage: SqliteStorage
    readonly profiles: Profiles
    readonly cipher: Cipher
    readonly options: Options
  }) {
    this.directory = parts.directory
    this.workspace = join(parts.directory, 'work')
    this.storage = parts.storage
    this.profiles = parts.profiles
    this.#options = parts.options
    this.agents = this.#open(parts.cipher)
  }

  static async open(directory: string, options: Options = {}): Promise<TaskScene> {
    await mkdir(join(directory, 'home'), { recursive: true })
    await mkdir(join(directory, 'work'), { recursive: true })
    const cipher = await Cipher.open({ directory, secretKey: undefined })
    const profiles = new Profiles({ directory: join(directory, 'profiles'), cipher })
    return new TaskScene({ directory, storage: await openStorage({ directory }), profiles, cipher, options })
  }

  #open(cipher: Cipher): Agents {
    const { directory, storage, profiles } = this
    return new Agents({
      storage,
      cipher,
      profiles,
      log: (...line) => void this.lines.push(JSON.stringify(line)),
      now: () => Date.now() * 1000,
      directory: join(directory, 'conversations'),
      environment: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      home: join(directory, 'home'),
      isConfined: true,
      hidden: [],
      confirmationDeadlineMs: undefined,
      maxRuns: this.#options.maxRuns ?? 10,
      idleMs: this.#options.idleMs ?? 60_000,
    })
  }

  /** As after a restart: what is kept is opened by others. */
  async restart(): Promise<void> {
    await this.agents[Symbol.asyncDispose]()
    this.agents = this.#open(await Cipher.open({ directory: this.directory, secretKey: undefined }))
    await this.agents.recover()
  }

  /** A model that plays a script, by the name of a profile. */
  async model(name: string, script: readonly unknown[], more: object = {}): Promise<void> {
    await this.profiles.save(name, llm.parse({ model: `scripted/${name}`, script, ...more }))
  }

  /** A conversation that plays a script and has the task tool; resolves when its first message is stored. */
  async begin(
    script: readonly unknown[],
    { agent = {}, ...more }: { readonly agent?: object; readonly [member: string]: unknown } = {},
  ): Promise<Conversation> {
    const request = startConversationRequest.parse({
      agent: { llm: { model: 'scripted/parent', script }, tools: [{ name: 'task_tool_set' }], ...agent },
      workspace: { working_dir: this.workspace },
      conversation_id: randomUUID(),
      initial_message: { content: 'Begin.' },
      autotitle: false,
      ...more,
    })
    const parts = await creating(this.storage, this.agents, this.directory)
    const { record } = await createConversation(parts, request)
    return await this.agents.get(record.id)
  }

  /** The same, when it has come to rest. */
  async play(
    script: readonly unknown[],
    more: Parameters<TaskScene['begin']>[1] = {},
  ): Promise<Conversation> {
    const conversation = await this.begin(script, more)
    await conversation.settled()
    return conversation
  }

  async events(id: string): Promise<Stored[]> {
    const stored = await this.storage.log.read(id, 0, 100_000)
    return stored.map(({ bytes }) => JSON.parse(bytes.toString()))
  }

  /** The observations of tasks, in order. */
  async results(id: string): Promise<Record<string, unknown>[]> {
    const events = await this.events(id)
    return events.flatMap((event) =>
      event.kind === 'ObservationEvent' && String(event.observation?.kind) === 'TaskObservation'
        ? [{ ...event.observation }]
        : [],
    )
  }

  async children(id: string): Promise<readonly string[]> {
    return await this.storage.conversations.children(id)
  }

  /** The only child, as soon as there is one. */
  async child(id: string): Promise<Conversation> {
    for (;;) {
      const [child] = await this.children(id)
      if (child !== undefined) return await this.agents.get(child)
      await sleep(5)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agents[Symbol.asyncDispose]()
    await this.storage[Symbol.asyncDispose]()
  }
}

/** A turn of a script that gives tasks. */
export function tasks(...given: readonly object[]): object {
  return { tool_calls: given.map((args) => ({ name: 'task', arguments: args })) }
}

export function bash(command: string): object {
  return { tool_calls: [{ name: 'terminal', arguments: { command } }] }
}

export function finish(message: string): object {
  return { tool_calls: [{ name: 'finish', arguments: { message } }] }
}

/** An agent of a request, whose model plays the script of the profile of its name. */
export function definition(name: string, more: object = {}): object {
  return { name, description: `Does what ${name} does.`, model: name, tools: ['terminal'], ...more }
}

/** Resolves when something is so; rejects after twenty seconds. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 20_000
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error('it did not come to be')
    await sleep(5)
  }
}

/** The texts of a content, joined by blank lines. */
export function textOf(content: unknown): string {
  const parts: readonly { readonly text?: string }[] = Array.isArray(content) ? content : []
  return parts.map(({ text = '' }) => text).join('\n\n')
}
