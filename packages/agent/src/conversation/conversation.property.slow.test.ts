import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { agent, type Llm, type Message, Problem } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { type EventLog, openStorage, type Storage } from '@slipway/storage'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Model, ModelRequest, ModelResult } from '../llm/model.ts'
import { Conversation } from './conversation.ts'
import { finalResponse } from './events/final-response.ts'
import { ConversationWriter } from './events/writer.ts'
import type { ConversationDeps, ConversationStore } from './runtime/deps.ts'
import { readBranch } from './state/branch.ts'
import type { ResolvedSettings } from './state/resolved-settings.ts'
import { type LogEvent, View } from './view/view.ts'

const directory = mkdtempSync(join(tmpdir(), 'slipway-loop-'))
let storage: Storage

beforeAll(async () => {
  storage = await openStorage({ directory })
})
afterAll(async () => {
  await storage[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true, force: true })
})

type Command =
  | { readonly kind: 'send'; readonly run: boolean }
  | { readonly kind: 'navigate'; readonly to: number; readonly among: 'all' | 'calls' | 'facts' }
  | { readonly kind: 'run' | 'pause' | 'interrupt' | 'accept' | 'reject' | 'crash' | 'reopen' | 'wait' }

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.boolean().map((run) => ({ kind: 'send' as const, run })) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('navigate' as const),
      to: fc.noBias(fc.nat(9_999)),
      among: fc.constantFrom('all', 'calls', 'facts'),
    }),
  },
  {
    weight: 6,
    arbitrary: fc
      .constantFrom('run', 'pause', 'interrupt', 'accept', 'reject', 'crash', 'reopen', 'wait')
      .map((kind) => ({ kind }) as Command),
  },
)

/** Numbers that look random and are the same each time. */
function numbers(seed: number): () => number {
  let state = seed | 1
  return () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return state / 0x7fffffff
  }
}

/**
 * A log that answers late. When its process is dead nothing of it is heard any more; what was on its way may
 * be stored or not.
 */
class LateLog implements Pick<EventLog, 'append' | 'read' | 'get'> {
  isDead = false
  readonly #random: () => number
  constructor(random: () => number) {
    this.#random = random
  }
  async append(...args: Parameters<EventLog['append']>) {
    await this.#late()
    const stored = await storage.log.append(...args)
    await this.#late()
    return stored
  }
  async read(...args: Parameters<EventLog['read']>) {
    await this.#late()
    return await storage.log.read(...args)
  }
  async get(...args: Parameters<EventLog['get']>) {
    await this.#late()
    return await storage.log.get(...args)
  }
  async #late(): Promise<void> {
    const turns = Math.floor(this.#random() * 4)
    if (turns === 3) await sleep(1)
    else for (let i = 0; i < turns; i++) await undefined
    if (this.isDead) await new Promise(() => undefined)
  }
}

/** A model of many moods that remembers what it was asked. */
function unreliableModel(random: () => number, requestedCalls: Set<string>): (llm: Llm) => Model {
  let count = 0
  return (llm) => ({
    llm,
    contextWindow: undefined,
    countTokens: () => 0,
    async generate({ messages }: ModelRequest, signal: AbortSignal): Promise<ModelResult> {
      await sleep(random() * 4)
      if (signal.aborted) return { kind: 'aborted' }
      mustBeWellFormed(messages)
      for (const text of texts(messages)) requestedCalls.add(text)
      const mood = random()
      if (mood < 0.05) return { kind: 'failure', code: 'LLMServiceUnavailableError', detail: 'gone' }
      const id = `r${count++}-${randomUUID()}`
      const call = (name: string, args: object, n = 0) => ({
        id: `${id}-${n}`,
        name,
        arguments: JSON.stringify(args),
        origin: 'completion' as const,
      })
      const calls =
        mood < 0.3
          ? [call('think', { thought: id })]
          : mood < 0.5
            ? [call('think', { thought: id }), call('nothing', {}, 1), call('list_directory', {}, 2)]
            : mood < 0.6
              ? [call('think', { thought: 7 })]
              : mood < 0.8
                ? [call('think', { thought: id }), call('finish', { message: 'done' }, 1)]
                : []
      return {
        kind: 'reply',
        responseId: id,
        message: {
          role: 'assistant',
          content: calls.length > 0 ? [] : [{ type: 'text', text: `answer ${id}`, cache_prompt: false }],
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
          thinking_blocks: [],
        },
        usage: {
          model: 'moody',
          prompt_tokens: 1,
          completion_tokens: 1,
          cache_read_tokens: 0,
          cache_write_tokens: 0,
          reasoning_tokens: 0,
          context_window: 0,
          per_turn_token: 2,
          response_id: id,
        },
        cost: 0,
        latencyMs: 1,
        model: 'moody',
        usageId: 'default',
        stop: calls.length > 0 ? 'tool_calls' : 'stop',
      }
    },
  })
}

