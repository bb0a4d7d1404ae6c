import type { Action, Observation, ToolDefinition } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import type { TaskExecutor } from './task-executor.ts'

/** What a tool works with; one of these for each open conversation. */
export interface ToolContext {
  readonly workspace: Workspace
  readonly secrets: Secrets
  /** Absolute, of this conversation alone, outside the workspace: tools keep what is theirs here. The agent may read below it. */
  readonly directory: string
  /** Other agents that can be given tasks, where there are any. */
  readonly tasks?: TaskExecutor
}

export type ToolAction<K extends Action['kind']> = Extract<Action, { kind: K }>

/**
 * A tool of one conversation. What can go wrong in the world is an observation with `is_error`; what it throws becomes an
 * AgentErrorEvent "Error executing tool '<name>': <message>", and its call is answered all the same.
 */
export interface Tool<A extends Action = Action> {
  /** The name that the model calls it by. */
  readonly name: string
  /** As SystemPromptEvent lists it; its `description` is what the model reads. */
  readonly definition: ToolDefinition
  /** JSON Schema of the arguments for the model, without `security_risk` and `summary`. */
  readonly parameters: Record<string, unknown>
  /** Reads arguments that parsed as JSON: the action, or what is wrong with them in a sentence for the model. */
  parse(args: Record<string, unknown>): { readonly action: A } | { readonly error: string }
  /** Keys of what the action touches: actions that share one run one after another. None: runs beside anything. */
  resources(action: A): readonly string[]
  /** Aborted: stop at once (kill processes) and answer or throw, whatever; nobody reads it. */
  run(action: A, signal: AbortSignal): Promise<Observation>
  /** Ends what the tool holds open. */
  close?(): Promise<void>
}

/** Opens the tools that a registry name stands for (`browser_tool_set` stands for many). Heavy libraries load on first use. */
export type ToolFactory = (
  context: ToolContext,
  params: Readonly<Record<string, unknown>>,
) => readonly Tool[] | Promise<readonly Tool[]>

/** A TextContent of the wire. */
export function textBlock(value: string): { cache_prompt: false; type: 'text'; text: string } {
  return { cache_prompt: false, type: 'text', text: value }
}
