import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  Action,
  Agent,
  HookConfig,
  HookEvent,
  Llm,
  Log,
  StartConversationRequest,
  TextContent,
} from '@slipway/protocol'
import type { EventDraft, EventLog } from '@slipway/storage'
import type { Model, ModelTool, OpenModel } from '../llm/model.ts'
import type { Secrets } from '../secrets.ts'
import { loadSkills } from '../skills/load.ts'
import { Skills } from '../skills/skills.ts'
import { isReadOnly, withCommonParameters } from '../tools/arguments.ts'
import { clientTool } from '../tools/client-tool.ts'
import { openTools } from '../tools/index.ts'
import type { Tool, ToolContext } from '../tools/tool.ts'
import { Workspace } from '../workspace.ts'
import { type Criticise, openCritic } from './critic.ts'
import { textMessage } from './drafts.ts'
import { loadHooks } from './hook-config.ts'
import { Hooks, type HookVerdict } from './hooks.ts'
import { systemPrompt } from './prompt.ts'

/** What a conversation was started with, its agent resolved, secrets in clear. */
export type Settings = Omit<StartConversationRequest, 'agent' | 'agent_settings' | 'agent_profile_id'> & {
  readonly agent: Agent
}

/** What lies outside of a conversation, handed in. */
export interface Rim {
  readonly log: EventLog
  readonly logLine: Log
  /** Now, in microseconds. */
  readonly now: () => number
  readonly openModel: OpenModel
  /** All that tools and hooks see of the server's environment. */
  readonly environment: Readonly<Record<string, string>>
  /** Where conversations keep what is theirs alone: outputs, lists, recordings. */
  readonly directory: string
  /** The server's own keys: in no conversation they are told to anybody. */
  readonly hidden?: readonly string[]
  /** Keep the tools' file access inside the workspace. */
  readonly isConfined: boolean
  /** Where the skills and hooks of the user are. */
  readonly home?: string
  readonly profile?: (name: string) => Promise<Llm | undefined>
  /** What waits for confirmation longer is rejected, where the policy names no time of its own; undefined: never. Milliseconds. */
  readonly confirmationDeadlineMs?: number | undefined
  /** Waits for a turn to run; the answer gives it back. */
  readonly turn?: (signal: AbortSignal) => Promise<() => void>
}

/** An MCP server that does not start; `code` is for the ConversationErrorEvent. */
export class McpFailure extends Error {
  readonly code = 'MCPError'
}

/** What an agent works with while its conversation is loaded. */
export class Equipment {
  readonly settings: Settings
  readonly workspace: Workspace
  readonly skills: Skills
  readonly criticise: Criticise | undefined
  readonly #rim: Rim
  readonly #context: ToolContext
  readonly #hooks: Hooks
  readonly #conversation: string
  #tools: ReadonlyMap<string, Tool>
  #model: Model
  #modelTools: readonly ModelTool[] | undefined
  readonly #rulesTold = new Set<string>()
  #mcp: { readonly tools: readonly Tool[]; close(): Promise<void> } | undefined

