import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AgentContext,
  type ContentBlock,
  methods,
  type PromptResponse,
  RequestError,
  type SessionUpdate,
  type StopReason,
} from '@agentclientprotocol/sdk/unstable'
import { CallError, follow, readPendingActions } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import { actionsDigest, PendingActions } from '@slipway/protocol/confirmation'
import { allowCommand, answerActions } from '../conversation/pending-actions.ts'
import { asObject, asString, type JsonObject } from '../output/action-text.ts'
import { type Choices, readChoices, setChoice } from './choices.ts'
import { availableCommands, findCommand } from './commands.ts'
import { toRequestError } from './failures.ts'
import { askPermission } from './permission.ts'
import { messageContent } from './prompt-content.ts'
import { patienceMs, type ServerLink } from './server-link.ts'
import { Turns } from './turns.ts'
import { SessionUpdates, said, usageUpdates } from './updates.ts'

/** A cancelled prompt is answered within this time, also when no server answers. */
const cancelMs = 3_000

interface SessionOptions {
  readonly id: string
  readonly link: ServerLink
  readonly peer: AgentContext
  /** Who its messages are from: the name of the editor. */
  readonly sender: string | undefined
}

/**
 * A conversation as a session of an editor.
 *
 * Problem: the editor wants one conversation that it alone drives; a conversation has other screens, and its
 * server may be restarted at any time.
 *
 * Idea: the session keeps no state. It follows the log from a position on and passes each event on as
 * updates; a prompt, an answer and a cancellation are requests to the server, and what comes of them is read
 * in the log, like what other screens do.
 *
 * Invariants: a question to the editor ends when the log says that it is answered. A prompt always ends
 * (`Turns`): by the log, by a server that is away for `patienceMs`, or within `cancelMs` of a cancellation.
 */
export class EditorSession {
  readonly id: string
  readonly #link: ServerLink
  readonly #peer: AgentContext
  readonly #sender: string | undefined
  readonly #closing = new AbortController()
  readonly #signal: AbortSignal
  readonly #updates = new SessionUpdates()
  readonly #turns = new Turns()
  readonly #open = new PendingActions<JsonObject>()
  #status = 'idle'
  /** The events up to the head at the start are read: what comes is new. */
  #isLive = false
  #question: AbortController | undefined
  /** A refusal is on its way after which the run continues: until then the conversation is idle. */
  #isContinuing = false
  #command: AbortController | undefined
  #lossTimer: NodeJS.Timeout | undefined
  #sent: Promise<unknown> = Promise.resolve()

  constructor({ id, link, peer, sender }: SessionOptions) {
    this.id = id
    this.#link = link
    this.#peer = peer
    this.#sender = sender
    this.#signal = AbortSignal.any([link.signal, this.#closing.signal])
  }

