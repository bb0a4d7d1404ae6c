import type { McpServer } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import type { EventDraft } from '@slipway/storage'
import { toSingleLine } from '../../skills/skill.ts'
import type { Tool, ToolContext } from '../../tools/core/tool.ts'
import { valueWithin } from '../../tools/core/value-within.ts'
import type { OpenMcpPrompt } from '../../tools/mcp/prompts.ts'
import type { McpServers } from '../../tools/mcp/servers.ts'
import { stateUpdate, userMessage } from '../events/event-drafts.ts'
import { type ConversationState, mcpServerKey } from '../state/state.ts'
import type { ConversationContext } from './conversation-context.ts'
import { serverInstructions, serverWords } from './server-instructions.ts'

/** The pause after the first failure; each one in a row doubles it. */
const firstPauseMs = 2_000
const longestPauseMs = 300_000
/** A step waits so long for servers that are tried again; slower ones have their tools in a later step. */
const stepWaitMs = 2_000
/** Characters of a server's reason that the model sees. */
const maxReason = 500

/** A required MCP server did not start; `code` goes into the ConversationErrorEvent. */
export class McpStartError extends Error {
  override readonly name = 'McpStartError'
  readonly code = 'MCPError'
}

interface McpConnectionsOptions {
  readonly context: ConversationContext
  readonly toolContext: ToolContext
  /** The configured servers of the agent and of plugins. */
  servers(): Readonly<Record<string, McpServer>>
  onChange(): void
}

/** Servers that were opened together, and when those that are away are tried again. */
interface Batch {
  readonly servers: McpServers
  failures: number
  dueMs: number
  /** The run in which they were tried last. */
  run: number | undefined
  attempt: Promise<void> | undefined
}

/**
 * The MCP servers of a conversation. A server that cannot be reached is left out, unless it is `required`:
 * the run continues without its tools, and messages to the model and to readers say so once. It is tried
 * again before later steps, at once in a new run and else after growing pauses.
 */
export class McpConnections {
  readonly #options: McpConnectionsOptions
  readonly #opened = new Set<string>()
  readonly #batches: Batch[] = []
  #opening: Promise<void> | undefined

  constructor(options: McpConnectionsOptions) {
    this.#options = options
  }

  /** Enabled servers that were not opened yet. */
  get pending(): readonly (readonly [string, McpServer])[] {
    return Object.entries(this.#options.servers()).filter(
      ([name, { disabled, enabled }]) => disabled !== true && enabled !== false && !this.#opened.has(name),
    )
  }

  /** Opens new servers and tries those again that are away. Rejects with McpStartError. */
  async connect(signal: AbortSignal): Promise<void> {
    const attempts = this.#batches
      .map((batch) => this.#retry(batch))
      .filter((attempt) => attempt !== undefined)
    await this.#openPending(signal)
    if (attempts.length > 0) await raceAbort(valueWithin(stepWaitMs, Promise.all(attempts)), signal)
  }

  /** One at a time: a run and a message may want the servers at once. */
  async #openPending(signal: AbortSignal): Promise<void> {
    while (this.#opening !== undefined) await raceAbort(this.#opening, signal)
    if (this.pending.length === 0) return
    const opening = this.#open(signal)
    const settled = opening.catch(() => undefined)
    this.#opening = settled
    try {
      await opening
    } finally {
      this.#opening = undefined
    }
  }

  async #open(signal: AbortSignal): Promise<void> {
    const servers = this.pending
    const { context, toolContext, onChange } = this.#options
    const { openMcpServers } = await import('../../tools/mcp/servers.ts')
    const mcp = await openMcpServers({
      servers: Object.fromEntries(servers),
      context: toolContext,
      signal,
      onChange,
    })
    for (const { server, detail } of mcp.failures)
      context.deps.logLine('warn', 'tools of an MCP server were left out', { server, detail })
    const down = [...mcp.away].filter(([name]) =>
      servers.some(([own, { required }]) => own === name && required),
    )
    if (down.length > 0) {
      await mcp.close()
      const list = down.map(([server, detail]) => `${server}: ${detail}`).join('; ')
      throw new McpStartError(`Required MCP servers did not start. ${list}`)
    }
    const batch: Batch = { servers: mcp, failures: 0, dueMs: 0, run: undefined, attempt: undefined }
    this.#schedule(batch)
    this.#batches.push(batch)
    for (const [name] of servers) this.#opened.add(name)
    onChange()
  }