/**
 * What providers insist on: each result follows its call, each call has one result, and the last word is not
 * the model's.
 */
function mustBeWellFormed(messages: readonly Message[]): void {
  let open: string[] = []
  for (const { role, tool_calls, tool_call_id } of messages) {
    if (role === 'tool') {
      expect(open).toContain(tool_call_id)
      open = open.filter((id) => id !== tool_call_id)
    } else {
      expect(open).toEqual([])
      open = (tool_calls ?? []).map(({ id }) => id)
    }
  }
  expect(open).toEqual([])
  expect(messages.at(-1)?.role).not.toBe('assistant')
}

function texts(messages: readonly Message[]): string[] {
  return messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'text' ? [part.text] : [])),
  )
}

const settings = (policy: string): ResolvedSettings => ({
  agent: agent.parse({
    llm: { model: 'moody' },
    tools: [{ name: 'list_directory' }],
    tool_concurrency_limit: 3,
  }),
  workspace: { working_dir: join(directory, 'workspace') },
  worktree: false,
  conversation_id: undefined,
  limits: undefined,
  command_rules: undefined,
  command_sandbox: undefined,
  plan_mode: undefined,
  response_schema: undefined,
  parent_conversation_id: undefined,
  confirmation_policy:
    policy === 'always' ? { kind: 'AlwaysConfirm', deadline_seconds: undefined } : undefined,
  security_analyzer: undefined,
  initial_message: undefined,
  max_iterations: 12,
  stuck_detection: true,
  stuck_detection_thresholds: undefined,
  secrets: undefined,
  secrets_encrypted: false,
  tool_module_qualnames: undefined,
  client_tools: undefined,
  agent_definitions: undefined,
  agent_launch_additions: undefined,
  plugins: undefined,
  hook_config: undefined,
  observability_span_name: undefined,
  observability_tags: undefined,
  observability_metadata: undefined,
  observability_parent_span_context: undefined,
  tags: undefined,
  user_id: undefined,
  autotitle: false,
  title_llm_profile: undefined,
})

/** A conversation whose process can die. */
class CrashingConversation {
  readonly id = randomUUID()
  readonly requestedCalls = new Set<string>()
  readonly sent: string[] = []
  readonly #random: () => number
  readonly #policy: string
  #log: LateLog | undefined
  conversation!: Conversation

  constructor(random: () => number, policy: string) {
    this.#random = random
    this.#policy = policy
  }

