import { access, constants } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { type AcpAgent, type AcpState, type McpServer, Problem } from '@slipway/protocol'
import ownPackage from '../../package.json' with { type: 'json' }
import type { Secrets } from '../secrets/secrets.ts'
import type { McpOAuthStates } from '../tools/core/mcp-oauth-states.ts'
import { resolveEndpoint } from '../tools/mcp/endpoint.ts'
import { LineProcess } from '../tools/mcp/line-process.ts'
import { workspaceVariable } from '../workspace/program-folder.ts'
import type { Workspace } from '../workspace/workspace.ts'
import type { CredentialSource } from './credentials.ts'
import { AcpError, rpcFailure } from './failure.ts'
import { type Launch, prepareLaunch } from './launch.ts'
import { ProgramEndedError, RpcConnection, RpcError, type RpcHandlers } from './rpc.ts'
import {
  type AgentAbilities,
  readAbilities,
  readEffort,
  readModels,
  readText,
  type SessionModels,
} from './session-messages.ts'

const protocolVersion = 1
const authTimeoutMs = 30_000

interface AcpSessionOptions {
  readonly agent: AcpAgent
  readonly workspace: Workspace
  /** Private to the conversation. */
  readonly directory: string
  readonly secrets: Secrets
  readonly servers: Readonly<Record<string, McpServer>>
  readonly mcpOAuth: McpOAuthStates | undefined
  readonly findCredential?: (name: string) => CredentialSource | undefined
  /** The session to continue, if the program still has it. */
  readonly earlier?: Pick<AcpState, 'acp_session_id' | 'acp_session_cwd'> | undefined
  readonly handlers: RpcHandlers
  readonly warn: (text: string) => void
}

/** A running external agent and its session. */
export class AcpSession {
  readonly id: string
  readonly abilities: AgentAbilities
  /** The session existed before: the program knows what was said. */
  readonly isContinued: boolean
  /** The session was loaded: the program sends again what was said. */
  readonly isReplayed: boolean
  #models: SessionModels | undefined
  readonly #process: LineProcess
  readonly #rpc: RpcConnection
  readonly #launch: Launch
  readonly #options: AcpSessionOptions

  private constructor(started: StartedProgram, opened: OpenedSession, options: AcpSessionOptions) {
    this.#options = options
    this.#process = started.process
    this.#rpc = started.rpc
    this.#launch = started.launch
    this.abilities = started.abilities
    this.id = opened.id
    this.isContinued = opened.isContinued
    this.isReplayed = opened.isContinued && !started.abilities.canResume
    this.#models = opened.models
  }

  /**
   * Starts the program and opens a session; rejects with AcpError, and no process is left then. A program
   * that hangs or ends while it loads the earlier session is started again with a new one.
   */
  static async open(options: AcpSessionOptions, signal: AbortSignal): Promise<AcpSession> {
    try {
      return await AcpSession.#start(options, signal)
    } catch (error) {
      if (!(error instanceof LoadError) || signal.aborted) throw error
      const { agent, warn } = options
      warn(`${error.message}, and is started again with a new session`)
      const fresh = { ...options, agent: { ...agent, acp_resume_session_id: undefined }, earlier: undefined }
      return await AcpSession.#start(fresh, signal)
    }
  }