  /** Tries the servers of a batch that are away, when it is time. */
  #retry(batch: Batch): Promise<void> | undefined {
    const { deps, state } = this.#options.context
    const isDue = batch.dueMs <= deps.clock.monotonic() || batch.run !== state.runPosition
    if (batch.servers.away.size === 0 || batch.attempt !== undefined || !isDue) return undefined
    batch.attempt = batch.servers.retry().finally(() => {
      batch.attempt = undefined
      this.#schedule(batch)
    })
    return batch.attempt
  }

  #schedule(batch: Batch): void {
    const { deps, state } = this.#options.context
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(batch.failures, 30))
    batch.failures++
    batch.dueMs = deps.clock.monotonic() + pauseMs
    batch.run = state.runPosition
  }

  /** What connected servers say about their use, by name. */
  get instructions(): ReadonlyMap<string, string> {
    return new Map(this.#batches.flatMap(({ servers }) => [...servers.instructions]))
  }

  /** What connected servers offer to users. */
  get prompts(): readonly OpenMcpPrompt[] {
    return this.#batches.flatMap(({ servers }) => servers.prompts)
  }

  /** What the model and the readers have to be told: servers that are away, and those that are back. */
  notices(now: ConversationState): EventDraft[] {
    // A message between a call and its result would part them.
    if (now.status !== 'running' || !now.isAwaiting || now.openActions().length > 0) return []
    const told = now.awayServers ?? []
    const away = new Map(this.#batches.flatMap(({ servers }) => [...servers.away]))
    const missing = [...away].filter(([name]) => !told.includes(name))
    const back = told.filter((name) => this.#opened.has(name) && !away.has(name))
    if (missing.length === 0 && back.length === 0) return []
    const lines = [
      ...missing.map(
        ([name, reason]) =>
          `The MCP server ${name} cannot be reached. Continue without its tools; they are added when it is connected.\n${serverWords('server_error', name, toSingleLine(reason, maxReason))}`,
      ),
      ...back.map((name) => {
        const words = this.instructions.get(name)
        const text = `The MCP server ${name} is connected now; its tools can be called.`
        return words === undefined ? text : `${text}\n${serverInstructions(name, words)}`
      }),
    ]
    return [
      ...missing.map(([server, detail]) =>
        stateUpdate(mcpServerKey, { server, is_connected: false, detail }),
      ),
      ...back.map((server) => stateUpdate(mcpServerKey, { server, is_connected: true })),
      userMessage('environment', lines.join('\n')),
    ]
  }

  /** The tools whose names match `filter`, renamed where a name is in `usedNames`. */
  tools(usedNames: Iterable<string>, filter: string | undefined): Tool[] {
    const names = new Set(usedNames)
    return this.#batches
      .flatMap(({ servers }) => servers.tools)
      .filter(({ name }) => filter === undefined || new RegExp(filter).test(name))
      .map((tool) => {
        const name = uniqueToolName(tool.name, names)
        names.add(name)
        return { ...tool, name }
      })
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#batches.map(({ servers }) => servers.close()))
  }
}

function uniqueToolName(name: string, usedNames: ReadonlySet<string>): string {
  if (!usedNames.has(name)) return name
  for (let count = 1; ; count++) {
    const other = `mcp_${count === 1 ? '' : `${count}_`}${name}`
    if (!usedNames.has(other)) return other
  }
}
