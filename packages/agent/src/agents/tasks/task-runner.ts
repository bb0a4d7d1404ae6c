import { type AgentDefinition, type Log, Problem, type TaskAction } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import type { Stats } from '../../conversation/state/usage-stats.ts'
import { oneLine } from '../../skills/skill.ts'
import type { TaskResult, Tasks } from '../../tools/core/task-executor.ts'
import { text } from '../../tools/core/tool.ts'
import { findAgents } from '../find-agents.ts'
import type { Child, Children, KeptTask } from './child-conversations.ts'
import { isDone, outcomeOf, rested, stopNow } from './outcome.ts'
import { taskPolicy } from './policy.ts'
import { faultOf, type Giver, taskSettings } from './settings.ts'

const paused = 'The task was paused with this conversation before it was done.'
const titleLength = 100

export interface GivenTasksParts {
  /** Id of the conversation that gives the tasks. */
  readonly parent: string
  readonly children: Children
  readonly log: EventLog
  readonly logLine: Log
  /** What the request brought: these go before files of the same name. */
  readonly definitions: readonly AgentDefinition[]
  /** The workspace, and where the agents of the user are. */
  readonly directory: string
  readonly home: string | undefined
  /** The folders of the plugins that are loaded now. */
  plugins(): readonly string[]
  /** Registry names of the tools that work on this machine. */
  usableTools(): Promise<readonly string[]>
  /** The parent as it is now. */
  giver(): Promise<Giver>
  mask(text: string): string
  /** What a task has used so far, all in all; `isOver` when nothing more comes for now. */
  used(task: string, stats: Stats, isOver: boolean): Promise<void>
}

/** A task and who does it. */
interface Work {
  readonly task: KeptTask
  readonly child: Child
  /** Undefined when the agent of a task that is gone on with is not there any more. */
  readonly definition: AgentDefinition | undefined
  /** Why it was told to stop. */
  reason?: string
}

type Begun = Work | { readonly fault: string }

/**
 * The tasks that one conversation gives to other agents. Each is a conversation of its own, a child, which works beside its
 * parent in the same workspace and stops with it: an interruption interrupts it, a pause pauses it, and what it is about to do
 * then does not happen later on its own. After a crash the parent's call is answered like any that was interrupted, the child is
 * paused, and its task can be gone on with.
 */
export class GivenTasks implements Tasks {
  readonly #parts: GivenTasksParts
  readonly #running = new Map<string, Work>()
  #agents: ReadonlyMap<string, AgentDefinition> = new Map()
  #told: readonly AgentDefinition[] = []
  #last: Promise<number> | undefined
  /** How often it was told to pause. */
  #pauses = 0

  constructor(parts: GivenTasksParts) {
    this.#parts = parts
  }

  /** The agents that the model is told of: those that can work here. */
  get agents(): readonly AgentDefinition[] {
    return this.#told
  }

  /** Looks for the agents, also when it has looked before. */
  async load(): Promise<void> {
    const { definitions, directory, home, plugins, logLine, parent, usableTools } = this.#parts
    const found = await findAgents({ project: directory, home, plugins: plugins(), isBuiltin: true })
    const agents = new Map<string, AgentDefinition>()
    for (const agent of [...definitions, ...found.agents])
      if (!agents.has(agent.name)) agents.set(agent.name, agent)
    const all = [...agents.values()]
    const isBrowsing = (await usableTools()).includes('browser_tool_set')
    const needsBrowser = ({ tools }: AgentDefinition) => tools.some((tool) => /^browser_/i.test(tool))
    this.#agents = agents
    this.#told = all.filter((agent) => faultOf(agent) === undefined && (isBrowsing || !needsBrowser(agent)))
    for (const fault of [...found.faults, ...all.map(faultOf)])
      if (fault !== undefined) logLine('warn', 'an agent was passed over', { conversation: parent, fault })
  }

  async run(action: TaskAction, signal: AbortSignal): Promise<TaskResult> {
    const { prompt, resume, subagent_type } = action
    const failed = (text: string, task?: KeptTask): TaskResult => ({
      task_id: task?.id ?? '',
      subagent: task?.subagent ?? subagent_type,
      status: 'error',
      text,
    })
    if (prompt.trim() === '') return failed('The prompt is empty. Say what is to be done.')
    const pauses = this.#pauses
    const work = await (resume ? this.#resume(resume) : this.#begin(action, signal))
    if ('fault' in work) return failed(work.fault)
    const { task, child } = work
    if (this.#running.has(task.id) || child.state.status === 'running')
      return failed('The task is being worked on already. Wait for it.', task)
    try {
      return await this.#work(work, { prompt, pauses }, signal)
    } catch (error) {
      // Somebody deleted its conversation, or did something there that does not go together with this.
      if (error instanceof Problem) return failed(`The task could not be done. ${error.message}`, task)
      throw error
    }
  }

  /** Lets every task that is under way stop after the step that it is at; what waits for confirmation there is rejected. */
  async pause(): Promise<void> {
    this.#pauses++
    await this.#each(pauseOne)
  }

  /** The parent asks for confirmation in another way from now on, and so does who works for it. */
  async follow(): Promise<void> {
    await this.#each((work) => this.#align(work))
  }

  /** A child that somebody is deleting, or that cannot now, keeps nobody from telling the others. */
  async #each(tell: (work: Work) => Promise<void>): Promise<void> {
    const told = [...this.#running.values()].map(async (work) => {
      try {
        await tell(work)
      } catch (error) {
        if (!(error instanceof Problem)) throw error
      }
    })
    await Promise.all(told)
  }

