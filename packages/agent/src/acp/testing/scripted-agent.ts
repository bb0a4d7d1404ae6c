/**
 * A program that speaks the Agent Client Protocol and plays a script: `node scripted-agent.ts <JSON>`. Each
 * prompt plays the next turn of the script. What it receives is appended to `log`, one JSON a line.
 */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

export interface AgentScript {
  readonly turns?: readonly (readonly ScriptStep[])[]
  /** Where sessions are kept over a restart; without it none can be loaded. */
  readonly sessions?: string
  readonly log?: string
  /** Where it writes its process id, one a line. */
  readonly pidFile?: string
  readonly models?: readonly string[]
  /** Models are chosen by the older method. */
  readonly hasOldModels?: boolean
  /** Values of the option for reasoning, offered for each model but the first. */
  readonly efforts?: readonly string[]
  readonly failsInitialize?: string
  /** Version of the protocol that it speaks; 1 unless given. */
  readonly protocolVersion?: number
  readonly hangsInitialize?: boolean
  readonly requiresAuth?: boolean
  /** What becomes of a request to load a session that it has. */
  readonly load?: 'hangs' | 'exits' | 'repeats late' | 'refuses, and repeats late'
  readonly hangsModel?: boolean
  readonly ignoresCancel?: boolean
  /** It continues when its input has ended. */
  readonly ignoresEnd?: boolean
}

export type ScriptStep =
  | { readonly text: string }
  | { readonly thought: string }
  | { readonly update: object }
  /** Asks, and says what it was answered; a rejection does not end the turn. */
  | { readonly permission: object; readonly options?: readonly object[] }
  /** The same, several at once. */
  | { readonly permissions: readonly object[] }
  | { readonly waitMs: number }
  | { readonly hang: true }
  | { readonly stderr: string }
  | { readonly exit: number }
  | { readonly variable: string }
  | { readonly file: string }
  /** Writes a text to the file `auth.json` in the folder that a variable names, and says what was there. */
  | { readonly renews: string; readonly text: string }
  | { readonly result: object }
  | { readonly error: object }

type Json = Record<string, unknown>

const script: AgentScript = JSON.parse(process.argv[2] ?? '{}')
const answers = new Map<number, (result: Json) => void>()
let nextId = 1
let cancelled = new AbortController()
const restored: { turn: number; model: string } | undefined =
  script.sessions !== undefined && existsSync(script.sessions)
    ? JSON.parse(readFileSync(script.sessions, 'utf8'))
    : undefined
let turn = restored?.turn ?? 0
let effort = script.efforts?.[0]
let model = restored?.model ?? script.models?.[0] ?? 'default'

function send(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
}

let sessionId = 'session-1'

function update(value: object, ofSession = sessionId): void {
  send({ method: 'session/update', params: { sessionId: ofSession, update: value } })
}

function save(): void {
  if (script.sessions !== undefined) writeFileSync(script.sessions, JSON.stringify({ turn, model }))
}

function textUpdate(sessionUpdate: string, text: string, ofSession?: string): void {
  update({ sessionUpdate, content: { type: 'text', text } }, ofSession)
}

async function ask(method: string, params: object): Promise<Json> {
  const id = nextId++
  const answer = new Promise<Json>((done) => answers.set(id, done))
  send({ id, method, params })
  return await answer
}

const defaultOptions = [
  { optionId: 'yes', name: 'Allow', kind: 'allow_once' },
  { optionId: 'always', name: 'Always', kind: 'allow_always' },
  { optionId: 'no', name: 'Reject', kind: 'reject_once' },
]

async function askPermission(toolCall: object, options: readonly object[] = defaultOptions): Promise<void> {
  const answer = await ask('session/request_permission', { sessionId, toolCall, options })
  const { outcome, optionId } = answer.outcome as { outcome: string; optionId?: string }
  textUpdate('agent_message_chunk', `<${optionId ?? outcome}>`)
}

async function play(step: ScriptStep): Promise<Json | undefined> {
  const { signal } = cancelled
  if ('renews' in step) {
    const file = join(String(process.env[step.renews]), 'auth.json')
    textUpdate('agent_message_chunk', readFileSync(file, 'utf8'))
    writeFileSync(file, step.text)
  } else if ('text' in step) textUpdate('agent_message_chunk', step.text)
  else if ('thought' in step) textUpdate('agent_thought_chunk', step.thought)
  else if ('update' in step) update(step.update)
  else if ('waitMs' in step) await sleep(step.waitMs, undefined, { signal }).catch(() => undefined)
  else if ('hang' in step) {
    const timer = setInterval(() => undefined, 1_000)
    await new Promise<void>((done) => signal.addEventListener('abort', () => done(), { once: true }))
    clearInterval(timer)
  } else if ('stderr' in step) process.stderr.write(step.stderr)
  else if ('exit' in step) process.exit(step.exit)
  else if ('variable' in step) textUpdate('agent_message_chunk', String(process.env[step.variable]))
  else if ('file' in step)
    textUpdate('agent_message_chunk', readFileSync(String(process.env[step.file]), 'utf8'))
  else if ('permission' in step) await askPermission(step.permission, step.options)
  else if ('permissions' in step)
    await Promise.all(step.permissions.map((permission) => askPermission(permission)))
  else if ('error' in step) return { error: step.error }
  else return { result: step.result }
  return undefined
}

