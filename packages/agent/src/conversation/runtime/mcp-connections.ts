import type { McpServer } from '@slipway/protocol'
import type { Tool, ToolContext } from '../../tools/core/tool.ts'
import type { ConversationContext } from './conversation-context.ts'

/** An MCP server did not start; `code` goes into the ConversationErrorEvent. */
export class McpStartError extends Error {
  override readonly name = 'McpStartError'
  readonly code = 'MCPError'
}

interface McpConnectionsOptions {
  readonly context: ConversationContext
  readonly toolContext: ToolContext
  /** The configured servers of the agent and of plugins. */
  servers(): Readonly<Record<string, McpServer>>
  /** The servers of this conversation alone; only these must start. */
  requiredServers(): Readonly<Record<string, McpServer>>
  onChange(): void
}

export class McpConnections {
  readonly #options: McpConnectionsOptions
  readonly #connected = new Set<string>()
  readonly #connections: { readonly tools: readonly Tool[]; close(): Promise<void> }[] = []

  constructor(options: McpConnectionsOptions) {
    this.#options = options
  }

  /** Enabled servers that are not connected yet. */
  get pending(): readonly (readonly [string, McpServer])[] {
    return Object.entries(this.#options.servers()).filter(
      ([name, { disabled, enabled }]) => disabled !== true && enabled !== false && !this.#connected.has(name),
    )
  }

  /** Rejects with McpStartError when a required server does not start; others are left out. */
  async connect(signal: AbortSignal): Promise<void> {
    const servers = this.pending
    const { context, toolContext, requiredServers, onChange } = this.#options
    const { openMcpServers } = await import('../../tools/mcp/servers.ts')
    const mcp = await openMcpServers({
      servers: Object.fromEntries(servers),
      context: toolContext,
      signal,
      onChange,
    })
    const required = requiredServers()
    const down = mcp.failures.filter(({ isUp, server }) => !isUp && Object.hasOwn(required, server))
    for (const { server, detail } of mcp.failures.filter((failure) => !down.includes(failure)))
      context.deps.logLine('warn', 'tools of an MCP server were left out', { server, detail })
    if (down.length > 0) {
      await mcp.close()
      const list = down.map(({ server, detail }) => `${server}: ${detail}`).join('; ')
      throw new McpStartError(`MCP servers did not start. ${list}`)
    }
    this.#connections.push(mcp)
    for (const [name] of servers) this.#connected.add(name)
    onChange()
  }

  /** The tools whose names match `filter`, renamed where a name is in `usedNames`. */
  tools(usedNames: Iterable<string>, filter: string | undefined): Tool[] {
    const names = new Set(usedNames)
    return this.#connections
      .flatMap(({ tools }) => tools)
      .filter(({ name }) => filter === undefined || new RegExp(filter).test(name))
      .map((tool) => {
        const name = uniqueToolName(tool.name, names)
        names.add(name)
        return { ...tool, name }
      })
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#connections.map((connection) => connection.close()))
  }
}

function uniqueToolName(name: string, usedNames: ReadonlySet<string>): string {
  if (!usedNames.has(name)) return name
  for (let count = 1; ; count++) {
    const other = `mcp_${count === 1 ? '' : `${count}_`}${name}`
    if (!usedNames.has(other)) return other
  }
}
