import { type McpServer, redactText } from '@slipway/protocol'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { NotReachable } from './endpoint.ts'
import { Connection } from './servers.ts'

export interface McpTrialOptions {
  readonly name: string
  readonly server: McpServer
  /** Made after the tools are listed. */
  readonly call?: { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> } | undefined
  /** For all of it; ending a process may take two seconds more. */
  readonly timeoutMs: number
  /** Where a process is started whose settings name no directory. It exists. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** The names of the tools, and what came of the call; or why there are none. No text holds a secret of the settings. */
export type McpTrial =
  | {
      readonly tools: readonly string[]
      readonly result?: { readonly isError: boolean; readonly text: string }
    }
  | { readonly failure: string; readonly kind: 'timeout' | 'connection' | 'unknown' }

const maxText = 50_000
const maxFailure = 6000
/** Of a value in an environment or a header, whatever its name: a shorter one may be a common word. */
const minHidden = 8

/**
 * Connects to a server, lists its tools, and makes the call; then nothing of it is left, neither a process nor a connection. Never
 * rejects because of the server; rejects when the signal aborts, also then only after everything has ended.
 */
export async function tryMcpServer(options: McpTrialOptions): Promise<McpTrial> {
  const { server, call, timeoutMs, directory, environment, signal } = options
  const secrets = secretsOf(server)
  const said = (text: string, max: number) => redactText(secrets.mask(text)).slice(0, max)
  await using workspace = await Workspace.open({ directory, env: environment })
  const context = { workspace, secrets, directory }
  const timer = AbortSignal.timeout(timeoutMs)
  const connection = new Connection(options.name, {
    server,
    context,
    startMs: timeoutMs,
    callMs: timeoutMs,
    onChange: () => {},
  })
  try {
    await connection.open(signal)
    const tools = connection.tools.map(({ name }) => said(name, maxFailure))
    if (call === undefined) return { tools }
    const result = await called(connection, call, { timer, signal })
    return { tools, result: { ...result, text: said(result.text, maxText) } }
  } catch (error) {
    signal.throwIfAborted()
    return { failure: said(messageOf(error), maxFailure), kind: kindOf(error) }
  } finally {
    await connection.close()
  }
}

function secretsOf(server: McpServer): Secrets {
  const secrets = new Secrets()
  secrets.hideIn(server)
  for (const value of [...Object.values(server.env ?? {}), ...Object.values(server.headers ?? {})])
    if (value.length >= minHidden) secrets.hide(value)
  return secrets
}

async function called(
  connection: Connection,
  call: NonNullable<McpTrialOptions['call']>,
  { timer, signal }: { readonly timer: AbortSignal; readonly signal: AbortSignal },
): Promise<{ isError: boolean; text: string }> {
  try {
    const outcome = await connection.call(call.name, { ...call.arguments }, AbortSignal.any([timer, signal]))
    if ('failure' in outcome) return { isError: true, text: outcome.failure }
    return { isError: member(outcome.result, 'isError') === true, text: textOf(outcome.result) }
  } catch (error) {
    signal.throwIfAborted()
    if (!timer.aborted) throw error
    return { isError: true, text: 'The tool gave no answer in time.' }
  }
}

function textOf(result: unknown): string {
  const content = member(result, 'content')
  const blocks: unknown[] = Array.isArray(content) ? content : []
  return blocks
    .map((block) => member(block, 'text'))
    .filter((text) => typeof text === 'string')
    .join('\n')
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // Errors of the library carry the status of an answer here and not always in their text.
  const status =
    'code' in error && typeof error.code === 'number' && error.code >= 400 ? error.code : undefined
  const message = status === undefined ? error.message : `HTTP ${status}: ${error.message}`
  return error.cause instanceof Error ? `${message} (${error.cause.message})` : message
}

function kindOf(error: unknown): 'timeout' | 'connection' | 'unknown' {
  if (!(error instanceof NotReachable)) return 'connection'
  if (error.why === 'settings') return 'unknown'
  return error.why === 'time' ? 'timeout' : 'connection'
}
