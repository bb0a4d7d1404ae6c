import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Conversation } from '@slipway/agent'
import { type Event, llm, startConversationRequest } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { Cipher, openStorage, type SqliteStorage } from '@slipway/storage'
import { createConversation } from '../core/conversations/lifecycle/create.ts'
import { ConversationRegistry } from '../core/conversations/registry.ts'
import { LlmProfiles } from '../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../modules/settings/server-settings.ts'
import { fileDocuments } from './file-documents.ts'
import { openCreateDeps, partsOf } from './fixtures.ts'

type TestEvent = Event & { readonly id: string } & Readonly<Record<string, unknown>>

interface TaskFixtureOptions {
  readonly maxConcurrentRuns?: number
  readonly idleMs?: number
}

/** A server's conversations for tests of tasks: models are profiles that play scripts, the rest is real. */
export class TaskFixture implements AsyncDisposable {
  readonly directory: string
  readonly workspace: string
  readonly storage: SqliteStorage
  readonly profiles: LlmProfiles
  readonly logLines: string[] = []
  registry: ConversationRegistry
  readonly #options: TaskFixtureOptions

  private constructor(parts: {
    readonly directory: string
    readonly storage: SqliteStorage
    readonly profiles: LlmProfiles
    readonly cipher: Cipher
    readonly options: TaskFixtureOptions
  }) {
    this.directory = parts.directory
    this.workspace = join(parts.directory, 'work')
    this.storage = parts.storage
    this.profiles = parts.profiles
    this.#options = parts.options
    this.registry = this.#open(parts.cipher)
  }

  static async open(directory: string, options: TaskFixtureOptions = {}): Promise<TaskFixture> {
    await mkdir(join(directory, 'home'), { recursive: true })
    await mkdir(join(directory, 'work'), { recursive: true })
    const cipher = await Cipher.open({ directory, secretKey: undefined })
    const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
    const profiles = new LlmProfiles({ documents: fileDocuments(directory), cipher, settings })
    return new TaskFixture({
      directory,
      storage: await openStorage({ directory }),
      profiles,
      cipher,
      options,
    })
  }

  #open(cipher: Cipher): ConversationRegistry {
    const { directory, storage, profiles } = this
    return new ConversationRegistry({
      storage,
      cipher,
      parts: partsOf({
        models: profiles,
        repositoryConsents: { check: async () => ({ id: '', verdict: 'trusted' }) },
      }),
      log: (...line) => void this.logLines.push(JSON.stringify(line)),
      clock: systemClock,
      directory: join(directory, 'conversations'),
      environment: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      homeDirectory: join(directory, 'home'),
      isConfined: true,
      redactedValues: [],
      confirmationDeadlineMs: undefined,
      maxConcurrentRuns: this.#options.maxConcurrentRuns ?? 10,
      queuesRuns: false,
      maxRunRecoveries: 3,
      idleMs: this.#options.idleMs ?? 60_000,
    })
  }

  /** Restarts: new objects open the stored state. */
  async restart(): Promise<void> {
    await this.registry[Symbol.asyncDispose]()
    this.registry = this.#open(await Cipher.open({ directory: this.directory, secretKey: undefined }))
    await this.registry.recover()
  }

  /** A model that plays a script, by the name of a profile. */
  async saveScriptedModel(name: string, script: readonly unknown[], more: object = {}): Promise<void> {
    await this.profiles.save(name, llm.parse({ model: `scripted/${name}`, script, ...more }))
  }

  /** A conversation that plays a script and has the task tool; resolves when its first message is stored. */
  async startConversation(
    script: readonly unknown[],
    { agent = {}, ...more }: { readonly agent?: object; readonly [member: string]: unknown } = {},
  ): Promise<Conversation> {
    const request = startConversationRequest.parse({
      agent: { llm: { model: 'scripted/parent', script }, tools: [{ name: 'task_tool_set' }], ...agent },
      workspace: { working_dir: this.workspace },
      conversation_id: randomUUID(),
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
      autotitle: false,
      ...more,
    })
    const deps = await openCreateDeps(this.storage, this.registry, this.directory)
    const { record } = await createConversation(deps, request)
    return await this.registry.get(record.id)
  }

  /** The same, when it has come to rest. */
  async runConversation(
    script: readonly unknown[],
    more: Parameters<TaskFixture['startConversation']>[1] = {},
  ): Promise<Conversation> {
    const conversation = await this.startConversation(script, more)
    await conversation.waitUntilIdle()
    return conversation
  }

  async readEvents(id: string): Promise<TestEvent[]> {
    const stored = await this.storage.log.read(id, 0, 100_000)
    return stored.map(({ bytes }) => JSON.parse(bytes.toString()))
  }

  /** The observations of tasks, in order. */
  async readTaskResults(id: string): Promise<Record<string, unknown>[]> {
    const events = await this.readEvents(id)
    return events.flatMap((event) =>
      event.kind === 'ObservationEvent' && String(event.observation?.kind) === 'TaskObservation'
        ? [{ ...event.observation }]
        : [],
    )
  }

  async listChildren(id: string): Promise<readonly string[]> {
    return (await this.storage.conversations.listChildren([id])).flat()
  }

  /** The only child, as soon as there is one. */
  async waitForChild(id: string): Promise<Conversation> {
    for (;;) {
      const [child] = await this.listChildren(id)
      if (child !== undefined) return await this.registry.get(child)
      await sleep(5)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.registry[Symbol.asyncDispose]()
    await this.storage[Symbol.asyncDispose]()
  }
}

/** A turn of a script that gives tasks. */
export function taskCalls(...taskArguments: readonly object[]): object {
  return { tool_calls: taskArguments.map((args) => ({ name: 'task', arguments: args })) }
}

export function terminalCall(command: string): object {
  return { tool_calls: [{ name: 'terminal', arguments: { command } }] }
}

export function finishCall(message: string): object {
  return { tool_calls: [{ name: 'finish', arguments: { message } }] }
}

/** An agent of a request, whose model plays the script of the profile of its name. */
export function agentDefinition(name: string, more: object = {}): object {
  return { name, description: `Does what ${name} does.`, model: name, tools: ['terminal'], ...more }
}

/** Resolves when something is so; rejects after twenty seconds. */
export async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 20_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error('it did not come to be')
    await sleep(5)
  }
}

/** The texts of a content, joined by blank lines. */
export function contentText(content: unknown): string {
  const parts: readonly { readonly text?: string }[] = Array.isArray(content) ? content : []
  return parts.map(({ text = '' }) => text).join('\n\n')
}