  static async #start(options: AcpSessionOptions, signal: AbortSignal): Promise<AcpSession> {
    const { agent } = options
    const timeout = AbortSignal.timeout(Math.ceil(agent.acp_startup_timeout * 1000))
    const started = await startProgram(options, AbortSignal.any([signal, timeout])).catch(
      (error: unknown) => {
        throw timeout.aborted && !signal.aborted ? startupTimeout(agent) : error
      },
    )
    try {
      const opened = await openSession(started, options, AbortSignal.any([signal, timeout]))
      return new AcpSession(started, opened, options)
    } catch (error) {
      await closeProgram(started)
      if (error instanceof LoadError) throw error
      if (timeout.aborted && !signal.aborted) throw startupTimeout(agent)
      throw rpcFailure(error, 'ACPInitError')
    }
  }

  get models(): SessionModels | undefined {
    return this.#models
  }

  /** Undefined while the program runs. */
  get endReason(): string | undefined {
    return this.#process.endReason
  }

  /** The answer to a prompt. Rejects with RpcError or ProgramEndedError. */
  async prompt(blocks: readonly object[]): Promise<Readonly<Record<string, unknown>>> {
    return await this.#rpc.request('session/prompt', { sessionId: this.id, prompt: blocks })
  }

  async cancel(): Promise<void> {
    await this.#rpc.notify('session/cancel', { sessionId: this.id })
  }

  /** With the effort of the agent. Rejects with RpcError, ProgramEndedError or the reason of the signal. */
  async setModel(model: string, signal: AbortSignal): Promise<void> {
    const configured = await setModel(this.#rpc, { id: this.id, models: this.#models, model }, signal)
    if (this.#models !== undefined) this.#models = { ...this.#models, current: model }
    const { agent, warn } = this.#options
    if (!Array.isArray(configured.configOptions)) return
    // The model is switched whatever becomes of the effort.
    await setEffort(this.#rpc, { id: this.id, effort: agent.acp_effort, configured, warn }, signal).catch(
      () => warn(`the external agent did not answer to the effort ${agent.acp_effort}`),
    )
  }

  /** Gives credentials that the program has renewed to their sources. Never rejects. */
  async saveCredentials(): Promise<void> {
    await this.#launch.saveCredentials()
  }

  /** Ends the program and what it has started. */
  async close(): Promise<void> {
    await closeProgram({ process: this.#process, launch: this.#launch })
  }
}

interface StartedProgram {
  readonly process: LineProcess
  readonly rpc: RpcConnection
  readonly launch: Launch
  readonly abilities: AgentAbilities
}

interface OpenedSession {
  readonly id: string
  readonly isContinued: boolean
  readonly models: SessionModels | undefined
}

/** The program did not answer when it was to load a session. */
class LoadError extends Error {
  override readonly name = 'LoadError'
}

const folderHint =
  'It starts in an empty folder, so give it absolute paths instead of paths of the working directory.'

async function startProgram(options: AcpSessionOptions, signal: AbortSignal): Promise<StartedProgram> {
  const { agent, workspace, directory, secrets, findCredential, handlers, warn } = options
  const path = [...agent.acp_command, ...agent.acp_args].find((word) => /^\.\.?(?:\/|$)/.test(word))
  if (path !== undefined)
    throw new AcpError(
      'ACPSpawnError',
      `${path} is a path of the working directory, and an external agent starts in an empty folder. Give it an absolute path.`,
    )
  const place = {
    directory,
    workspace: workspace.directory,
    environment: workspace.env,
    secrets,
    warn,
    findCredential: findCredential ?? (() => undefined),
  }
  const launch = await prepareLaunch(agent, place, signal).catch((error: unknown) => {
    if (!(error instanceof Problem)) throw error
    throw new AcpError('ACPAuthRequired', `The sign-in of the external agent is missing: ${error.message}`)
  })
  let process: LineProcess | undefined
  try {
    const { command, args, cwd, writable } = launch
    const env = { [workspaceVariable]: workspace.directory, ...launch.env }
    const { child, isStarted } = await workspace.openProgram(command, args, { cwd, env, writable })
    process = new LineProcess(child)
    if (!(await isStarted))
      throw new AcpError(
        'ACPSpawnError',
        `The external agent ${command} could not be started: is it installed? ${folderHint}`,
      )
    const rpc = new RpcConnection(process, handlers)
    const answer = await rpc.request(
      'initialize',
      {
        protocolVersion,
        // It reads and writes files and runs commands on its own, inside of the same walls.
        clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
        clientInfo: { name: 'slipway', title: 'Slipway', version: ownPackage.version },
      },
      signal,
    )
    assertVersion(answer.protocolVersion)
    return { process, rpc, launch, abilities: readAbilities(answer) }
  } catch (error) {
    await closeProgram({ process, launch })
    if (error instanceof TypeError)
      throw new AcpError('ACPSpawnError', `The command is not valid: ${error.message}`)
    if (error instanceof ProgramEndedError)
      throw new AcpError('ACPInitError', `${error.message}\n${folderHint}`)
    throw rpcFailure(error, 'ACPInitError')
  }
}

/** A program answers with the version that it is going to speak. */
function assertVersion(spoken: unknown): void {
  if (typeof spoken !== 'number' || spoken === protocolVersion) return
  throw new AcpError(
    'ACPInitError',
    `The external agent speaks version ${spoken} of the Agent Client Protocol, this server version ${protocolVersion}. Take a release of the agent that speaks version ${protocolVersion}.`,
  )
}

async function closeProgram({
  process,
  launch,
}: {
  process: LineProcess | undefined
  launch: Launch
}): Promise<void> {
  await process?.close()
  await launch.saveCredentials()
  await launch.dispose()
}

function startupTimeout({ acp_startup_timeout: seconds }: AcpAgent): AcpError {
  return new AcpError(
    'ACPInitError',
    `The external agent did not start within ${seconds} s (acp_startup_timeout).`,
  )
}

async function openSession(
  started: StartedProgram,
  options: AcpSessionOptions,
  signal: AbortSignal,
): Promise<OpenedSession> {
  const { rpc, launch, abilities } = started
  const { agent, workspace, warn } = options
  const method = await findAuthMethod(abilities.authMethods, { ...workspace.env, ...launch.env })
  if (method !== undefined) {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(authTimeoutMs)])
    await rpc.request('authenticate', { methodId: method }, limit)
  }
  const mcpServers = await mcpServerList(options, started)
  const place = { cwd: workspace.directory, mcpServers }
  const continued = await continueSession(started, options, { place, signal })
  const result = continued?.result ?? (await rpc.request('session/new', place, signal))
  const id = continued?.id ?? readText(result.sessionId)
  if (id === undefined) throw new AcpError('ACPInitError', 'The external agent has named no session')
  let models = readModels(result)
  // The options depend on the model.
  let configured = result
  const { acp_model: model, acp_session_mode: modeId } = agent
  if (model !== undefined && models?.current !== model) {
    // What a program offers depends on the account: it continues with its own model otherwise.
    const answer = await setModel(rpc, { id, models, model }, signal).catch((error: unknown) => {
      if (!(error instanceof RpcError)) throw error
      warn(`the external agent did not take the model ${model}`)
    })
    if (answer !== undefined) models = { available: [], optionId: undefined, ...models, current: model }
    if (Array.isArray(answer?.configOptions)) configured = answer
  }
  await setEffort(rpc, { id, effort: agent.acp_effort, configured, warn }, signal)
  if (modeId !== undefined) await rpc.request('session/set_mode', { sessionId: id, modeId }, signal)
  return { id, isContinued: continued !== undefined, models }
}

/** Undefined when there is no earlier session, or the program does not have it any more. */
async function continueSession(
  { rpc, abilities }: StartedProgram,
  { agent, workspace, earlier, warn }: AcpSessionOptions,
  { place, signal }: { readonly place: object; readonly signal: AbortSignal },
): Promise<{ readonly id: string; readonly result: Readonly<Record<string, unknown>> } | undefined> {
  const isSamePlace = (earlier?.acp_session_cwd ?? workspace.directory) === workspace.directory
  const id = (isSamePlace ? earlier?.acp_session_id : undefined) ?? agent.acp_resume_session_id
  const method = abilities.canResume ? 'session/resume' : 'session/load'
  if (id === undefined || id === '' || !(abilities.canLoad || abilities.canResume)) return undefined
  try {
    return { id, result: await rpc.request(method, { sessionId: id, ...place }, signal) }
  } catch (error) {
    if (error instanceof RpcError) {
      warn('the external agent has lost its session, and begins another one')
      return undefined
    }
    const what = error instanceof ProgramEndedError ? 'has ended' : 'has not answered in time'
    throw new LoadError(`the external agent ${what} while it was to continue its session`)
  }
}

async function setModel(
  rpc: RpcConnection,
  {
    id,
    models,
    model,
  }: { readonly id: string; readonly models: SessionModels | undefined; readonly model: string },
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  return models?.optionId === undefined
    ? await rpc.request('session/set_model', { sessionId: id, modelId: model }, signal)
    : await setOption(rpc, { sessionId: id, configId: models.optionId, value: model }, signal)
}

async function setOption(
  rpc: RpcConnection,
  option: { readonly sessionId: string; readonly configId: string; readonly value: string },
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  return await rpc.request('session/set_config_option', option, signal)
}

/** What a program offers depends on the model and the account: it continues with its own effort otherwise. */
async function setEffort(
  rpc: RpcConnection,
  {
    id,
    effort,
    configured,
    warn,
  }: {
    readonly id: string
    readonly effort: string | undefined
    readonly configured: Readonly<Record<string, unknown>>
    readonly warn: (text: string) => void
  },
  signal: AbortSignal,
): Promise<void> {
  const option = readEffort(configured)
  if (effort === undefined || option?.current === effort) return
  if (option === undefined || !option.values.includes(effort))
    return warn(`the external agent does not offer the effort ${effort}`)
  await setOption(rpc, { sessionId: id, configId: option.id, value: effort }, signal).catch(
    (error: unknown) => {
      if (!(error instanceof RpcError)) throw error
      warn(`the external agent did not take the effort ${effort}`)
    },
  )
}

/** The MCP servers as the program connects to them. Those that it cannot reach are left out. */
async function mcpServerList(
  options: AcpSessionOptions,
  { abilities: { mcp }, launch }: StartedProgram,
): Promise<object[]> {
  const { servers, warn } = options
  const list: object[] = []
  for (const [name, server] of Object.entries(servers)) {
    if (server.disabled === true || server.enabled === false) continue
    try {
      const endpoint = await resolveEndpoint(server, options)
      if (endpoint.kind === 'process') {
        const { command, args, env, cwd = launch.cwd } = endpoint
        // The protocol names no working directory, and programs start servers in that of their session.
        const script = 'cd -- "$0" && exec "$@"'
        list.push({ name, command: '/bin/sh', args: ['-c', script, cwd, command, ...args], env: pairs(env) })
        continue
      }
      const type = endpoint.transport === 'sse' ? 'sse' : 'http'
      if (mcp[type]) list.push({ type, name, url: endpoint.url.href, headers: pairs(endpoint.headers) })
      else warn(`the external agent cannot connect to the MCP server ${name} (${type})`)
    } catch {
      warn(`the MCP server ${name} is left out`)
    }
  }
  return list
}

function pairs(record: Readonly<Record<string, string>>): object[] {
  return Object.entries(record).map(([name, value]) => ({ name, value }))
}

/** The first way to sign in for which there is a credential. Programs that need none have none. */
async function findAuthMethod(
  methods: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const has = (name: string) => (env[name] ?? '') !== ''
  const home = env.HOME ?? homedir()
  const candidates: readonly (readonly [string, boolean | Promise<boolean>])[] = [
    ['chat-gpt', isFile(join(env.CODEX_HOME ?? join(home, '.codex'), 'auth.json'))],
    ['chatgpt', isFile(join(env.CODEX_HOME ?? join(home, '.codex'), 'auth.json'))],
    ['vertex-ai', isFile(env.GOOGLE_APPLICATION_CREDENTIALS ?? '')],
    ['oauth-personal', isFile(join(home, '.gemini/oauth_creds.json'))],
    ['codex-api-key', has('CODEX_API_KEY')],
    ['openai-api-key', has('OPENAI_API_KEY')],
    ['api-key', has('CODEX_API_KEY') || has('OPENAI_API_KEY')],
    ['gemini-api-key', has('GEMINI_API_KEY')],
  ]
  for (const [id, isPossible] of candidates) if (methods.includes(id) && (await isPossible)) return id
  return undefined
}

async function isFile(path: string): Promise<boolean> {
  return await access(path, constants.R_OK).then(
    () => path !== '',
    () => false,
  )
}
