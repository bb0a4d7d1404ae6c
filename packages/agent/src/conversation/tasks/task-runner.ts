import {
  type Agent,
  type AgentDefinition,
  type HookConfig,
  type Llm,
  type LogFunction,
  Problem,
  type TaskAction,
  type UsageLimits,
} from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { EventLog } from '@slipway/storage'
import { type FoundAgents, findAgents } from '../../agents/find-agents.ts'
import { toSingleLine } from '../../skills/skill.ts'
import type { BrowserSearch } from '../../tools/core/find-browser.ts'
import type { TaskExecutor, TaskResult } from '../../tools/core/task-executor.ts'
import { availableToolNames, findTool } from '../../tools/registry.ts'
import { runRequest } from '../events/event-drafts.ts'
import { smallestCost, smallestCount } from '../limits/check-limits.ts'
import type { UsageStats } from '../state/usage-stats.ts'
import type { ChildConversation, ChildConversations, StoredTask } from './child-conversations.ts'
import { isTaskDone, stopChild, taskOutcome, waitForChild } from './outcome.ts'
import { taskPolicy } from './policy.ts'
import { agentIssue, type TaskParent, taskSettings } from './settings.ts'

const pausedText = 'The task was paused with this conversation before it was done.'
const titleLength = 100

/** The conversation that gives the tasks, as it is now. */
export interface TaskHost {
  readonly settings: Pick<TaskParent, 'policy' | 'analyzer'> & {
    readonly isPlanning: boolean
    readonly current: TaskParent['settings']
  }
  redact(text: string): string
  /** What the parent has left; undefined without limits. */
  remainingLimits(): UsageLimits | undefined
  /** Reports the total use of a task, counted under `task:<id>`; `isOver` when the task stops for now. */
  onUsage(task: string, stats: UsageStats, isOver: boolean): Promise<void>
}

/** Dependencies of a conversation that its tasks use. */
export interface TaskDeps {
  readonly clock: Clock
  readonly log: EventLog
  readonly logLine: LogFunction
  /** Holds the user's skills, hooks and agents. */
  readonly homeDirectory?: string | undefined
  /** Where a browser is looked for. */
  readonly browser?: BrowserSearch | undefined
  readonly findProfile?: (name: string) => Promise<Llm | undefined>
  /** Creates and finds the conversations of tasks; without it no tasks can be given. */
  readonly childConversations?: ChildConversations
}

interface TaskRunnerOptions {
  /** Id of the parent: the conversation that gives the tasks. */
  readonly parent: string
  readonly host: TaskHost
  readonly deps: TaskDeps
  plugins(): readonly string[]
  hooks(): Promise<HookConfig | undefined>
  /** The agents of the repository that may be used. */
  projectAgents(): Promise<FoundAgents>
  /** The skills that a context asks for. */
  skills: TaskParent['skills']
}

interface RunningTask {
  readonly task: StoredTask
  readonly child: ChildConversation
  /** Undefined when a resumed task's agent no longer exists. */
  readonly definition: AgentDefinition | undefined
  reason?: string
}

type StartedTask = RunningTask | { readonly issue: string }

/** Whether an agent may give tasks to others. */
export function hasTaskTool({ tools, include_default_tools }: Agent): boolean {
  const taskTool = findTool('task_tool_set')
  const names = [...tools.map(({ name }) => name), ...include_default_tools]
  return names.some((name) => findTool(name) === taskTool)
}

/**
 * The tasks that a conversation gives to other agents. Each has its own conversation, a child, which
 * works in the same workspace and is interrupted and paused with its parent. A task can be resumed, also
 * after a crash.
 */
export class TaskRunner implements TaskExecutor {
  /** The agents that can work here, as the model sees them. */
  agents: readonly AgentDefinition[] = []
  readonly #options: TaskRunnerOptions
  readonly #children: ChildConversations
  readonly #running = new Map<string, RunningTask>()
  #agents: ReadonlyMap<string, AgentDefinition> = new Map()
  #lastNumber: Promise<number> | undefined
  #pauseCount = 0

  private constructor(options: TaskRunnerOptions, children: ChildConversations) {
    this.#options = options
    this.#children = children
  }

  /** Undefined when the agent has no task tool or the server has no child conversations. */
  static open(options: TaskRunnerOptions): TaskRunner | undefined {
    const { childConversations } = options.deps
    if (childConversations === undefined || !hasTaskTool(options.host.settings.current.agent))
      return undefined
    return new TaskRunner(options, childConversations)
  }

