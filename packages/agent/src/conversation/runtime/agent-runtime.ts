import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  Action,
  AgentContext,
  HookConfig,
  HookEvent,
  Llm,
  LogFunction,
  TextContent,
  WireVersion,
} from '@slipway/protocol'
import type { EventDraft, EventLog } from '@slipway/storage'
import type { ChildConversations } from '../../agents/tasks/child-conversations.ts'
import { openTaskRunner, type TaskHost } from '../../agents/tasks/open-task-runner.ts'
import type { TaskRunner } from '../../agents/tasks/task-runner.ts'
import type { Model, ModelTool, OpenModel } from '../../llm/model.ts'
import { ConversationExtensions } from '../../plugins/conversation-extensions.ts'
import type { ExtensionProvider } from '../../plugins/extensions.ts'
import type { Secrets } from '../../secrets/secrets.ts'
import { loadSkills } from '../../skills/load.ts'
import { SkillSet } from '../../skills/skill-set.ts'
import { addCommonParameters, isReadOnly } from '../../tools/calls/parse-call.ts'
import { createClientTool } from '../../tools/core/client-tool.ts'
import type { Tool, ToolContext } from '../../tools/core/tool.ts'
import { openTools } from '../../tools/registry.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { textMessage } from '../events/event-drafts.ts'
import { loadHooks } from '../hooks/config.ts'
import { Hooks, type HookVerdict } from '../hooks/hooks.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import { createCritic, type EvaluateWithCritic } from './critic.ts'
import { instrumentModel, type RunMonitor } from './instrumentation.ts'
import { systemPrompt } from './system-prompt.ts'

export type { ResolvedSettings } from '../state/resolved-settings.ts'

/** What lies outside of a conversation, handed in. */
export interface ConversationDeps {
  readonly log: EventLog
  readonly logLine: LogFunction
  /** Now, in microseconds. */
  readonly now: () => number
  readonly openModel: OpenModel
  /** All that tools and hooks see of the server's environment. */
  readonly environment: Readonly<Record<string, string>>
  /** Where conversations keep what is theirs alone: outputs, lists, recordings. */
  readonly directory: string
  /** The server's own keys: in no conversation they are told to anybody. */
  readonly redactedValues?: readonly string[]
  /** Keep the tools' file access inside the workspace. */
  readonly isConfined: boolean
  /** Where the skills and hooks of the user are. */
  readonly homeDirectory?: string
  readonly findProfile?: (name: string) => Promise<Llm | undefined>
  /** The value of a secret of the server itself, by its address without a host. */
  readonly resolveServerSecret?: (url: string) => Promise<string | undefined>
  /** What waits for confirmation longer is rejected, where the policy names no time of its own; undefined: never. Milliseconds. */
  readonly confirmationDeadlineMs?: number | undefined
  /** Told of what it does, to count and trace it. */
  readonly monitor?: RunMonitor | undefined
  /** Waits for a turn to run; the answer gives it back. */
  readonly acquireRunSlot?: (signal: AbortSignal) => Promise<() => void>
  /** Who keeps the conversations that do its tasks; without it no tasks can be given. */
  readonly childConversations?: ChildConversations
  /** Where plugins come from; without it there are none. */
  readonly extensions?: ExtensionProvider | undefined
}

/** An MCP server that does not start; `code` is for the ConversationErrorEvent. */
export class McpFailure extends Error {
  readonly code = 'MCPError'
}

/** What an agent works with while its conversation is loaded. */
export class AgentRuntime {
  readonly settings: ResolvedSettings
  readonly workspace: Workspace
  /** What plugins bring, and the server. */
  readonly extensions: ConversationExtensions
  readonly evaluateWithCritic: EvaluateWithCritic | undefined
  /** Those that it gives to other agents, where it can. */
  readonly tasks: TaskRunner | undefined
  readonly #deps: ConversationDeps
  readonly #context: ToolContext
  /** Without those of plugins. */
  readonly #projectHooks: HookConfig | undefined
  readonly #conversation: string
  readonly #wire: WireVersion
  #tools: ReadonlyMap<string, Tool>
  #model: Model
  #modelTools: readonly ModelTool[] | undefined
  readonly #shownRules = new Set<string>()
  #skills: SkillSet
  #hooks: Hooks
  /** Names of the MCP servers that are connected. */
  readonly #connected = new Set<string>()
  readonly #mcps: { readonly tools: readonly Tool[]; close(): Promise<void> }[] = []

