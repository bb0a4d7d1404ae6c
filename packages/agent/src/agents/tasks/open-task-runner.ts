import type {
  AgentContext,
  ConfirmationPolicy,
  HookConfig,
  Llm,
  Log,
  SecurityAnalyzer,
} from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import type { Settings } from '../../conversation/state/resolved-settings.ts'
import type { Stats } from '../../conversation/state/usage-stats.ts'
import type { LoadedSkill } from '../../skills/skill.ts'
import { findTool, usableTools } from '../../tools/registry.ts'
import type { Children } from './child-conversations.ts'
import { GivenTasks } from './task-runner.ts'

/** What tasks need of the conversation that gives them, as it is at the moment. */
export interface TaskHost {
  settings(): Settings
  policy(): ConfirmationPolicy
  analyzer(): SecurityAnalyzer | null
  mask(text: string): string
  /** What a task has used, all in all: it counts as use of the conversation under `task:` and the id. */
  used(task: string, stats: Stats, isOver: boolean): Promise<void>
}

export interface TasksOptions {
  readonly conversation: string
  readonly settings: Settings
  readonly host: TaskHost | undefined
  readonly rim: {
    readonly children?: Children
    readonly log: EventLog
    readonly logLine: Log
    readonly home?: string
    readonly profile?: (name: string) => Promise<Llm | undefined>
  }
  /** The workspace, absolute. */
  readonly directory: string
  /** The folders of the plugins that are loaded now. */
  plugins(): readonly string[]
  hooks(): Promise<HookConfig | undefined>
  skills(context: AgentContext): Promise<readonly LoadedSkill[]>
}

/** The tasks of a conversation, undefined where none can be given: it did not ask for the tool, or nobody keeps the children. */
export function openTasks(options: TasksOptions): GivenTasks | undefined {
  const { conversation, settings, host, rim, directory, plugins, hooks, skills } = options
  const open = findTool('task_tool_set')
  const { tools, include_default_tools } = settings.agent
  const names = [...tools.map(({ name }) => name), ...include_default_tools]
  const isAsked = names.some((name) => findTool(name) === open)
  if (!isAsked || host === undefined || rim.children === undefined) return undefined
  return new GivenTasks({
    parent: conversation,
    children: rim.children,
    log: rim.log,
    logLine: rim.logLine,
    definitions: settings.agent_definitions ?? [],
    directory,
    home: rim.home,
    plugins,
    usableTools,
    giver: async () => ({
      id: conversation,
      settings: host.settings(),
      policy: host.policy(),
      analyzer: host.analyzer(),
      hooks: await hooks(),
      profile: rim.profile,
      skills,
    }),
    mask: (text) => host.mask(text),
    used: (task, stats, isOver) => host.used(task, stats, isOver),
  })
}
