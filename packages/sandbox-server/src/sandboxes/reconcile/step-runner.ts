import { Client } from '@slipway/client'
import { Secret } from '@slipway/shared/redaction'
import { errorText } from '@slipway/shared/text'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { generateKey } from '../../auth/api-keys.ts'
import { hashKey } from '../../auth/authenticator.ts'
import type { Backend, ObservedSandbox } from '../../backends/backend.ts'
import {
  fetchInstance,
  type Health,
  probeHealth,
  probeKey,
  sendInit,
} from '../../network/agent-server-probe.ts'
import type { AgentTarget } from '../../network/agent-target.ts'
import { encodeEndpoint } from '../../network/endpoint.ts'
import type { SandboxContext } from '../state/context.ts'
import { readCaughtUpAt } from '../state/event-note.ts'
import { initRequest, replaceSessionKey } from '../state/sandbox-config.ts'
import { isPooled, type SandboxRowUpdate } from '../state/sandbox-repository.ts'
import { type SandboxSecrets, sealSecrets } from '../state/sandbox-secrets.ts'
import { redactDetail } from '../state/status-detail.ts'
import { type Step, stopEpoch } from './plan.ts'

/** How long a pause waits for what its agent server says of its events, where that decides a deletion. */
const noteTimeoutMs = 3_000
/** Elsewhere: a later archive, and a rule that is set later, have that answer without another start. */
const optionalNoteTimeoutMs = 300
/** Sandboxes run foreign code, and an answer takes several times its length in memory. */
const maxAnswerBytes = 8 * 1024 * 1024

/** What one round of a worker has read. */
interface Round {
  readonly row: SandboxRow
  readonly observed: ObservedSandbox | undefined
  readonly secrets: SandboxSecrets | undefined
  /** The previous round had the same step. */
  readonly isRepeat: boolean
}

/** `changed`: look again now; `called`: later when it is a repeat; `pending`: later; `gone`: never. */
type StepOutcome = 'changed' | 'called' | 'pending' | 'gone'

/** Runs the steps of one sandbox: calls its backend and its agent server, and writes its row. */
export class StepRunner {
  readonly #context: SandboxContext
  readonly #id: string
  readonly #backend: Backend

  constructor(context: SandboxContext, id: string, backend: Backend) {
    this.#context = context
    this.#id = id
    this.#backend = backend
  }

  async run(step: Exclude<Step, { kind: 'idle' }>, round: Round): Promise<StepOutcome> {
    switch (step.kind) {
      case 'wait':
        return await this.#wait(step.isLast, round)
      case 'probe':
        return await this.#probe(step.isLast, round)
      case 'start':
      case 'resume':
        return await this.#start(step.kind, round)
      case 'pause':
        if (!round.isRepeat) await this.#noteEvents(round)
        await this.callBackend('pause')
        return 'called'
      case 'stop':
        await this.callBackend('stop')
        return 'called'
      case 'remove':
        if (!round.isRepeat) await this.#saveLog(round)
        await this.callBackend('remove')
        return 'called'
      case 'deleteRow':
        await this.#context.repository.remove(this.#id)
        return 'gone'
      case 'setStatus':
        return await this.#setStatus(step, round)
    }
  }

  observe(): Promise<ObservedSandbox | undefined> {
    return this.#context.semaphores.look.run(async () =>
      (await this.#backend.list(this.#id)).find(({ id }) => id === this.#id),
    )
  }

  callBackend(verb: 'pause' | 'stop' | 'remove'): Promise<void> {
    const { repository } = this.#context
    return this.#context.semaphores.change.run(() =>
      repository.runStep(verb, () => this.#backend[verb](this.#id)),
    )
  }

  /** A row that has changed in the meantime stays: the next round reads it. */
  async updateRow(row: SandboxRow, members: SandboxRowUpdate): Promise<void> {
    const { repository, signal, log } = this.#context
    signal.throwIfAborted()
    const changed = await repository.update(row, members)
    if (changed === undefined || changed.status === row.status) return
    log('info', 'sandbox', { sandbox: row.id, from: row.status, to: changed.status })
  }

