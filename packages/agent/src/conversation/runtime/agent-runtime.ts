import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  Action,
  AgentContext,
  HookConfig,
  HookEvent,
  Llm,
  Log,
  TextContent,
  Wire,
} from '@slipway/protocol'
import type { EventDraft, EventLog } from '@slipway/storage'
import type { Children } from '../../agents/tasks/child-conversations.ts'
import { openTasks, type TaskHost } from '../../agents/tasks/open-task-runner.ts'
import type { GivenTasks } from '../../agents/tasks/task-runner.ts'
import type { Model, ModelTool, OpenModel } from '../../llm/model.ts'
import { Extras } from '../../plugins/conversation-extensions.ts'
import type { Extensions } from '../../plugins/extensions.ts'
import type { Secrets } from '../../secrets/secrets.ts'
import { loadSkills } from '../../skills/load.ts'
import { Skills } from '../../skills/skill-set.ts'
import { isReadOnly, withCommonParameters } from '../../tools/calls/parse-call.ts'
import { clientTool } from '../../tools/core/client-tool.ts'
import type { Tool, ToolContext } from '../../tools/core/tool.ts'
import { openTools } from '../../tools/registry.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { textMessage } from '../events/event-drafts.ts'
import { loadHooks } from '../hooks/config.ts'
import { Hooks, type HookVerdict } from '../hooks/hooks.ts'
import type { Settings } from '../state/resolved-settings.ts'
import { type Criticise, openCritic } from './critic.ts'
import { type Watch, watchedModel } from './instrumentation.ts'
import { systemPrompt } from './system-prompt.ts'

export type { Settings } from '../state/resolved-settings.ts'

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
  /** The value of a secret of the server itself, by its address without a host. */
  readonly secret?: (url: string) => Promise<string | undefined>
  /** What waits for confirmation longer is rejected, where the policy names no time of its own; undefined: never. Milliseconds. */
  readonly confirmationDeadlineMs?: number | undefined
  /** Told of what it does, to count and trace it. */
  readonly watch?: Watch | undefined
  /** Waits for a turn to run; the answer gives it back. */
  readonly turn?: (signal: AbortSignal) => Promise<() => void>
  /** Who keeps the conversations that do its tasks; without it no tasks can be given. */
  readonly children?: Children
  /** Where plugins come from; without it there are none. */
  readonly extensions?: Extensions | undefined
}

/** An MCP server that does not start; `code` is for the ConversationErrorEvent. */
export class McpFailure extends Error {
  readonly code = 'MCPError'
}

/** What an agent works with while its conversation is loaded. */
export class Equipment {
  readonly settings: Settings
  readonly workspace: Workspace
  /** What plugins bring, and the server. */
  readonly extras: Extras
  readonly criticise: Criticise | undefined
  /** Those that it gives to other agents, where it can. */
  readonly tasks: GivenTasks | undefined
  readonly #rim: Rim
  readonly #context: ToolContext
  /** Without those of plugins. */
  readonly #ownHooks: HookConfig | undefined
  readonly #conversation: string
  readonly #wire: Wire
  #tools: ReadonlyMap<string, Tool>
  #model: Model
  #modelTools: readonly ModelTool[] | undefined
  readonly #rulesTold = new Set<string>()
  #skills: Skills
  #hooks: Hooks
  /** Names of the MCP servers that are connected. */
  readonly #connected = new Set<string>()
  readonly #mcps: { readonly tools: readonly Tool[]; close(): Promise<void> }[] = []