  /** Finds the agents; a later call finds them again. */
  async load(): Promise<void> {
    const { parent, host, plugins, projectAgents, deps } = this.#options
    const { homeDirectory, logLine } = deps
    const [project, found] = await Promise.all([
      projectAgents(),
      findAgents({ homeDirectory, plugins: plugins(), isBuiltin: true }),
    ])
    const agents = new Map<string, AgentDefinition>()
    for (const agent of [
      ...(host.settings.current.agent_definitions ?? []),
      ...project.agents,
      ...found.agents,
    ])
      if (!agents.has(agent.name)) agents.set(agent.name, agent)
    const all = [...agents.values()]
    const isBrowsing = (await availableToolNames(deps.browser)).includes('browser_tool_set')
    const needsBrowser = ({ tools }: AgentDefinition) => tools.some((tool) => /^browser_/i.test(tool))
    this.#agents = agents
    this.agents = all.filter(
      (agent) => agentIssue(agent) === undefined && (isBrowsing || !needsBrowser(agent)),
    )
    for (const issue of [...project.issues, ...found.issues, ...all.map(agentIssue)])
      if (issue !== undefined) logLine('warn', 'an agent was skipped', { conversation: parent, issue })
  }

  async run(action: TaskAction, signal: AbortSignal): Promise<TaskResult> {
    const { prompt, resume, subagent_type } = action
    const failed = (text: string, task?: StoredTask): TaskResult => ({
      task_id: task?.id ?? '',
      subagent: task?.subagent ?? subagent_type,
      status: 'error',
      text,
    })
    if (prompt.trim() === '') return failed('The prompt is empty. Say what is to be done.')
    const pauses = this.#pauseCount
    const work = await (resume ? this.#resume(resume) : this.#startTask(action, signal))
    if ('issue' in work) return failed(work.issue)
    const { task, child } = work
    if (this.#running.has(task.id) || child.state.status === 'running')
      return failed('The task is being worked on already. Wait for it.', task)
    try {
      return await this.#runTask(work, { prompt, pauses }, signal)
    } catch (error) {
      // Its conversation was deleted or changed by another caller.
      if (error instanceof Problem) return failed(`The task could not be done. ${error.message}`, task)
      throw error
    }
  }

  /** Pauses all running tasks after their current step and rejects what waits for confirmation there. */
  async pause(): Promise<void> {
    this.#pauseCount++
    await this.#forEachRunning(pauseTask)
  }

  /** Applies a changed confirmation policy or plan mode of the parent. */
  async syncPolicy(): Promise<void> {
    await this.#forEachRunning((work) => this.#syncTaskPolicy(work))
  }

  /** A child that is being deleted or refuses does not stop the others. */
  async #forEachRunning(tell: (work: RunningTask) => Promise<void>): Promise<void> {
    const notifications = [...this.#running.values()].map(async (work) => {
      try {
        await tell(work)
      } catch (error) {
        if (!(error instanceof Problem)) throw error
      }
    })
    await Promise.all(notifications)
  }