  async #start(verb: 'start' | 'resume', round: Round): Promise<StepOutcome> {
    const { secrets: previous, observed } = round
    if (previous === undefined)
      return await this.#fail(
        round,
        'What it was made from is sealed with a key that this server does not have.',
      )
    const { repository } = this.#context
    const isThaw = verb === 'resume' && observed?.state === 'paused'
    if (isThaw && round.row.epoch === stopEpoch && this.#backend.appliesConfigOnResume === true) {
      // Only a start gives it another key.
      await this.callBackend('stop')
      return 'called'
    }
    const isFirst = verb === 'start' && round.row.epoch === null
    const isKeyReplaced =
      !isThaw && !isFirst && previous.key !== null && this.#backend.appliesConfigOnResume === true
    const secrets = isKeyReplaced ? replaceSessionKey(previous) : previous
    const row = isKeyReplaced ? await this.#storeKey(round.row, secrets) : round.row
    // Another request has changed the row: the next round plans again.
    if (row === undefined) return 'changed'
    await this.#context.semaphores.start.run(() =>
      repository.runStep(verb, () => this.#backend[verb](secrets.order)),
    )
    const started = await this.observe()
    if (started === undefined) throw new Error('it was started and is missing')
    // Never the text of a sandbox that is to be started again.
    const epoch = started.epoch === '' ? 'none' : started.epoch
    await this.updateRow(row, { epoch, addresses: encodeEndpoint(started), detail: null })
    return 'changed'
  }

  /** Before a removal. A failure loses the log and nothing else. */
  async #saveLog({ row, observed, secrets }: Round): Promise<void> {
    const { saveLog, log, signal } = this.#context
    if (isPooled(row) || observed === undefined) return
    try {
      await saveLog(row, this.#backend, secrets)
    } catch (error) {
      signal.throwIfAborted()
      log('warn', 'the log of a sandbox could not be kept', { sandbox: row.id, error: errorText(error) })
    }
  }

  /** Before a pause: whether all its events are in the log of the control plane. No answer is unknown. */
  async #noteEvents({ row, observed, secrets }: Round): Promise<void> {
    const url = observed?.addresses.AGENT_SERVER
    const key = secrets?.key ?? null
    if (isPooled(row) || url === undefined || key === null) return
    // An archive has noted it while the sandbox ran, and waits for it.
    const isArchive = (row.caught_up_at ?? 0) > row.changed_at
    const isNeeded = isArchive || this.#context.getLifetimes(row.spec).deleteAfterSeconds > 0
    const timeoutMs = isNeeded ? noteTimeoutMs : optionalNoteTimeoutMs
    await this.updateRow(row, await readCaughtUpAt(this.#context, row.id, this.#connect(url, key), timeoutMs))
  }

  /** Durable before its first use. Undefined when the row has changed in the meantime. */
  #storeKey(row: SandboxRow, secrets: SandboxSecrets): Promise<SandboxRow | undefined> {
    const { repository, cipher } = this.#context
    const key_hash = secrets.key === null ? null : hashKey(secrets.key)
    return repository.update(row, { key_hash, sealed: sealSecrets(cipher, secrets) })
  }

  async #setStatus(step: Extract<Step, { kind: 'setStatus' }>, round: Round): Promise<StepOutcome> {
    const { row, observed, isRepeat } = round
    const { status, epoch } = step
    if (status === 'MISSING') {
      // A single look that finds nothing may have come at a bad moment.
      if (!isRepeat) return 'pending'
      const keepsDetail = row.status === 'ERROR' || row.wanted === 'archived'
      const detail = keepsDetail ? row.detail : 'Nothing is left of it.'
      await this.updateRow(row, { status, detail })
      return 'changed'
    }
    if (status === 'ERROR') return await this.#fail(round, observed?.detail ?? 'Its processes have ended.')
    // A backend may lose memory by a pause, and says so.
    const detail = status === 'PAUSED' && observed?.state === 'paused' ? (observed.detail ?? null) : null
    await this.updateRow(row, {
      status,
      detail,
      ...(observed && { addresses: encodeEndpoint(observed) }),
      ...(epoch !== undefined && { epoch }),
    })
    return 'changed'
  }

  async #wait(isLast: boolean, round: Round): Promise<StepOutcome> {
    const { row, observed, secrets } = round
    if (isLast) return await this.#fail(round, observed?.detail ?? 'It is still being made.')
    const detail = observed?.detail === undefined ? null : redactDetail(observed.detail, secrets)
    if (detail !== null && detail !== row.detail) await this.updateRow(row, { detail })
    return 'pending'
  }

  async #probe(isLast: boolean, round: Round): Promise<StepOutcome> {
    const { row, observed, secrets } = round
    const { cipher, startMs } = this.#context
    if (secrets === undefined)
      return await this.#fail(round, 'Its session key is sealed with a key that this server does not have.')
    if (secrets.key === null) {
      const key = generateKey()
      await this.updateRow(row, { key_hash: hashKey(key), sealed: sealSecrets(cipher, { ...secrets, key }) })
      return 'changed'
    }
    const health = await this.#checkHealth(round, secrets.key, secrets.initKey)
    if (health.kind === 'ready') {
      const endpoint = observed && { addresses: encodeEndpoint(observed) }
      const { AGENT_SERVER: url } = observed?.addresses ?? {}
      // Before it gets its settings: one that is started again after that is another one.
      if (url !== undefined) await this.#noteInstance(row, url, secrets.key)
      const detail = await this.#tellReady(row, url, secrets)
      await this.updateRow(row, { status: 'RUNNING', detail, ...endpoint })
      return 'changed'
    }
    if (!isLast) return 'pending'
    const reason = health.kind === 'pending' ? health.why : 'it still waits for its settings'
    const seconds = Math.round(startMs / 1000)
    const text = `The agent server was not ready after ${seconds} s: ${reason}. ${observed?.detail ?? ''}`
    return await this.#fail(round, text)
  }

  async #noteInstance(row: SandboxRow, url: string, key: string): Promise<void> {
    const instance = await fetchInstance({ url, key: new Secret(key) }, this.#context)
    this.#context.instances.note(row, instance)
  }

  async #tellReady(
    row: SandboxRow,
    url: string | undefined,
    secrets: SandboxSecrets,
  ): Promise<string | null> {
    const { onReady, signal, log } = this.#context
    if (onReady === undefined || isPooled(row) || url === undefined || secrets.key === null) return null
    try {
      const note = await onReady(row, this.#connect(url, secrets.key), signal)
      return note === undefined ? null : redactDetail(note, secrets)
    } catch (error) {
      signal.throwIfAborted()
      log('warn', 'a sandbox was not told its settings again', { sandbox: row.id, error: String(error) })
      return null
    }
  }

  #connect(url: string, key: string): AgentTarget & { readonly client: Client } {
    const sessionApiKey = new Secret(key)
    const client = new Client({ url, sessionApiKey, fetch: this.#context.fetch, maxAnswerBytes })
    return { client, url, key: sessionApiKey }
  }

  async #checkHealth({ row, observed }: Round, key: string, initKey: string | null): Promise<Health> {
    const url = observed?.addresses.AGENT_SERVER
    if (url === undefined) return { kind: 'pending', why: 'it has no address' }
    const context = this.#context
    const health = await context.semaphores.look.run(() => probeHealth(url, key, context))
    if (health.kind !== 'dormant') return health
    const body = initRequest(key, context.getEnvironment(row))
    const rejection = await context.repository.runStep('init', () => sendInit(url, initKey, body, context))
    return rejection === undefined ? await probeKey(url, key, context) : { kind: 'pending', why: rejection }
  }

  async #fail({ row, secrets }: Round, text: string): Promise<StepOutcome> {
    await this.updateRow(row, { status: 'ERROR', detail: redactDetail(text, secrets) })
    return 'changed'
  }
}