  private constructor(parts: {
    readonly settings: Settings
    readonly rim: Rim
    readonly context: ToolContext
    readonly extras: Extras
    readonly skills: Skills
    readonly hookConfig: HookConfig | undefined
    readonly conversation: string
    readonly wire: Wire
    readonly tools: ReadonlyMap<string, Tool>
    readonly tasks: GivenTasks | undefined
  }) {
    this.tasks = parts.tasks
    this.#wire = parts.wire
    const { settings, rim, context, skills, hookConfig, conversation, tools } = parts
    this.settings = settings
    this.workspace = context.workspace
    this.extras = parts.extras
    this.#skills = skills
    this.#rim = rim
    this.#context = context
    this.#tools = tools
    this.#model = this.openModel(settings.agent.llm)
    this.#conversation = conversation
    this.#ownHooks = hookConfig
    this.#hooks = this.#openHooks()
    context.secrets.hideIn(parts.extras.servers({}))
    this.criticise = settings.agent.critic === undefined ? undefined : openCritic(settings.agent.critic, {})
  }

  /** Loads skills, hooks and tools; MCP servers wait for `connect`. Rejects when a tool is not known. */
  static async open(
    options: {
      readonly conversation: string
      readonly settings: Settings
      readonly rim: Rim
      readonly secrets: Secrets
      readonly wire?: Wire
      readonly host?: TaskHost | undefined
    },
    signal: AbortSignal,
  ): Promise<Equipment> {
    const { conversation, settings, rim, secrets, wire = 'seed' } = options
    const directory = join(rim.directory, conversation.replaceAll('-', ''))
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const root = settings.workspace.working_dir
    await mkdir(root, { recursive: true })
    const { agent } = settings
    const home = rim.home === undefined ? {} : { home: rim.home }
    const extras = await Extras.open(
      { port: rim.extensions, sources: settings.plugins ?? [], context: agent.agent_context },
      signal,
    )
    const skillsOf = (context: AgentContext | undefined) =>
      loadSkills({ directory: root, context, additions: extras.skills, ...home }, signal)
    const loaded = await skillsOf(agent.agent_context)
    const skills = new Skills(loaded.skills, await realpath(root))
    const workspace = await Workspace.open({
      directory: root,
      env: rim.environment,
      readable: [directory, ...skills.readable, ...extras.plugins.map((plugin) => plugin.directory)],
      isConfined: rim.isConfined,
    })
    const hooksFound =
      settings.hook_config === undefined
        ? loadHooks(workspace.directory, rim.home)
        : Promise.resolve({ config: settings.hook_config, faults: [] })
    const tasks = openTasks({
      conversation,
      settings,
      host: options.host,
      rim,
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
    const [hooks, tools] = await Promise.all([hooksFound, toolsOf(settings, context)])
    for (const fault of [...loaded.faults, ...hooks.faults, ...extras.faults]) {
      rim.logLine('warn', 'a file of the project was passed over', { conversation, fault })
    }
    return new Equipment({
      settings,
      rim,
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
  get skills(): Skills {
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
      parameters: withCommonParameters(tool.parameters, { isReadOnly: isReadOnly(tool) }),
    }))
    return this.#modelTools
  }

  get model(): Model {
    return this.#model
  }

  /** Who is told of what is done with it. */
  get watch(): Watch | undefined {
    return this.#rim.watch
  }

  /** Plugins that are not loaded or MCP servers that are not connected yet. */
  get mustConnect(): boolean {
    return !this.extras.isComplete || this.#servers().length > 0
  }

  /** Loads the plugins that are missing; rejects with PluginFailure. */
  async complete(signal: AbortSignal): Promise<void> {
    if (this.extras.isComplete) return
    await this.extras.complete(signal)
    await this.refit(signal)
  }

  /**
   * Loads the plugins that are missing and connects the MCP servers; rejects with PluginFailure or McpFailure when one of them
   * cannot be. Servers of plugins that are installed for every conversation are left out then.
   */
  async connect(signal: AbortSignal): Promise<void> {
    await this.complete(signal)
    if (!this.mustConnect) return
    const servers = this.#servers()
    const { openMcp } = await import('../../tools/mcp/servers.ts')
    const mcp = await openMcp({
      servers: Object.fromEntries(servers),
      context: this.#context,
      signal,
      onChange: () => this.#takeTools(),
    })
    // What nobody of this conversation has asked for keeps it from nothing.
    const own = this.extras.ownServers(this.settings.agent.mcp_config)
    const down = mcp.failures.filter(({ isUp, server }) => !isUp && Object.hasOwn(own, server))
    for (const { server, detail } of mcp.failures.filter((failure) => !down.includes(failure)))
      this.#rim.logLine('warn', 'tools of an MCP server were left out', { server, detail })
    if (down.length > 0) {
      await mcp.close()
      const list = down.map(({ server, detail }) => `${server}: ${detail}`).join('; ')
      throw new McpFailure(`MCP servers did not start. ${list}`)
    }
    this.#mcps.push(mcp)
    for (const [name] of servers) this.#connected.add(name)
    this.#takeTools()
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
    const { names, content } = this.#skills.forPath(path, this.#rulesTold)
    for (const name of names) this.#rulesTold.add(name)
    return content
  }

  /** The model sees another branch: what it was told of rules it may not have been told there. */
  forgetRules(): void {
    this.#rulesTold.clear()
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
    const { openModel, profile, watch } = this.#rim
    const options = { now: () => this.#rim.now() / 1000, ...(profile === undefined ? {} : { profile }) }
    return watchedModel(openModel(llm, options), watch)
  }

  switchModel(llm: Llm): void {
    this.#model = this.openModel(llm)
  }

  /** Takes what `extras` has now: skills, hooks, and servers, which `connect` starts. What runs goes on. */
  async refit(signal: AbortSignal): Promise<void> {
    const { settings, extras, workspace } = this
    const { home } = this.#rim
    const { skills, faults } = await loadSkills(
      {
        directory: workspace.directory,
        context: settings.agent.agent_context,
        additions: extras.skills,
        ...(home === undefined ? {} : { home }),
      },
      signal,
    )
    this.#skills = new Skills(skills, workspace.directory)
    await workspace.admit([...this.#skills.readable, ...extras.plugins.map(({ directory }) => directory)])
    this.#context.secrets.hideIn(extras.servers({}))
    const before = this.#hooks
    this.#hooks = this.#openHooks()
    await before.close()
    for (const fault of [...faults, ...extras.faults])
      this.#rim.logLine('warn', 'a part of a plugin was passed over', {
        conversation: this.#conversation,
        fault,
      })
  }

  #openHooks(): Hooks {
    return new Hooks({
      config: this.extras.hooks(this.#ownHooks),
      workspace: this.workspace,
      conversation: this.#conversation,
      ask: (question, signal) => this.#askForHook(question, signal),
      isTold: this.#wire === 'current',
    })
  }

  /** Ends tools, servers, hooks and every process that was started. */
  async close(): Promise<void> {
    const tools = [...new Set(this.#tools.values())].map((tool) => tool.close?.())
    await Promise.allSettled([...tools, ...this.#mcps.map((mcp) => mcp.close()), this.#hooks.close()])
    await this.workspace[Symbol.asyncDispose]()
  }

  #servers() {
    return Object.entries(this.extras.servers(this.settings.agent.mcp_config)).filter(
      ([name, { disabled, enabled }]) => disabled !== true && enabled !== false && !this.#connected.has(name),
    )
  }

  /** Puts the tools that the MCP servers have now beside our own, which stay as they are and keep their names. */
  #takeTools(): void {
    const own = [...this.#tools].filter(([, tool]) => tool.definition.kind !== 'MCPToolDefinition')
    const filter = this.settings.agent.filter_tools_regex
    const names = new Set(own.map(([name]) => name))
    const theirs = this.#mcps
      .flatMap(({ tools }) => tools)
      .filter(({ name }) => filter === undefined || new RegExp(filter).test(name))
      .map((tool) => {
        const name = freeName(tool.name, names)
        names.add(name)
        return name === tool.name ? tool : renamed(tool, name)
      })
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

/** The name itself, or one like it that is not taken. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name
  for (let count = 1; ; count++) {
    const other = `mcp_${count === 1 ? '' : `${count}_`}${name}`
    if (!taken.has(other)) return other
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