  async #begin(action: TaskAction, signal: AbortSignal): Promise<Begun> {
    const { parent, children, giver, mask } = this.#parts
    const { prompt, description, subagent_type, max_turns } = action
    // One that was not there at the beginning may have come in the meantime.
    if (!this.#agents.has(subagent_type)) await this.load()
    const definition = this.#agents.get(subagent_type)
    if (definition === undefined) {
      const names = this.#told.map(({ name }) => name).join(', ')
      return { fault: `There is no agent '${oneLine(subagent_type, 100)}'. Available: ${names}` }
    }
    const made = await taskSettings(await giver(), definition, max_turns ?? undefined)
    if ('fault' in made) return made
    const number = await this.#next()
    const task = { id: `task_${String(number).padStart(8, '0')}`, subagent: definition.name }
    const title = oneLine(mask(description || prompt), titleLength)
    signal.throwIfAborted()
    try {
      return { task, definition, child: await children.create(parent, { task, title, ...made }) }
    } catch (error) {
      if (error instanceof Problem) return { fault: error.message }
      throw error
    }
  }

  async #resume(id: string): Promise<Begun> {
    const { parent, children } = this.#parts
    const found = await children.find(parent, id)
    if (found !== undefined) return { ...found, definition: this.#agents.get(found.task.subagent) }
    const known = (await children.list(parent)).map((task) => `${task.id} (${task.subagent})`)
    const list = known.length === 0 ? 'There are none yet.' : `There are: ${known.join(', ')}`
    return { fault: `There is no task '${oneLine(id, 100)}'. ${list}` }
  }

  /** Tasks of one answer begin at the same moment: each has a number of its own all the same. */
  #next(): Promise<number> {
    const { parent, children } = this.#parts
    const before = this.#last ?? children.last(parent)
    const next = before.then((number) => number + 1)
    this.#last = next
    next.catch(() => {
      this.#last = undefined
    })
    return next
  }

  /** `pauses`: how many there had been when it was asked for. */
  async #work(
    work: Work,
    { prompt, pauses }: { readonly prompt: string; readonly pauses: number },
    signal: AbortSignal,
  ): Promise<TaskResult> {
    const { task, child } = work
    const before = child.stats.cost
    let stopping: Promise<void> | undefined
    const stop = () => {
      stopping = stopNow(child)
    }
    // Being heard, it is not closed while it waits for somebody.
    const deaf = child.hints.listen(({ kind }) => {
      if (kind === 'stats') this.#count(work, before)
    })
    this.#running.set(task.id, work)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await this.#align(work)
      signal.throwIfAborted()
      await child.send(messageOf(prompt))
      // Told to stop on the way here: the run began after that.
      if (signal.aborted) await stopNow(child)
      else if (this.#pauses !== pauses) await pauseOne(work)
      return { task_id: task.id, subagent: task.subagent, ...(await this.#outcome(work, signal)) }
    } finally {
      signal.removeEventListener('abort', stop)
      await stopping
      deaf()
      this.#running.delete(task.id)
      await this.#parts.used(task.id, child.stats, true).catch(() => undefined)
    }
  }

  async #outcome(work: Work, signal: AbortSignal) {
    const { log } = this.#parts
    const { child } = work
    const status = await rested(child, log, signal)
    signal.throwIfAborted()
    // The reason may have come while it was waited for.
    return await outcomeOf({ child, log, status, reason: work.reason }, signal)
  }

  /** Tells what was used, and stops a task that has used more than it may. */
  #count(work: Work, before: number): void {
    const { child, task, definition } = work
    void this.#parts.used(task.id, child.stats, false).catch(() => undefined)
    const budget = definition?.max_budget_per_run
    if (budget === undefined || child.stats.cost - before < budget || isDone(child)) return
    work.reason = `The task was stopped: it has used its budget of ${budget} dollars.`
    void child.pause().catch(() => undefined)
  }

  /** Asks as the parent asks now. */
  async #align({ child, definition }: Work): Promise<void> {
    const { policy, analyzer } = taskPolicy(await this.#parts.giver(), definition?.permission_mode)
    if (!isSame(policy, child.policy)) await child.setPolicy(policy)
    if (!isSame(analyzer, child.analyzer)) await child.setAnalyzer(analyzer)
  }
}

async function pauseOne(work: Work): Promise<void> {
  const { child } = work
  work.reason = paused
  if (child.state.status === 'waiting_for_confirmation')
    await child.respond({ accept: false, reason: paused })
  await child.pause()
}

function messageOf(prompt: string): Parameters<Child['send']>[0] {
  return {
    role: 'user',
    content: [text(prompt)],
    run: true,
    sender: undefined,
    extended_content: undefined,
  }
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}