async function prompt(): Promise<Json> {
  cancelled = new AbortController()
  const steps = script.turns?.[turn] ?? [{ text: 'No more turns.' }]
  turn++
  save()
  for (const step of steps) {
    if (cancelled.signal.aborted && script.ignoresCancel !== true)
      return { result: { stopReason: 'cancelled' } }
    const end = await play(step)
    if (end !== undefined) return end
  }
  return { result: { stopReason: cancelled.signal.aborted ? 'cancelled' : 'end_turn' } }
}

function modelMembers(): object {
  const { models, hasOldModels } = script
  if (models === undefined) return {}
  if (hasOldModels === true)
    return {
      models: { currentModelId: model, availableModels: models.map((id) => ({ modelId: id, name: id })) },
    }
  const options = models.map((value) => ({ value, name: value.toUpperCase() }))
  const efforts = (script.efforts ?? []).map((value) => ({ value, name: value }))
  const select = { type: 'select', category: 'thought_level', name: 'Effort', currentValue: effort }
  return {
    configOptions: [
      { id: 'model', type: 'select', name: 'Model', currentValue: model, options },
      ...(model === models[0] || efforts.length === 0
        ? []
        : [{ ...select, id: 'thinking', options: efforts }]),
    ],
  }
}

async function respond(method: string, params: Json): Promise<Json> {
  switch (method) {
    case 'initialize':
      if (script.hangsInitialize === true) return await new Promise(() => setInterval(() => undefined, 1_000))
      if (script.failsInitialize !== undefined)
        return { error: { code: -32603, message: script.failsInitialize } }
      return {
        result: {
          protocolVersion: script.protocolVersion ?? 1,
          agentInfo: { name: 'scripted-agent', version: '1.0.0' },
          agentCapabilities: {
            loadSession: script.sessions !== undefined,
            promptCapabilities: { image: true },
            mcpCapabilities: { http: true, sse: false },
          },
          authMethods: [],
        },
      }
    case 'session/new':
      if (script.requiresAuth === true) return { error: { code: -32000, message: 'Authentication required' } }
      save()
      return { result: { sessionId, ...modelMembers() } }
    case 'session/load':
      if (restored === undefined) return { error: { code: -32002, message: 'Unknown session' } }
      if (script.load === 'hangs') return await new Promise(() => undefined)
      if (script.load === 'exits') process.exit(5)
      if (script.load === 'refuses, and repeats late') {
        sessionId = 'session-2'
        const repeat = () => textUpdate('agent_message_chunk', 'Late.', String(params.sessionId))
        for (const ms of [0, 100, 400]) setTimeout(repeat, ms)
        return { error: { code: -32002, message: 'Unknown session' } }
      }
      textUpdate('agent_message_chunk', 'A text of an earlier turn.')
      if (script.load === 'repeats late')
        for (const ms of [20, 40]) setTimeout(() => textUpdate('agent_message_chunk', `Late ${ms}.`), ms)
      return { result: modelMembers() }
    case 'session/set_mode':
      return { result: {} }
    case 'session/set_model':
    case 'session/set_config_option': {
      const chosen = String(params.modelId ?? params.value)
      if (script.hangsModel === true) return await new Promise(() => undefined)
      if (params.configId === 'thinking') {
        effort = chosen
        return { result: modelMembers() }
      }
      if (script.models?.includes(chosen) !== true)
        return { error: { code: -32602, message: 'Unknown model' } }
      model = chosen
      save()
      return { result: script.efforts === undefined ? {} : modelMembers() }
    }
    case 'session/prompt':
      return await prompt()
    default:
      return { error: { code: -32601, message: `Method not found: ${method}` } }
  }
}

if (script.pidFile !== undefined) appendFileSync(script.pidFile, `${process.pid}\n`)
process.stdout.write('scripted agent: this line is no message\n')
const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  const message = JSON.parse(line) as Json
  if (script.log !== undefined) appendFileSync(script.log, `${line}\n`)
  const { id, method, params, result } = message
  if (method === undefined) answers.get(Number(id))?.((result ?? {}) as Json)
  else if (id === undefined) {
    if (method === 'session/cancel' && script.ignoresCancel !== true) cancelled.abort()
  } else void respond(String(method), (params ?? {}) as Json).then((answer) => send({ id, ...answer }))
})
lines.on('close', () => {
  if (script.ignoresEnd === true) setInterval(() => undefined, 1_000)
  else process.exit(0)
})
