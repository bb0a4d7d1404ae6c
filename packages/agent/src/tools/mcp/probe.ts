import type { McpServer } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { minSecretLength, redactText } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import { Secrets } from '../../secrets/secrets.ts'
import { ProgramFolder } from '../../workspace/program-folder.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { McpConnection } from './connection.ts'
import { describeFailure, McpConnectionError } from './connection-error.ts'

export interface McpProbeOptions {
  readonly name: string
  readonly server: McpServer
  /** A call to make after listing the tools. */
  readonly call?: { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> } | undefined
  /** For the whole probe; ending a process may take two seconds more. */
  readonly timeoutMs: number
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/**
 * The names of the tools and the result of the call, or the failure. Secrets of the settings are redacted.
 */
export type McpProbeResult =
  | {
      readonly tools: readonly string[]
      readonly result?: { readonly isError: boolean; readonly text: string }
    }
  | { readonly failure: string; readonly kind: 'timeout' | 'connection' | 'unknown' }

const failureKinds = { settings: 'unknown', time: 'timeout', connection: 'connection' } as const
const maxText = 50_000
const maxFailure = 6000

/**
 * Connects to a server, lists its tools, makes the call, and closes the connection and its process. Rejects
 * only when the signal aborts, after everything has ended.
 */
export async function probeMcpServer(options: McpProbeOptions): Promise<McpProbeResult> {
  const { name, server, call, timeoutMs, environment, signal } = options
  const secrets = collectSecrets(server)
  const redactAndCut = (text: string, max: number) => firstChars(redactText(secrets.redact(text)), max)
  await using folder = await ProgramFolder.create({ env: environment })
  const directory = folder.path
  await using workspace = await Workspace.open({ directory, env: environment })
  const context = { workspace, secrets, directory }
  const timer = AbortSignal.timeout(timeoutMs)
  const limits = { startMs: timeoutMs, callMs: timeoutMs }
  const connection = new McpConnection(name, { server, context, ...limits, onChange: () => {} })
  try {
    await connection.connect(signal)
    const tools = connection.tools.map(({ name }) => redactAndCut(name, maxFailure))
    if (call === undefined) return { tools }
    const result = await callTool(connection, call, { timer, signal })
    return { tools, result: { ...result, text: redactAndCut(result.text, maxText) } }
  } catch (error) {
    signal.throwIfAborted()
    const reason = error instanceof McpConnectionError ? error.reason : 'connection'
    return { failure: redactAndCut(describeFailure(error), maxFailure), kind: failureKinds[reason] }
  } finally {
    await connection.close()
  }
}

function collectSecrets(server: McpServer): Secrets {
  const secrets = new Secrets()
  secrets.addValuesFrom(server)
  for (const value of [...Object.values(server.env ?? {}), ...Object.values(server.headers ?? {})])
    if (value.length >= minSecretLength) secrets.addValue(value)
  return secrets
}

async function callTool(
  connection: McpConnection,
  { name, arguments: args }: NonNullable<McpProbeOptions['call']>,
  { timer, signal }: { readonly timer: AbortSignal; readonly signal: AbortSignal },
): Promise<{ isError: boolean; text: string }> {
  try {
    const outcome = await connection.call(name, { ...args }, AbortSignal.any([timer, signal]))
    if ('failure' in outcome) return { isError: true, text: outcome.failure }
    const { content, isError } = isRecord(outcome.result) ? outcome.result : {}
    const blocks: unknown[] = Array.isArray(content) ? content : []
    const texts = blocks.map((block) => (isRecord(block) ? block.text : undefined))
    return { isError: isError === true, text: texts.filter((text) => typeof text === 'string').join('\n') }
  } catch (error) {
    signal.throwIfAborted()
    if (!timer.aborted) throw error
    return { isError: true, text: 'The tool gave no answer in time.' }
  }
}