  private constructor(parts: {
    readonly settings: ResolvedSettings
    readonly rim: ConversationDeps
    readonly context: ToolContext
    readonly extras: ConversationExtensions
    readonly skills: SkillSet
    readonly hookConfig: HookConfig | undefined
    readonly conversation: string
    readonly wire: WireVersion
    readonly tools: ReadonlyMap<string, Tool>
    readonly tasks: TaskRunner | undefined
  }) {
    this.tasks = parts.tasks
    this.#wire = parts.wire
    const { settings, rim: deps, context, skills, hookConfig, conversation, tools } = parts
    this.settings = settings
    this.workspace = context.workspace
    this.extensions = parts.extras
    this.#skills = skills
    this.#deps = deps
    this.#context = context
    this.#tools = tools
    this.#model = this.openModel(settings.agent.llm)
    this.#conversation = conversation
    this.#projectHooks = hookConfig
    this.#hooks = this.#openHooks()
    context.secrets.addValuesFrom(parts.extras.servers({}))
    this.evaluateWithCritic =
      settings.agent.critic === undefined ? undefined : createCritic(settings.agent.critic, {})
  }

  /** Loads skills, hooks and tools; MCP servers wait for `connect`. Rejects when a tool is not known. */
  static async open(
    options: {
      readonly conversation: string
      readonly settings: ResolvedSettings
      readonly rim: ConversationDeps
      readonly secrets: Secrets
      readonly wire?: WireVersion
      readonly host?: TaskHost | undefined
    },
    signal: AbortSignal,
  ): Promise<AgentRuntime> {
    const { conversation, settings, rim: deps, secrets, wire = 'seed' } = options
    const directory = join(deps.directory, conversation.replaceAll('-', ''))
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const root = settings.workspace.working_dir
    await mkdir(root, { recursive: true })
    const { agent } = settings
    const homeDirectory = deps.homeDirectory === undefined ? {} : { homeDirectory: deps.homeDirectory }
    const extras = await ConversationExtensions.open(
      { provider: deps.extensions, sources: settings.plugins ?? [], context: agent.agent_context },
      signal,
    )
    const skillsOf = (context: AgentContext | undefined) =>
      loadSkills({ directory: root, context, additions: extras.skills, ...homeDirectory }, signal)
    const loaded = await skillsOf(agent.agent_context)
    const skills = new SkillSet(loaded.skills, await realpath(root))
    const workspace = await Workspace.open({
      directory: root,
      env: deps.environment,
      readable: [directory, ...skills.readablePaths, ...extras.plugins.map((plugin) => plugin.directory)],
      isConfined: deps.isConfined,
    })
    const hooksFound =
      settings.hook_config === undefined
        ? loadHooks(workspace.directory, deps.homeDirectory)
        : Promise.resolve({ config: settings.hook_config, issues: [] })
    const tasks = openTaskRunner({
      conversation,
      settings,
      host: options.host,
      deps,
      directory: workspace.directory,
      plugins: () => extras.plugins.map((plugin) => plugin.directory),
      hooks: async () => extras.hooksForTasks((await hooksFound).config),
      skills: async (context) => (await skillsOf(context)).skills,
    })
    const context: ToolContext = {
      workspace,
      secrets,
      directory,
      ...(tasks === undefined ? {} : { tasks }),
    }
    const [hooks, tools] = await Promise.all([hooksFound, openAgentTools(settings, context)])
    for (const fault of [...loaded.issues, ...hooks.issues, ...extras.issues]) {
      deps.logLine('warn', 'a file of the project was passed over', { conversation, fault })
    }
    return new AgentRuntime({
      settings,
      rim: deps,
      context,
      extras,
      skills,
      hookConfig: hooks.config,
      conversation,
      wire,
      tools,
      tasks,
    })
  }

  /** Those of now. */
  get skills(): SkillSet {
    return this.#skills
  }

  get tools(): ReadonlyMap<string, Tool> {
    return this.#tools
  }

