import type { Tool as ServerTool } from '@modelcontextprotocol/client'
import type { McpServer } from '@slipway/protocol'
import type { Tool, ToolContext } from '../core/tool.ts'
import { McpConnection } from './connection.ts'
import type { OpenMcpPrompt } from './prompts.ts'
import { resourceTools } from './resource-tools.ts'
import { promptText } from './result-content.ts'
import { createMcpTool, modelToolName } from './server-tool.ts'

export interface OpenMcpOptions {
  /** By name; one with `disabled` (or `enabled: false`) is skipped. */
  readonly servers: Readonly<Record<string, McpServer>>
  readonly context: ToolContext
  /** Aborts the start. */
  readonly signal: AbortSignal
  /** Time to start a server and list its tools; default 30 s. */
  readonly startMs?: number
  /** Time of one call, unless the server has a `timeout` (seconds); default 300 s. */
  readonly callMs?: number
  /** Called after the tools changed. */
  readonly onChange?: () => void
}

/** The tools of MCP servers. */
export interface McpServers {
  /** The current tools in the order of the servers, with unique names. They may change while connected. */
  readonly tools: readonly Tool[]
  /**
   * Servers that did not start (not `isUp`), and omitted tools of the others, with reasons without secrets.
   */
  readonly failures: readonly { readonly server: string; readonly detail: string; readonly isUp: boolean }[]
  /** What servers offer to users, without secrets. */
  readonly prompts: readonly OpenMcpPrompt[]
  /** What connected servers say about their use, by name; without secrets. */
  readonly instructions: ReadonlyMap<string, string>
  /** Servers that have not been connected yet, with the reason of the last attempt. */
  readonly away: ReadonlyMap<string, string>
  /** Tries the servers that are away once more; never rejects. `onChange` reports their tools. */
  retry(): Promise<void>
  /** Closes the connections and ends the started servers. */
  close(): Promise<void>
}

/**
 * Starts servers concurrently and lists their tools, within `startMs`; servers that fail are in `failures`.
 * Rejects only when the signal aborts, and then nothing is left running.
 */
export async function openMcpServers(options: OpenMcpOptions): Promise<McpServers> {
  const { servers, context, signal, startMs = 30_000, callMs = 300_000, onChange } = options
  const enabledServers = Object.entries(servers).filter(
    ([, { disabled, enabled }]) => !disabled && enabled !== false,
  )
  let tools: readonly Tool[] = []
  const rebuildTools = () => {
    tools = buildTools(connections, context, enabledServers.length > 1)
  }
  const onToolsChange = () => {
    rebuildTools()
    onChange?.()
  }
  const connections = enabledServers.map(([name, server]) => {
    const ownMs = server.timeout === undefined ? callMs : server.timeout * 1000
    return new McpConnection(name, { server, context, startMs, callMs: ownMs, onChange: onToolsChange })
  })
  const details = await Promise.all(connections.map((connection) => connection.start(signal)))
  const close = async () => {
    await Promise.all(connections.map((connection) => connection.close()))
  }
  if (signal.aborted) await close()
  signal.throwIfAborted()
  rebuildTools()
  const failures = connections.flatMap(({ name: server, isConnected }, at) =>
    (details[at] ?? []).map((detail) => ({ server, detail, isUp: isConnected })),
  )
  return {
    get tools() {
      return tools
    },
    failures,
    get prompts() {
      return connections.flatMap((connection) =>
        connection.prompts.map((prompt) => ({
          ...context.secrets.redactJson(prompt),
          get: async (args: Readonly<Record<string, string>>, stop: AbortSignal) => {
            const params = { name: prompt.name, arguments: args }
            const answer = await connection.request('prompts/get', params, stop)
            return 'failure' in answer ? answer : { text: promptText(answer.result) }
          },
        })),
      )
    },
    get instructions() {
      return new Map(
        connections.flatMap(({ name, instructions = '' }) =>
          instructions.trim() === '' ? [] : [[name, context.secrets.redact(instructions)]],
        ),
      )
    },
    get away() {
      return new Map(
        connections.flatMap(({ name, failure }) => (failure === undefined ? [] : [[name, failure]])),
      )
    },
    retry: async () => {
      const away = connections.filter(({ failure }) => failure !== undefined)
      await Promise.all(away.map((connection) => connection.retry()))
    },
    close,
  }
}

function buildTools(connections: readonly McpConnection[], context: ToolContext, isMany: boolean): Tool[] {
  const names = new Set<string>()
  return connections.flatMap((connection) =>
    [
      ...connection.tools.map((tool) => ({
        tool: withReadOnly(tool, connection.isReadOnly),
        call: (args: Record<string, unknown>, signal: AbortSignal) =>
          connection.call(tool.name, args, signal),
      })),
      ...resourceTools(connection),
    ].map(({ tool, call }) => {
      const name = modelToolName(tool.name, isMany ? connection.name : undefined, names)
      names.add(name)
      return createMcpTool(name, context.secrets.redactJson(tool), context, call)
    }),
  )
}

/** The user knows the server; without a word of theirs its own counts. */
function withReadOnly(tool: ServerTool, isReadOnly: boolean | undefined): ServerTool {
  if (isReadOnly === undefined) return tool
  return { ...tool, annotations: { ...tool.annotations, readOnlyHint: isReadOnly } }
}
