import type {
  AgentContext,
  ConfirmationPolicy,
  HookConfig,
  Llm,
  LogFunction,
  SecurityAnalyzer,
} from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import type { ResolvedSettings } from '../../conversation/state/resolved-settings.ts'
import type { UsageStats } from '../../conversation/state/usage-stats.ts'
import type { LoadedSkill } from '../../skills/skill.ts'
import { availableToolNames, findTool } from '../../tools/registry.ts'
import type { ChildConversations } from './child-conversations.ts'
import { TaskRunner } from './task-runner.ts'

/** What tasks need of the conversation that gives them, as it is at the moment. */
export interface TaskHost {
  settings(): ResolvedSettings
  policy(): ConfirmationPolicy
  analyzer(): SecurityAnalyzer | null
  redact(text: string): string
  /** What a task has used, all in all: it counts as use of the conversation under `task:` and the id. */
  onUsage(task: string, stats: UsageStats, isOver: boolean): Promise<void>
}

export interface OpenTaskRunnerOptions {
  readonly conversation: string
  readonly settings: ResolvedSettings
  readonly host: TaskHost | undefined
  readonly deps: {
    readonly childConversations?: ChildConversations
    readonly log: EventLog
    readonly logLine: LogFunction
    readonly homeDirectory?: string
    readonly findProfile?: (name: string) => Promise<Llm | undefined>
  }
  /** The workspace, absolute. */
  readonly directory: string
  /** The folders of the plugins that are loaded now. */
  plugins(): readonly string[]
  hooks(): Promise<HookConfig | undefined>
  skills(context: AgentContext): Promise<readonly LoadedSkill[]>
}

/** The tasks of a conversation, undefined where none can be given: it did not ask for the tool, or nobody keeps the children. */
export function openTaskRunner(options: OpenTaskRunnerOptions): TaskRunner | undefined {
  const { conversation, settings, host, deps, directory, plugins, hooks, skills } = options
  const open = findTool('task_tool_set')
  const { tools, include_default_tools } = settings.agent
  const names = [...tools.map(({ name }) => name), ...include_default_tools]
  const isRequested = names.some((name) => findTool(name) === open)
  if (!isRequested || host === undefined || deps.childConversations === undefined) return undefined
  return new TaskRunner({
    parent: conversation,
    children: deps.childConversations,
    log: deps.log,
    logLine: deps.logLine,
    definitions: settings.agent_definitions ?? [],
    directory,
    homeDirectory: deps.homeDirectory,
    plugins,
    usableTools: availableToolNames,
    getParent: async () => ({
      id: conversation,
      settings: host.settings(),
      policy: host.policy(),
      analyzer: host.analyzer(),
      hooks: await hooks(),
      profile: deps.findProfile,
      skills,
    }),
    redact: (text) => host.redact(text),
    onUsage: (task, stats, isOver) => host.onUsage(task, stats, isOver),
  })
}