  async begin(): Promise<void> {
    const log = new LateLog(this.#random)
    this.#log = log
    const deps: ConversationDeps = {
      log: log as unknown as EventLog,
      logLine: () => undefined,
      clock: systemClock,
      openModel: unreliableModel(this.#random, this.requestedCalls),
      environment: { PATH: '/usr/bin:/bin' },
      directory: join(directory, 'conversations'),
      isConfined: true,
    }
    const vault = await storage.conversations.getSealedState(this.id)
    const store: ConversationStore = {
      snapshot: vault?.snapshot ?? null,
      stats: null,
      saveSnapshot: (snapshot) => storage.conversations.saveSnapshot(this.id, snapshot),
      seal: () => ({}),
    }
    this.conversation = await Conversation.open({
      id: this.id,
      settings: settings(this.#policy),
      deps,
      store,
    })
  }

  async crash(): Promise<void> {
    if (this.#log !== undefined) this.#log.isDead = true
    // What was on its way when the process died arrives now or never.
    await sleep(2)
    await this.begin()
  }

  async do(given: Command): Promise<void> {
    const { conversation } = this
    if (given.kind === 'send') {
      const text = `message ${this.sent.length} ${randomUUID()}`
      const content = [{ type: 'text' as const, text, cache_prompt: false }]
      await conversation.send({
        role: 'user',
        content,
        run: given.run,
        sender: undefined,
        extended_content: undefined,
      })
      this.sent.push(text)
    } else if (given.kind === 'run') await conversation.run()
    else if (given.kind === 'pause') await conversation.pause()
    else if (given.kind === 'interrupt') await conversation.interrupt()
    else if (given.kind === 'accept') await conversation.resolveConfirmation({ accept: true, reason: '' })
    else if (given.kind === 'reject') await conversation.resolveConfirmation({ accept: false, reason: 'no' })
    else if (given.kind === 'navigate') {
      // What waits for somebody rests too.
      await conversation.waitUntilIdle()
      const events = (await this.events()).filter((event) => isAmong(event, given.among))
      await conversation.navigate(events[(given.to % (events.length + 1)) - 1]?.id ?? null)
    } else if (given.kind === 'wait') await sleep(this.#random() * 6)
  }

  /** Lets it run until nothing waits any more. */
  async rest(): Promise<void> {
    for (let rounds = 0; rounds < 200; rounds++) {
      await this.conversation.waitUntilIdle()
      const { state } = this.conversation
      if (state.status === 'waiting_for_confirmation')
        await this.conversation.resolveConfirmation({ accept: true, reason: '' })
      else if (state.isAwaiting || state.pending.size > 0) {
        if (state.status === 'stuck') await this.do({ kind: 'send', run: true })
        else await this.conversation.run()
      } else return
    }
    throw new Error(`no rest: ${this.conversation.state.status}`)
  }

  async events(): Promise<LogEvent[]> {
    const stored = await storage.log.read(this.id, 0, 100_000)
    return stored.map(({ bytes }) => JSON.parse(bytes.toString()))
  }
}

async function live(commands: readonly (readonly Command[])[], seed: number, policy: string): Promise<void> {
  const life = new CrashingConversation(numbers(seed), policy)
  await storage.conversations.create({ id: life.id })
  await life.begin()
  for (const together of commands) {
    // What is asked at the same moment is decided in an order that no one chooses.
    const work = together
      .filter(({ kind }) => kind !== 'crash' && kind !== 'reopen')
      .map((one) => life.do(one).catch(onlyConflicts))
    if (together.some(({ kind }) => kind === 'crash')) {
      await life.crash()
    } else await Promise.all(work)
    if (together.some(({ kind }) => kind === 'reopen')) {
      await life.conversation.close()
      await life.begin()
    }
  }
  await life.rest()
  await check(life)
  await life.conversation.close()
}

function isAmong(event: LogEvent, among: 'all' | 'calls' | 'facts'): boolean {
  if (among === 'facts') return event.kind === 'ConversationStateUpdateEvent' && event.key === 'leaf_event_id'
  return among === 'all' || event.kind === 'ActionEvent'
}

function onlyConflicts(error: unknown): void {
  if (!(error instanceof Problem && error.code === 'conflict')) throw error
}

async function check(life: CrashingConversation): Promise<void> {
  const events = await life.events()
  const branch = branchIn(events)
  for (const event of events) {
    if (event.kind !== 'ActionEvent') continue
    const isOn = branch.includes(event)
    const results = resultsOf(event, isOn ? branch : events).map(({ kind }) => kind)
    if (isOn) expect(results).toHaveLength(1)
    else expect(results).not.toHaveLength(0)
  }
  const { state } = life.conversation
  expect(state.leafId).toBe(branch.at(-1)?.id)
  expect(state.hasSystemPrompt).toBe(branch.some(({ kind }) => kind === 'SystemPromptEvent'))
  const users = branch.filter((event) => event.kind === 'MessageEvent' && event.source === 'user')
  expect(state.lastUserMessageId).toBe(users.at(-1)?.id)
  const view = new View()
  for (const event of branch) view.add(event)
  expect(state.view.save()).toEqual(view.save())
  expect(await finalResponse(storage.log, life.id)).toBe(answerIn(branch))
  const known = await readBranch(storage.log, life.id)
  expect(events.filter((_, index) => known.has(index + 1)).map(({ id }) => id)).toEqual(
    branch.map(({ id }) => id),
  )
  expect(events[known.leafAt(events.length) - 1]?.id).toBe(state.leafId)
  const folded = await ConversationWriter.open(life.id, storage.log)
  expect(JSON.parse(JSON.stringify(folded.state.save()))).toEqual(JSON.parse(JSON.stringify(state.save())))
  expect((await storage.conversations.get([life.id]))[0]?.status).toBe(state.status)
  const said = events.flatMap((event) =>
    event.kind === 'MessageEvent' ? texts([event.llm_message as Message]) : [],
  )
  // Whoever goes to an answer that had not seen a message before it has that answer, and no other.
  const since = events.findLastIndex((event) => isAmong(event, 'facts'))
  const seen = branch.filter((event) => events.indexOf(event) > since)
  const due = seen.flatMap((event) =>
    event.kind === 'MessageEvent' ? texts([event.llm_message as Message]) : [],
  )
  for (const text of life.sent) {
    expect(said.filter((one) => one === text)).toHaveLength(1)
    if (due.includes(text)) expect(life.requestedCalls.has(text)).toBe(true)
  }
}

function resultsOf(
  { id, tool_call_id }: Extract<LogEvent, { kind: 'ActionEvent' }>,
  events: readonly LogEvent[],
): LogEvent[] {
  return events.filter(
    (event) =>
      ('action_id' in event && event.action_id === id) ||
      (event.kind === 'AgentErrorEvent' && event.tool_call_id === tool_call_id),
  )
}

/**
 * The active branch, as plainly as it can be said: each event has a parent, and the last one is followed
 * back.
 */
function branchIn(events: readonly LogEvent[]): LogEvent[] {
  const parents = new Map<string, LogEvent | undefined>()
  let leaf: LogEvent | undefined
  for (const event of events) {
    if (event.kind === 'ConversationStateUpdateEvent' && event.key === 'leaf_event_id') {
      // It is never told to go to a fact like itself.
      leaf = events.find(({ id }) => id === event.value)
      expect(leaf === undefined || isAmong(leaf, 'facts')).toBe(leaf === undefined)
      continue
    }
    parents.set(event.id, leaf)
    leaf = event
  }
  const branch: LogEvent[] = []
  for (let event = leaf; event !== undefined; event = parents.get(event.id)) branch.unshift(event)
  return branch
}

function answerIn(branch: readonly LogEvent[]): string {
  const last = branch.findLast(
    (event) =>
      (event.kind === 'MessageEvent' && event.source === 'agent') ||
      (event.kind === 'ActionEvent' && event.tool_name === 'finish'),
  )
  if (last?.kind === 'MessageEvent') return texts([last.llm_message as Message]).join('')
  const action = last?.kind === 'ActionEvent' ? last.action : undefined
  return action?.kind === 'FinishAction' ? action.message : ''
}

test('for any commands in any order on any branch each call has one result, each message an answer, and the fold equals the state', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(command, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 }),
      fc.integer(),
      fc.constantFrom('never', 'always'),
      live,
    ),
    { numRuns: Number(process.env.SLIPWAY_LOOP_RUNS ?? 60), endOnFailure: false },
  )
}, 240_000)
