import { join } from 'node:path'
import {
  type AgentContext,
  type CommandRule,
  type CommandSandbox,
  type HookConfig,
  isAcpAgent,
  type Llm,
  type McpServer,
  Problem,
} from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { makeDirectory, realpath } from '@slipway/shared/tool-files'
import type { EventDraft } from '@slipway/storage'
import { WorkspaceCheckpoints } from '../../checkpoints/workspace-checkpoints.ts'
import type { Model, ModelTool } from '../../llm/model.ts'
import { ConversationExtensions, mergeHooks, mergeServers } from '../../plugins/extensions.ts'
import { RepositoryAccess } from '../../repository/repository-access.ts'
import type { ServerPlace } from '../../shell/server-access.ts'
import { instructionsSkill, loadSkills } from '../../skills/load.ts'
import { NestedInstructions } from '../../skills/nested-instructions.ts'
import { SkillSet } from '../../skills/skill-set.ts'
import { addCommonParameters, isReadOnly, shortenParameters } from '../../tools/calls/parse-call.ts'
import { createClientTool } from '../../tools/core/client-tool.ts'
import { questionTool } from '../../tools/core/server-question.ts'
import { structuredFinish } from '../../tools/core/structured-finish.ts'
import type { Tool, ToolContext } from '../../tools/core/tool.ts'
import { LanguageServers } from '../../tools/lsp/language-servers.ts'
import type { OpenMcpPrompt } from '../../tools/mcp/prompts.ts'
import { openTools } from '../../tools/registry.ts'
import type { ActiveSandbox } from '../../workspace/command-sandbox.ts'
import { conversationFolder } from '../../workspace/conversation-folder.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { readsModelRisk } from '../confirm/confirmation.ts'
import { textMessage } from '../events/event-drafts.ts'
import { Hooks } from '../hooks/hooks.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import type { ConversationState } from '../state/state.ts'
import { hasTaskTool, type TaskHost, TaskRunner } from '../tasks/task-runner.ts'
import { replyText } from '../view/content-blocks.ts'
import type { LogEventOf } from '../view/log-event.ts'
import type { ConversationContext } from './conversation-context.ts'
import { createCritic, type EvaluateWithCritic } from './critic.ts'
import { McpConnections } from './mcp-connections.ts'
import { createModelRouter } from './model-router.ts'
import { openConversationModel } from './open-model.ts'
import { ProjectRules } from './project-rules.ts'

interface RuntimeParts {
  readonly context: ConversationContext
  readonly settings: ResolvedSettings
  readonly toolContext: ToolContext
  /** The hooks without those of plugins. */
  readonly ownHooks: HookConfig | undefined
  readonly repository: RepositoryAccess
  readonly extensions: ConversationExtensions
  readonly tasks: TaskRunner | undefined
  readonly checkpoints: WorkspaceCheckpoints | undefined
  readonly skills: SkillSet
  readonly tools: ReadonlyMap<string, Tool>
}

/** The section of our prompt that explains `summary` and `security_risk`. */
const riskHeading = '# Risk of a call'
/** Tools whose argument is a text: it needs no summary. */
const messageTools: ReadonlySet<string> = new Set(['FinishTool', 'ThinkTool'])

/** What an agent works with while its conversation is loaded: tools, model, skills, hooks. */
export class AgentRuntime {
  /** The settings at the time it was opened. */
  readonly settings: ResolvedSettings
  readonly workspace: Workspace
  readonly repository: RepositoryAccess
  /** What plugins and the server add. */
  readonly extensions: ConversationExtensions
  /** The tasks for other agents; undefined where none can be given. */
  readonly tasks: TaskRunner | undefined
  /** The workspace before each step; undefined unless the server stores it. */
  readonly checkpoints: WorkspaceCheckpoints | undefined
  skills: SkillSet
  tools: ReadonlyMap<string, Tool>
  model: Model
  hooks: Hooks
  readonly rules: ProjectRules
  readonly evaluateWithCritic: EvaluateWithCritic | undefined
  readonly #context: ConversationContext
  readonly #ownHooks: HookConfig | undefined
  readonly #mcp: McpConnections
  readonly #toolContext: ToolContext
  #modelTools:
    | { readonly hasRisk: boolean; readonly isDescribed: boolean; readonly tools: readonly ModelTool[] }
    | undefined