  /** The tools as a model is told of them; the same object for as long as they are the same. */
  get modelTools(): readonly ModelTool[] {
    this.#modelTools ??= [...this.#tools.values()].map((tool) => ({
      name: tool.name,
      description: tool.definition.description ?? '',
      parameters: addCommonParameters(tool.parameters, { isReadOnly: isReadOnly(tool) }),
    }))
    return this.#modelTools
  }

  get model(): Model {
    return this.#model
  }

  /** Who is told of what is done with it. */
  get monitor(): RunMonitor | undefined {
    return this.#deps.monitor
  }

  /** Plugins that are not loaded or MCP servers that are not connected yet. */
  get needsConnect(): boolean {
    return !this.extensions.isComplete || this.#servers().length > 0
  }

  /** Loads the plugins that are missing; rejects with PluginFailure. */
  async loadMissingPlugins(signal: AbortSignal): Promise<void> {
    if (this.extensions.isComplete) return
    await this.extensions.loadMissing(signal)
    await this.reload(signal)
  }

  /**
   * Loads the plugins that are missing and connects the MCP servers; rejects with PluginFailure or McpFailure when one of them
   * cannot be. Servers of plugins that are installed for every conversation are left out then.
   */
  async connect(signal: AbortSignal): Promise<void> {
    await this.loadMissingPlugins(signal)
    if (!this.needsConnect) return
    const servers = this.#servers()
    const { openMcpServers } = await import('../../tools/mcp/servers.ts')
    const mcp = await openMcpServers({
      servers: Object.fromEntries(servers),
      context: this.#context,
      signal,
      onChange: () => this.#refreshTools(),
    })
    // What nobody of this conversation has asked for keeps it from nothing.
    const own = this.extensions.ownServers(this.settings.agent.mcp_config)
    const down = mcp.failures.filter(({ isUp, server }) => !isUp && Object.hasOwn(own, server))
    for (const { server, detail } of mcp.failures.filter((failure) => !down.includes(failure)))
      this.#deps.logLine('warn', 'tools of an MCP server were left out', { server, detail })
    if (down.length > 0) {
      await mcp.close()
      const list = down.map(({ server, detail }) => `${server}: ${detail}`).join('; ')
      throw new McpFailure(`MCP servers did not start. ${list}`)
    }
    this.#mcps.push(mcp)
    for (const [name] of servers) this.#connected.add(name)
    this.#refreshTools()
  }

  /** The SystemPromptEvent of this conversation as it is equipped now. */
  systemPromptEvent(hasAnalyzer: boolean): EventDraft {
    const { agent, agent_launch_additions: additions } = this.settings
    const prompt = systemPrompt({
      agent,
      tools: [...this.#tools.values()],
      skills: this.#skills,
      agents: this.#tools.get('task')?.definition.action_type === 'TaskAction' ? this.tasks?.agents : [],
      workspaceDirectory: this.workspace.directory,
      secrets: this.#context.secrets.list(),
      now: new Date(this.#deps.now() / 1000),
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
  rulesForAction(action: Action): readonly TextContent[] {
    const path = 'file_path' in action ? action.file_path : 'path' in action ? action.path : undefined
    if (path === undefined || path === null) return []
    const { names, content } = this.#skills.activateForPath(path, this.#shownRules)
    for (const name of names) this.#shownRules.add(name)
    return content
  }

  /** The model sees another branch: what it was told of rules it may not have been told there. */
  resetShownRules(): void {
    this.#shownRules.clear()
  }

  /** What the hooks of an event say; what failed among them is logged. Rejects only when aborted. */
  async runHooks(
    event: HookEvent,
    payload: Parameters<Hooks['run']>[1],
    signal: AbortSignal,
  ): Promise<HookVerdict> {
    const verdict = await this.#hooks.run(event, payload, signal)
    for (const failure of verdict.failures) {
      const reason = this.#context.secrets.redact(failure)
      this.#deps.logLine('warn', 'a hook failed', { conversation: this.#conversation, reason })
    }
    return verdict
  }

  openModel(llm: Llm): Model {
    const { openModel, findProfile, monitor } = this.#deps
    const options = {
      now: () => this.#deps.now() / 1000,
      ...(findProfile === undefined ? {} : { profile: findProfile }),
    }
    return instrumentModel(openModel(llm, options), monitor)
  }

  switchModel(llm: Llm): void {
    this.#model = this.openModel(llm)
  }

  /** Takes what `extras` has now: skills, hooks, and servers, which `connect` starts. What runs goes on. */
  async reload(signal: AbortSignal): Promise<void> {
    const { settings, extensions, workspace } = this
    const { homeDirectory } = this.#deps
    const { skills, issues } = await loadSkills(
      {
        directory: workspace.directory,
        context: settings.agent.agent_context,
        additions: extensions.skills,
        ...(homeDirectory === undefined ? {} : { homeDirectory }),
      },
      signal,
    )
    this.#skills = new SkillSet(skills, workspace.directory)
    await workspace.allowRead([
      ...this.#skills.readablePaths,
      ...extensions.plugins.map(({ directory }) => directory),
    ])
    this.#context.secrets.addValuesFrom(extensions.servers({}))
    const before = this.#hooks
    this.#hooks = this.#openHooks()
    await before.close()
    for (const fault of [...issues, ...extensions.issues])
      this.#deps.logLine('warn', 'a part of a plugin was passed over', {
        conversation: this.#conversation,
        fault,
      })
  }

  #openHooks(): Hooks {
    return new Hooks({
      config: this.extensions.hooks(this.#projectHooks),
      workspace: this.workspace,
      conversation: this.#conversation,
      askModel: (question, signal) => this.#askModelForHook(question, signal),
      recordsExecutions: this.#wire === 'current',
    })
  }

  /** Ends tools, servers, hooks and every process that was started. */
  async close(): Promise<void> {
    const tools = [...new Set(this.#tools.values())].map((tool) => tool.close?.())
    await Promise.allSettled([...tools, ...this.#mcps.map((mcp) => mcp.close()), this.#hooks.close()])
    await this.workspace[Symbol.asyncDispose]()
  }

  #servers() {
    return Object.entries(this.extensions.servers(this.settings.agent.mcp_config)).filter(
      ([name, { disabled, enabled }]) => disabled !== true && enabled !== false && !this.#connected.has(name),
    )
  }

  /** Puts the tools that the MCP servers have now beside our own, which stay as they are and keep their names. */
  #refreshTools(): void {
    const own = [...this.#tools].filter(([, tool]) => tool.definition.kind !== 'MCPToolDefinition')
    const filter = this.settings.agent.filter_tools_regex
    const names = new Set(own.map(([name]) => name))
    const theirs = this.#mcps
      .flatMap(({ tools }) => tools)
      .filter(({ name }) => filter === undefined || new RegExp(filter).test(name))
      .map((tool) => {
        const name = uniqueToolName(tool.name, names)
        names.add(name)
        return name === tool.name ? tool : renameTool(tool, name)
      })
    this.#modelTools = undefined
    this.#tools = new Map([...own, ...theirs.map((tool) => [tool.name, tool] as const)])
  }

  async #askModelForHook(
    { system, prompt }: { readonly system: string; readonly prompt: string },
    signal: AbortSignal,
  ): Promise<string> {
    const answer = await this.#model.generate(
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

/** The name itself, or one like it that is not taken. */
function uniqueToolName(name: string, usedNames: ReadonlySet<string>): string {
  if (!usedNames.has(name)) return name
  for (let count = 1; ; count++) {
    const other = `mcp_${count === 1 ? '' : `${count}_`}${name}`
    if (!usedNames.has(other)) return other
  }
}

/** A tool that is called by another name. */
function renameTool(tool: Tool, name: string): Tool {
  return {
    name,
    definition: tool.definition,
    parameters: tool.parameters,
    parse: (args) => tool.parse(args),
    resources: (action) => tool.resources(action),
    run: (action, signal) => tool.run(action, signal),
  }
}

async function openAgentTools(
  settings: ResolvedSettings,
  context: ToolContext,
): Promise<ReadonlyMap<string, Tool>> {
  const { agent, client_tools = [] } = settings
  const filter = agent.filter_tools_regex
  return await openTools({
    specs: agent.tools,
    defaults: agent.include_default_tools,
    context,
    extra: client_tools.map(createClientTool),
    ...(filter === undefined ? {} : { filter: new RegExp(filter) }),
  })
}