  /**
   * Follows the conversation, from its beginning (`replay`) or from now on; resolves when the editor has
   * been sent what there is. Rejects with the CallError of a refusal.
   */
  async start({ replay }: { readonly replay: boolean }): Promise<Choices> {
    const params = { conversation_id: this.id }
    const head = await this.#link.call((client) => client.call('countEvents', { params, query: {} }))
    const info = await this.#info()
    this.#status = info.execution_status
    if (!replay && this.#status === 'waiting_for_confirmation') {
      const { events } = await this.#link.call((client) => readPendingActions(client, this.id, this.#signal))
      for (const event of events) this.#open.apply(asObject(event))
    }
    const caughtUp = Promise.withResolvers<void>()
    this.#read(replay ? 0 : head, head, caughtUp.resolve).catch((error: unknown) => {
      caughtUp.reject(error)
      this.#turns.fail(toRequestError(error))
    })
    await caughtUp.promise
    this.#isLive = true
    const choices = await readChoices(this.#link.client, info, this.#signal)
    // After the answer to the request, with which the editor learns the id.
    setImmediate(() => this.#begin(info))
    return choices
  }

  async prompt(blocks: readonly ContentBlock[]): Promise<PromptResponse> {
    const content = messageContent(blocks)
    const texts = content.flatMap((part) => ('text' in part ? [part.text] : []))
    const command = content.length === 1 ? findCommand(texts.join('')) : undefined
    if (command !== undefined) return { stopReason: await this.#runCommand(command) }
    const turn = this.#turns.begin(texts)
    const key = randomUUID()
    const body = { content, run: true, ...(this.#sender === undefined ? {} : { sender: this.#sender }) }
    const headers = { 'Idempotency-Key': key }
    const params = { conversation_id: this.id }
    const sending = this.#link
      .call(async (client) => {
        // The server was away when it was cancelled.
        if (turn.isCancelled) return false
        await client.call('sendMessage', { params, headers, body, signal: this.#signal })
        return true
      })
      // It arrived after the cancellation.
      .then((isSent) => (isSent && turn.isCancelled ? this.#interrupt() : undefined))
    sending.catch((error: unknown) => turn.done.reject(toRequestError(error)))
    try {
      return { stopReason: await turn.done.promise }
    } finally {
      this.#turns.end(turn)
    }
  }

  /** Ends what runs; prompts that wait are answered within `cancelMs`. */
  async cancel(): Promise<void> {
    this.#command?.abort()
    const isWaiting = this.#status === 'waiting_for_confirmation'
    // To interrupt what rests would pause it.
    if (this.#turns.isEmpty && !isWaiting && this.#status !== 'running') return
    this.#turns.cancel()
    this.#endQuestion()
    const stopping = (isWaiting ? this.#reject('Cancelled in the editor.') : this.#interrupt()).catch(
      () => {},
    )
    const ended = stopping.then(() => this.#turns.settled())
    await Promise.race([ended, sleep(cancelMs, undefined, { ref: false })])
    this.#turns.endCancelled()
  }

  async choices(): Promise<Choices> {
    return await readChoices(this.#link.client, await this.#info(), this.#signal)
  }

  async choose(option: string, value: unknown): Promise<Choices> {
    await setChoice(this.#link.client, await this.#info(), { option, value, signal: this.#signal })
    return await this.choices()
  }

  /** Follows it no more; what runs continues. */
  close(): void {
    this.#turns.cancel()
    this.#turns.endCancelled()
    this.#endQuestion()
    clearTimeout(this.#lossTimer)
    this.#closing.abort()
  }

  async #info(): Promise<ConversationInfo> {
    const params = { conversation_id: this.id }
    return await this.#link.call((client) => client.call('getConversation', { params, signal: this.#signal }))
  }

  #begin(info: ConversationInfo): void {
    this.#send({ sessionUpdate: 'available_commands_update', availableCommands })
    for (const update of usageUpdates(asObject(info.metrics))) this.#send(update)
    if (this.#status === 'waiting_for_confirmation' && this.#question === undefined) void this.#ask()
  }

  async #read(after: number, head: number, onCaughtUp: () => void): Promise<void> {
    const items = follow(this.#link.client, this.id, {
      after,
      signal: this.#signal,
      onTransientUpdate: (update) => {
        for (const one of this.#updates.fromUpdate(update)) this.#send(one)
      },
      onResync: ({ message }) => this.#say(message),
      onDisconnect: () => this.#onLoss(),
      onConnect: () => {
        clearTimeout(this.#lossTimer)
        this.#lossTimer = undefined
        if (after >= head) onCaughtUp()
      },
    })
    for await (const { event, position } of items) {
      this.#onEvent(asObject(event))
      // The editor's pace, where there is much.
      if (position <= head) await this.#sent
      if (position === head) onCaughtUp()
    }
  }

  #onLoss(): void {
    void this.#link.revive()
    this.#lossTimer ??= setTimeout(() => {
      const { url } = this.#link.client
      const words = `The server at ${url} does not answer. What it has stored is kept: start it again, then send "continue".`
      this.#turns.fail(new RequestError(-32603, words))
    }, patienceMs).unref()
  }

  #onEvent(event: JsonObject): void {
    const isOwn = event.kind === 'MessageEvent' && this.#turns.claim(event, this.#status)
    const isFailure = event.kind === 'ConversationErrorEvent' && this.#turns.endFailed(event)
    this.#open.apply(event)
    if (!isOwn && !isFailure) for (const update of this.#updates.fromEvent(event)) this.#send(update)
    if (event.kind !== 'ConversationStateUpdateEvent') return
    if (event.key === 'execution_status') this.#onStatus(asString(event.value))
    if (this.#isLive && (event.key === 'confirmation_policy' || event.key === 'plan_mode'))
      void this.#sendChoices().catch(() => {})
  }

  #onStatus(status: string): void {
    const isAnswered = this.#status === 'waiting_for_confirmation' && status !== this.#status
    this.#status = status
    if (isAnswered) this.#endQuestion()
    if (status === 'waiting_for_confirmation' && this.#isLive) void this.#ask()
    if (status === 'stuck') this.#say('The agent repeated itself and was stopped.')
    if (status === 'running' && isAnswered) this.#markAllowed()
    if (status !== 'idle') this.#isContinuing = false
    this.#turns.onStatus(status, this.#isContinuing)
  }

  /** The calls that were asked about are under way. */
  #markAllowed(): void {
    for (const { id } of this.#open.list())
      this.#send({ sessionUpdate: 'tool_call_update', toolCallId: asString(id), status: 'in_progress' })
  }

  async #sendChoices(): Promise<void> {
    const { modes, configOptions } = await this.choices()
    this.#send({ sessionUpdate: 'current_mode_update', currentModeId: modes.currentModeId })
    this.#send({ sessionUpdate: 'config_option_update', configOptions })
  }

  async #ask(): Promise<void> {
    const actions = this.#open.list()
    if (actions.length === 0)
      return this.#say(
        'The repository brings hooks or agents. Decide about them in a terminal: slipway trust',
      )
    const question = new AbortController()
    this.#question = question
    const digest = actionsDigest(actions)
    const actionIds = actions.map(({ id }) => asString(id))
    try {
      const { signal } = question
      const permission = await askPermission(this.#peer, this.id, { actions, signal })
      if (signal.aborted) return
      if (permission.kind === 'stop') this.#turns.cancel()
      const { client } = this.#link
      if (permission.kind === 'always') await allowCommand(client, this.id, permission.pattern, this.#signal)
      const accept = permission.kind === 'once' || permission.kind === 'always'
      const isContinued = permission.kind === 'reject'
      this.#isContinuing = isContinued
      const reason = accept ? undefined : 'The user rejected this action.'
      const answer = { accept, digest, actionIds, isContinued, reason }
      // False when another screen has answered: the log says how.
      const isAnswered = await this.#link.call(() => answerActions(client, this.id, answer, this.#signal))
      if (!isAnswered) this.#stopContinuing()
    } catch (error) {
      this.#stopContinuing()
      if (!question.signal.aborted && !this.#signal.aborted)
        this.#say(
          `The question was not answered here: ${toRequestError(error).message}. Answer it on another screen.`,
        )
    }
  }

  /** The run is not continued, or by somebody else: what its end has left open ends. */
  #stopContinuing(): void {
    this.#isContinuing = false
    this.#turns.onStatus(this.#status, false)
  }

  #endQuestion(): void {
    this.#question?.abort()
    this.#question = undefined
  }

  async #reject(reason: string): Promise<void> {
    const actions = this.#open.list()
    const actionIds = actions.map(({ id }) => asString(id))
    const answer = { accept: false, reason, digest: actionsDigest(actions), actionIds, isContinued: false }
    await this.#link.call((client) => answerActions(client, this.id, answer, this.#signal))
  }

  async #interrupt(): Promise<void> {
    const params = { conversation_id: this.id }
    await this.#link.call((client) => client.call('interruptConversation', { params, signal: this.#signal }))
  }

  async #runCommand(command: NonNullable<ReturnType<typeof findCommand>>): Promise<StopReason> {
    const abort = new AbortController()
    this.#command = abort
    const signal = AbortSignal.any([abort.signal, this.#signal])
    try {
      this.#say(await command({ link: this.#link, id: this.id, signal }))
      return 'end_turn'
    } catch (error) {
      if (abort.signal.aborted) return 'cancelled'
      if (error instanceof CallError) {
        this.#say(error.detail)
        return 'end_turn'
      }
      throw toRequestError(error)
    }
  }

  #say(text: string): void {
    for (const update of said(`${text}\n`)) this.#send(update)
  }

  #send(update: SessionUpdate): void {
    if (this.#closing.signal.aborted) return
    // The end of the connection ends the session elsewhere.
    this.#sent = this.#peer
      .notify(methods.client.session.update, { sessionId: this.id, update })
      .catch(() => {})
  }
}