  private constructor(parts: RuntimeParts) {
    const { context, settings, toolContext, extensions } = parts
    const { agent } = settings
    this.#context = context
    this.#toolContext = toolContext
    this.settings = settings
    this.extensions = extensions
    this.tasks = parts.tasks
    this.checkpoints = parts.checkpoints
    this.workspace = toolContext.workspace
    this.skills = parts.skills
    this.tools = parts.tools
    const { disabled_skills: disabled = [] } = agent.agent_context ?? {}
    const nested = new NestedInstructions(this.workspace.directory)
    this.rules = new ProjectRules(
      () => this.skills,
      disabled.includes(instructionsSkill) ? undefined : nested,
    )
    this.model = this.openModel(agent.llm)
    this.#ownHooks = parts.ownHooks
    this.repository = parts.repository
    this.hooks = this.#openHooks()
    this.#mcp = new McpConnections({
      context,
      toolContext,
      // An external agent connects to them on its own.
      servers: () => (isAcpAgent(agent) ? {} : this.mcpServers),
      onChange: () => this.#refreshTools(),
    })
    context.secrets.addValuesFrom(mergeServers({}, extensions.plugins))
    this.evaluateWithCritic = agent.critic && createCritic(agent.critic, context.deps.clock)
  }

  /** Loads skills, hooks and tools; MCP servers wait for `connect`. Rejects when a tool is unknown. */
  static async open(
    context: ConversationContext,
    host: TaskHost,
    switchModel: (llm: Llm) => Promise<void>,
  ): Promise<AgentRuntime> {
    const { id, deps, secrets, closing } = context
    const { signal } = closing
    const settings = context.settings.current
    const { agent, workspace: workspaceSettings } = settings
    const place = conversationFolder(deps.directory, id)
    await makeDirectory(place, 0o700)
    const directory = await realpath(place)
    const root = workspaceSettings.working_dir
    await makeWorkspace(root)
    const { homeDirectory } = deps
    const extensions = await ConversationExtensions.open(
      { provider: deps.extensions, sources: settings.plugins ?? [], context: agent.agent_context },
      signal,
    )
    const findSkills = (agentContext: AgentContext | undefined) => {
      const additions = extensions.skills
      const options = { directory: root, context: agentContext, additions, homeDirectory }
      return loadSkills({ ...options, hasInstructions: true, reserved: deps.server?.directories }, signal)
    }
    const pluginDirectories = () => extensions.plugins.map((plugin) => plugin.directory)
    const loaded = await findSkills(agent.agent_context)
    const skills = new SkillSet(loaded.skills, await realpath(root))
    const workspace = await Workspace.open({
      directory: root,
      env: deps.environment,
      readable: [directory, ...skills.readablePaths, ...pluginDirectories()],
      isConfined: deps.isConfined,
      reserved: deps.server?.directories ?? [],
      hidesReserved: deps.server?.isHidden
        ? { shown: [directory, ...(deps.server.worktrees ?? [])] }
        : undefined,
      sandbox: activeSandbox(settings.command_sandbox ?? deps.commandSandbox),
    })
    const repository = await RepositoryAccess.open({
      directory: workspace.directory,
      homeDirectory,
      consents: deps.repositoryConsents,
      mayWait: settings.parent_conversation_id === undefined,
      usesHooks: settings.hook_config === undefined,
      usesAgents: deps.childConversations !== undefined && hasTaskTool(agent),
      hadHooks: context.state.repositoryConsent?.has_hooks === true,
    })
    const ownHooks = settings.hook_config ?? repository.hooks
    const tasks = TaskRunner.open({
      parent: id,
      host,
      deps,
      plugins: pluginDirectories,
      // A task's own conversation has the hooks of the server's plugins.
      hooks: async () => mergeHooks(ownHooks, extensions.ownPlugins),
      projectAgents: () => repository.agents(),
      skills: async (taskContext) => (await findSkills(taskContext)).skills,
    })
    const toolContext = {
      ...{ workspace, secrets, directory, mcpOAuth: deps.mcpOAuth, browser: deps.browser },
      router: createModelRouter(context, switchModel),
      askUser: askUserOf(context),
      languageServers: deps.hasLanguageServers
        ? new LanguageServers(workspace, { clock: deps.clock })
        : undefined,
      tasks,
      readSkill: (name: string) => runtime.skills.read(name),
    }
    const tools = await openAgentTools(settings, toolContext, needsSkillTool(context, skills))
    for (const issue of [...loaded.issues, ...repository.issues, ...extensions.issues])
      deps.logLine('warn', 'a file of the project was skipped', { conversation: id, issue })
    const checkpoints = openCheckpoints(deps, workspace, directory)
    const loadedParts = { ownHooks, repository, extensions, tasks, checkpoints, skills, tools }
    const runtime = new AgentRuntime({ context, settings, toolContext, ...loadedParts })
    return runtime
  }

  /** The tools as a model sees them; the same object until the tools or what is said of risks change. */
  get modelTools(): readonly ModelTool[] {
    const hasRisk = readsModelRisk(this.#context.settings.analyzer)
    const isDescribed = !hasRisk || !explainsRisk(this.#context.state)
    const known = this.#modelTools
    if (known?.hasRisk === hasRisk && known.isDescribed === isDescribed) return known.tools
    const tools = [...this.tools.values()].map((tool) => ({
      name: tool.name,
      description: tool.definition.description ?? '',
      parameters: messageTools.has(tool.definition.kind)
        ? shortenParameters(tool.parameters)
        : addCommonParameters(tool.parameters, {
            hasRisk: hasRisk && !isReadOnly(tool),
            isDescribed,
            canAskOutside: this.workspace.sandbox !== undefined && tool.definition.kind === 'TerminalTool',
          }),
    }))
    this.#modelTools = { hasRisk, isDescribed, tools }
    return tools
  }

  /** Of the server, of the repository and of the conversation; the strictest that fits counts. */
  get commandRules(): readonly CommandRule[] {
    const { deps, settings } = this.#context
    const own = settings.current.command_rules ?? []
    return [...(deps.commandRules ?? []), ...this.repository.commandRules, ...own]
  }

  /** The MCP servers of the agent and of its plugins. */
  get mcpServers(): Readonly<Record<string, McpServer>> {
    return mergeServers(this.settings.agent.mcp_config, this.extensions.plugins)
  }

  /** What commands must not reach; undefined when no server runs this conversation. */
  get serverPlace(): ServerPlace | undefined {
    const { server } = this.#context.deps
    if (server === undefined) return undefined
    const { workspace } = this
    return {
      port: server.port(),
      directories: server.directories,
      workspace: workspace.directory,
      isHidden: workspace.isReservedHidden,
      isReserved: (path) => workspace.isReserved(path),
    }
  }

  /** True while a plugin is not loaded or an MCP server is not connected. */
  get needsConnect(): boolean {
    return !this.extensions.isComplete || this.#mcp.pending.length > 0
  }

  /** Rejects with PluginLoadError. */
  async loadMissingPlugins(signal: AbortSignal): Promise<void> {
    if (this.extensions.isComplete) return
    await this.extensions.loadMissing(signal)
    await this.reload(signal)
  }

  /** Loads missing plugins and connects MCP servers; rejects with PluginLoadError or McpStartError. */
  async connect(signal: AbortSignal): Promise<void> {
    await this.loadMissingPlugins(signal)
    await this.#mcp.connect(signal)
  }

  /** What the model and the readers have to be told about MCP servers. */
  serverNotices(now: ConversationState): EventDraft[] {
    return this.#mcp.notices(now)
  }

  /** What MCP servers say about their use, by name. */
  get serverInstructions(): ReadonlyMap<string, string> {
    return this.#mcp.instructions
  }

  /** What connected MCP servers offer to users. */
  get prompts(): readonly OpenMcpPrompt[] {
    return this.#mcp.prompts
  }

  openModel(llm: Llm): Model {
    return openConversationModel(this.#context, llm)
  }

  /**
   * Applies changed extensions: skills, hooks and servers, which `connect` starts. Running work continues.
   */
  async reload(signal: AbortSignal): Promise<void> {
    const { extensions, workspace, hooks } = this
    const { id, deps, secrets } = this.#context
    const { homeDirectory, logLine, server } = deps
    const { directory } = workspace
    const context = this.settings.agent.agent_context
    const additions = extensions.skills
    const reserved = server?.directories
    const options = { directory, context, additions, homeDirectory, hasInstructions: true, reserved }
    const { skills, issues } = await loadSkills(options, signal)
    this.skills = new SkillSet(skills, directory)
    await this.#addSkillTool()
    const pluginDirectories = extensions.plugins.map((plugin) => plugin.directory)
    await workspace.allowRead([...this.skills.readablePaths, ...pluginDirectories])
    secrets.addValuesFrom(mergeServers({}, extensions.plugins))
    this.hooks = this.#openHooks()
    await hooks.close()
    for (const issue of [...issues, ...extensions.issues])
      logLine('warn', 'a part of a plugin was skipped', { conversation: id, issue })
  }

  /** Something that a tool has started continues, such as a program in the background of the terminal. */
  async isOccupied(): Promise<boolean> {
    for (const tool of new Set(this.tools.values())) if (await tool.isOccupied?.()) return true
    return false
  }

  /** Ends tools, servers, hooks and every process that was started. */
  async close(): Promise<void> {
    const tools = [...new Set(this.tools.values())].map((tool) => tool.close?.())
    await Promise.allSettled([...tools, this.#mcp.close(), this.hooks.close()])
    await this.workspace[Symbol.asyncDispose]()
  }

  /** Plugins may bring the first skills. */
  async #addSkillTool(): Promise<void> {
    if (this.tools.has(skillTool) || !needsSkillTool(this.#context, this.skills)) return
    const opened = await openTools({ specs: [], defaults: [skillTool], context: this.#toolContext })
    this.tools = new Map([...this.tools, ...opened])
    this.#refreshTools()
  }

  /** Replaces the tools of MCP servers. Our own tools stay and keep their names. */
  #refreshTools(): void {
    const own = [...this.tools].filter(([, tool]) => tool.definition.kind !== 'MCPToolDefinition')
    // A call of a tool with the name of a question would be taken for one.
    const names = [...own.map(([name]) => name), questionTool]
    const mcpTools = this.#mcp.tools(names, this.settings.agent.filter_tools_regex)
    this.#modelTools = undefined
    this.tools = new Map([...own, ...mcpTools.map((tool) => [tool.name, tool] as const)])
  }

  #openHooks(): Hooks {
    const { id, deps, secrets, wire } = this.#context
    return new Hooks({
      clock: deps.clock,
      config: mergeHooks(this.#ownHooks, this.extensions.plugins),
      workspace: this.workspace,
      conversation: id,
      askModel: async ({ system, prompt }, signal) => {
        const messages = [textMessage('system', system), textMessage('user', prompt)]
        const result = await this.model.generate({ messages, tools: [] }, signal)
        if (result.kind !== 'reply') return ''
        await this.#context.recordUsage(result, 'hook')
        return replyText(result)
      },
      haveChanged: () => this.repository.haveHooksChanged(),
      redact: (text) => secrets.redact(text),
      recordsExecutions: wire === 'current' ? 'event' : 'update',
      onFailure: (failure) =>
        deps.logLine('warn', 'a hook failed', { conversation: id, reason: secrets.redact(failure) }),
    })
  }
}

/** The user of a task is its parent, which cannot answer. */
function askUserOf({ settings, questions }: ConversationContext): ToolContext['askUser'] {
  if (settings.current.parent_conversation_id !== undefined) return undefined
  return (question, signal) => questions.ask(question, signal)
}

const skillTool = 'invoke_skill'

/** Its kinds are not among the closed ones: other conversations have it only when they name it. */
function needsSkillTool({ wire, settings }: ConversationContext, skills: SkillSet): boolean {
  return wire === 'current' && !isAcpAgent(settings.current.agent) && skills.summaries().length > 0
}

async function openAgentTools(settings: ResolvedSettings, context: ToolContext, hasSkillTool: boolean) {
  const { agent, client_tools = [], response_schema: schema } = settings
  const filter = agent.filter_tools_regex
  const tools = await openTools({
    specs: agent.tools,
    defaults: [
      ...agent.include_default_tools,
      ...(hasSkillTool ? [skillTool] : []),
      // An answer by a schema is given with this tool.
      ...(schema === undefined ? [] : ['finish']),
    ],
    context,
    extra: client_tools.map(createClientTool),
    filter: filter === undefined ? undefined : new RegExp(filter),
  })
  if (schema === undefined) return tools
  return new Map(
    [...tools].map(([name, tool]) => [name, name === 'finish' ? structuredFinish(tool, schema) : tool]),
  )
}

function openCheckpoints(
  { hasCheckpoints, server }: ConversationContext['deps'],
  workspace: Workspace,
  directory: string,
): WorkspaceCheckpoints | undefined {
  if (!hasCheckpoints) return undefined
  const excluded = [...(server?.directories ?? []), directory]
  return new WorkspaceCheckpoints({ workspace, directory: join(directory, 'checkpoints'), excluded })
}

function activeSandbox(sandbox: CommandSandbox | undefined): ActiveSandbox | undefined {
  return sandbox === undefined || sandbox.mode === 'off' ? undefined : { ...sandbox, mode: sandbox.mode }
}

/** Makes the directory where it is gone. A Problem `conflict` where it cannot be one. */
async function makeWorkspace(directory: string): Promise<void> {
  await makeDirectory(directory).catch((error: unknown) => {
    if (!['EEXIST', 'ENOTDIR'].includes(errorCode(error) ?? '')) throw error
    throw new Problem('conflict', `The workspace ${directory} is no directory: a file is in its place.`)
  })
}

/** Whether the prompt that the conversation has says what they mean; one of the user's does not. */
function explainsRisk({ view }: ConversationState): boolean {
  const prompt = view.events.find(
    (event): event is LogEventOf<'SystemPromptEvent'> => event.kind === 'SystemPromptEvent',
  )
  return prompt?.system_prompt.text.includes(riskHeading) === true
}