  private constructor(parts: {
    readonly settings: Settings
    readonly rim: Rim
    readonly context: ToolContext
    readonly skills: Skills
    readonly hookConfig: HookConfig | undefined
    readonly conversation: string
    readonly tools: ReadonlyMap<string, Tool>
  }) {
    const { settings, rim, context, skills, hookConfig, conversation, tools } = parts
    this.settings = settings
    this.workspace = context.workspace
    this.skills = skills
    this.#rim = rim
    this.#context = context
    this.#tools = tools
    this.#model = this.openModel(settings.agent.llm)
    this.#conversation = conversation
    this.#hooks = new Hooks({
      config: hookConfig,
      workspace: context.workspace,
      conversation,
      ask: (question, signal) => this.#askForHook(question, signal),
    })
    this.criticise = settings.agent.critic === undefined ? undefined : openCritic(settings.agent.critic, {})
  }

  /** Loads skills, hooks and tools; MCP servers wait for `connect`. Rejects when a tool is not known. */
  static async open(
    options: {
      readonly conversation: string
      readonly settings: Settings
      readonly rim: Rim
      readonly secrets: Secrets
    },
    signal: AbortSignal,
  ): Promise<Equipment> {
    const { conversation, settings, rim, secrets } = options
    const directory = join(rim.directory, conversation.replaceAll('-', ''))
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const root = settings.workspace.working_dir
    await mkdir(root, { recursive: true })
    const { agent } = settings
    const home = rim.home === undefined ? {} : { home: rim.home }
    const loaded = await loadSkills({ directory: root, context: agent.agent_context, ...home }, signal)
    const skills = new Skills(loaded.skills, await realpath(root))
    const workspace = await Workspace.open({
      directory: root,
      env: rim.environment,
      readable: [directory, ...skills.readable],
      isConfined: rim.isConfined,
    })
    const context: ToolContext = { workspace, secrets, directory }
    const [hooks, tools] = await Promise.all([
      settings.hook_config === undefined
        ? loadHooks(workspace.directory, rim.home)
        : { config: settings.hook_config, faults: [] },
      toolsOf(settings, context),
    ])
    for (const fault of [...loaded.faults, ...hooks.faults]) {
      rim.logLine('warn', 'a file of the project was passed over', { conversation, fault })
    }
    return new Equipment({
      settings,
      rim,
      context,
      skills,
      hookConfig: hooks.config,
      conversation,
      tools,
    })
  }

  get tools(): ReadonlyMap<string, Tool> {
    return this.#tools
  }

  /** The tools as a model is told of them; the same object for as long as they are the same. */
  get modelTools(): readonly ModelTool[] {
    this.#modelTools ??= [...this.#tools.values()].map((tool) => ({
      name: tool.name,
      description: tool.definition.description ?? '',
      parameters: withCommonParameters(tool.parameters, { isReadOnly: isReadOnly(tool) }),
    }))
    return this.#modelTools
  }

  get model(): Model {
    return this.#model
  }

  /** MCP servers that are not connected yet. */
  get mustConnect(): boolean {
    return this.#mcp === undefined && this.#servers().length > 0
  }

  /** Connects the MCP servers; rejects with McpFailure when one of them does not start. */
  async connect(signal: AbortSignal): Promise<void> {
    if (!this.mustConnect) return
    const { openMcp } = await import('../tools/mcp.ts')
    const mcp = await openMcp({
      servers: Object.fromEntries(this.#servers()),
      context: this.#context,
      signal,
      onChange: () => this.#takeTools(),
    })
    const down = mcp.failures.filter(({ isUp }) => !isUp)
    for (const { server, detail, isUp } of mcp.failures) {
      if (isUp) this.#rim.logLine('warn', 'tools of an MCP server were left out', { server, detail })
    }
    if (down.length > 0) {
      await mcp.close()
      const list = down.map(({ server, detail }) => `${server}: ${detail}`).join('; ')
      throw new McpFailure(`MCP servers did not start. ${list}`)
    }
    this.#mcp = mcp
    this.#takeTools()
  }

  /** The SystemPromptEvent of this conversation as it is equipped now. */
  systemPromptEvent(hasAnalyzer: boolean): EventDraft {
    const { agent, agent_launch_additions: additions } = this.settings
    const prompt = systemPrompt({
      agent,
      tools: [...this.#tools.values()],
      skills: this.skills,
      workspaceDirectory: this.workspace.directory,
      secrets: this.#context.secrets.list(),
      now: new Date(this.#rim.now() / 1000),
      hasSecurityAnalyzer: hasAnalyzer,
      ...(additions?.system_message_suffix_append === undefined
        ? {}
        : { launchSuffix: additions.system_message_suffix_append }),
    })
    return {
      kind: 'SystemPromptEvent',
      source: 'agent',
      system_prompt: prompt.system_prompt,
      tools: [...this.#tools.values()].map(({ definition }) => definition),
      dynamic_context: prompt.dynamic_context,
    }
  }

  /** The rules for the file that an action touches, each told once. */
  rulesFor(action: Action): readonly TextContent[] {
    const path = 'file_path' in action ? action.file_path : 'path' in action ? action.path : undefined
    if (path === undefined || path === null) return []
    const { names, content } = this.skills.forPath(path, this.#rulesTold)
    for (const name of names) this.#rulesTold.add(name)
    return content
  }

  /** What the hooks of an event say; what failed among them is logged. Rejects only when aborted. */
  async hook(
    event: HookEvent,
    payload: Parameters<Hooks['run']>[1],
    signal: AbortSignal,
  ): Promise<HookVerdict> {
    const verdict = await this.#hooks.run(event, payload, signal)
    for (const failure of verdict.failures) {
      const reason = this.#context.secrets.mask(failure)
      this.#rim.logLine('warn', 'a hook failed', { conversation: this.#conversation, reason })
    }
    return verdict
  }

  openModel(llm: Llm): Model {
    const { openModel, profile } = this.#rim
    return openModel(llm, {
      now: () => this.#rim.now() / 1000,
      ...(profile === undefined ? {} : { profile }),
    })
  }

  switchModel(llm: Llm): void {
    this.#model = this.openModel(llm)
  }

  /** Ends tools, servers, hooks and every process that was started. */
  async close(): Promise<void> {
    const tools = [...new Set(this.#tools.values())].map((tool) => tool.close?.())
    await Promise.allSettled([...tools, this.#mcp?.close(), this.#hooks.close()])
    await this.workspace[Symbol.asyncDispose]()
  }

  #servers() {
    return Object.entries(this.settings.agent.mcp_config).filter(
      ([, { disabled, enabled }]) => disabled !== true && enabled !== false,
    )
  }

  /** Puts the tools that the MCP servers have now beside our own, which stay as they are and keep their names. */
  #takeTools(): void {
    const own = [...this.#tools].filter(([, tool]) => tool.definition.kind !== 'MCPToolDefinition')
    const filter = this.settings.agent.filter_tools_regex
    const names = new Set(own.map(([name]) => name))
    const theirs = (this.#mcp?.tools ?? [])
      .filter(({ name }) => filter === undefined || new RegExp(filter).test(name))
      .map((tool) => (names.has(tool.name) ? renamed(tool, `mcp_${tool.name}`) : tool))
    this.#modelTools = undefined
    this.#tools = new Map([...own, ...theirs.map((tool) => [tool.name, tool] as const)])
  }

  async #askForHook(
    { system, prompt }: { readonly system: string; readonly prompt: string },
    signal: AbortSignal,
  ): Promise<string> {
    const answer = await this.#model.respond(
      {
        messages: [textMessage('system', system), textMessage('user', prompt)],
        tools: [],
      },
      signal,
    )
    if (answer.kind !== 'answer') return ''
    return answer.message.content.map((part) => (part.type === 'text' ? part.text : '')).join('')
  }
}

/** A tool that is called by another name. */
function renamed(tool: Tool, name: string): Tool {
  return {
    name,
    definition: tool.definition,
    parameters: tool.parameters,
    parse: (args) => tool.parse(args),
    resources: (action) => tool.resources(action),
    run: (action, signal) => tool.run(action, signal),
  }
}

async function toolsOf(settings: Settings, context: ToolContext): Promise<ReadonlyMap<string, Tool>> {
  const { agent, client_tools = [] } = settings
  const filter = agent.filter_tools_regex
  return await openTools({
    specs: agent.tools,
    defaults: agent.include_default_tools,
    context,
    extra: client_tools.map(clientTool),
    ...(filter === undefined ? {} : { filter: new RegExp(filter) }),
  })
}