  async #startTask(action: TaskAction, signal: AbortSignal): Promise<StartedTask> {
    const { parent, host } = this.#options
    const { prompt, description, subagent_type, max_turns } = action
    // It may have been added since the start.
    if (!this.#agents.has(subagent_type)) await this.load()
    const definition = this.#agents.get(subagent_type)
    if (definition === undefined) {
      const names = this.agents.map(({ name }) => name).join(', ')
      return { issue: `There is no agent '${toSingleLine(subagent_type, 100)}'. Available: ${names}` }
    }
    const made = await taskSettings(await this.#getParent(), definition, max_turns ?? undefined)
    if ('issue' in made) return made
    const number = await this.#nextNumber()
    const task = { id: `task_${String(number).padStart(8, '0')}`, subagent: definition.name }
    const title = toSingleLine(host.redact(description || prompt), titleLength)
    signal.throwIfAborted()
    try {
      return { task, definition, child: await this.#children.create(parent, { task, title, ...made }) }
    } catch (error) {
      if (error instanceof Problem) return { issue: error.message }
      throw error
    }
  }

  async #resume(id: string): Promise<StartedTask> {
    const { parent } = this.#options
    const found = await this.#children.find(parent, id)
    if (found !== undefined) return { ...found, definition: this.#agents.get(found.task.subagent) }
    const known = (await this.#children.list(parent)).map((task) => `${task.id} (${task.subagent})`)
    const list = known.length === 0 ? 'There are none yet.' : `There are: ${known.join(', ')}`
    return { issue: `There is no task '${toSingleLine(id, 100)}'. ${list}` }
  }

  async #getParent(): Promise<TaskParent> {
    const { parent: id, host, hooks, skills, deps } = this.#options
    const { current: settings, policy, analyzer } = host.settings
    const limits = host.remainingLimits()
    const { findProfile } = deps
    return { id, settings, policy, analyzer, limits, hooks: await hooks(), findProfile, skills }
  }

  /** Tasks of one turn start at the same time and still get different numbers. */
  #nextNumber(): Promise<number> {
    const before = this.#lastNumber ?? this.#children.lastTaskNumber(this.#options.parent)
    const next = before.then((number) => number + 1)
    this.#lastNumber = next
    next.catch(() => {
      this.#lastNumber = undefined
    })
    return next
  }

  /** `pauses`: the number of pauses when the task was requested. */
  async #runTask(
    work: RunningTask,
    { prompt, pauses }: { readonly prompt: string; readonly pauses: number },
    signal: AbortSignal,
  ): Promise<TaskResult> {
    const { log, clock } = this.#options.deps
    const { task, child } = work
    const before = child.stats.cost
    let stopping: Promise<void> | undefined
    const stop = () => {
      stopping = stopChild(child)
    }
    // A listener prevents that it is closed while it waits for confirmation.
    const unsubscribe = child.transientUpdates.subscribe(({ kind }) => {
      if (kind === 'stats') this.#reportUsage(work, before)
    })
    this.#running.set(task.id, work)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await this.#syncTaskPolicy(work)
      signal.throwIfAborted()
      await child.send(runRequest(prompt))
      // Stopped before its run began.
      if (signal.aborted) await stopChild(child)
      else if (this.#pauseCount !== pauses) await pauseTask(work)
      const status = await waitForChild(child, { log, clock }, signal)
      signal.throwIfAborted()
      // The reason may have been set during the wait.
      const outcome = await taskOutcome({ child, log, status, reason: work.reason }, signal)
      return { task_id: task.id, subagent: task.subagent, ...outcome }
    } finally {
      signal.removeEventListener('abort', stop)
      await stopping
      unsubscribe()
      this.#running.delete(task.id)
      await this.#options.host.onUsage(task.id, child.stats, true).catch(() => undefined)
    }
  }

  /**
   * Reports usage, and stops a task that is over its budget, or whose siblings have used up the limit of all
   * with it: each began with all that was left then.
   */
  #reportUsage(work: RunningTask, before: number): void {
    const { child, task, definition } = work
    const { host } = this.#options
    void host.onUsage(task.id, child.stats, false).catch(() => undefined)
    if (isTaskDone(child)) return
    const budget = definition?.max_budget_per_run
    if (budget !== undefined && child.stats.cost - before >= budget)
      work.reason = `The task was stopped: it has used its budget of ${budget} dollars.`
    else if (isUsedUp(host.remainingLimits()))
      work.reason = 'The task was stopped: a limit of the conversation that gave it is reached.'
    else return
    void child.pause().catch(() => undefined)
  }

  /** Applies the parent's current policy. */
  async #syncTaskPolicy({ child, definition }: RunningTask): Promise<void> {
    const { policy, analyzer } = taskPolicy(this.#options.host.settings, definition?.permission_mode)
    if (!isJsonEqual(policy, child.policy)) await child.setPolicy(policy)
    if (!isJsonEqual(analyzer, child.analyzer)) await child.setAnalyzer(analyzer)
    const { isPlanning } = this.#options.host.settings
    if (isPlanning !== child.isPlanning) await child.setPlanMode(isPlanning)
  }
}

async function pauseTask(work: RunningTask): Promise<void> {
  const { child } = work
  work.reason = pausedText
  if (child.state.status === 'waiting_for_confirmation')
    await child.resolveConfirmation({ accept: false, reason: pausedText })
  await child.pause()
}

/** What is left is never below the smallest limit. */
function isUsedUp(left: UsageLimits | undefined): boolean {
  const { cost, tokens } = left ?? {}
  return (cost ?? 1) <= smallestCost || (tokens ?? 2) <= smallestCount
}

function isJsonEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}
