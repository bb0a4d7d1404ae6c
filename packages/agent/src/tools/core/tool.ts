import type { Action, Observation, ToolDefinition } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import type { LanguageServers } from '../lsp/language-servers.ts'
import type { BrowserSearch } from './find-browser.ts'
import type { McpOAuthStates } from './mcp-oauth-states.ts'
import type { ModelRouter } from './model-router.ts'
import type { AskUser } from './server-question.ts'
import type { TaskExecutor } from './task-executor.ts'

/** Dependencies of a tool; one for each open conversation. */
export interface ToolContext {
  readonly workspace: Workspace
  readonly secrets: Secrets
  /**
   * Absolute; the conversation's own directory, outside the workspace, where tools store files. The agent may
   * read it.
   */
  readonly directory: string
  /** Find errors after edits, where they are installed and wanted. */
  readonly languageServers?: LanguageServers | undefined
  /** Keeps the tokens of sign-ins to MCP servers; without it they are renewed for each connection. */
  readonly mcpOAuth?: McpOAuthStates | undefined
  /** Default: the usual places and the PATH of the workspace. */
  readonly browser?: BrowserSearch | undefined
  /** Runs tasks of other agents, if any exist. */
  readonly tasks?: TaskExecutor | undefined
  /** The text of a skill of the conversation by its name, or why there is none. */
  readonly readSkill?: (name: string) => { readonly text: string } | { readonly issue: string }
  /** Asks the user for what an MCP server wants to know; undefined where no one can answer. */
  readonly askUser?: AskUser | undefined
  /** Chooses and switches models, in conversations. */
  readonly router?: ModelRouter
}

export type ToolAction<K extends Action['kind']> = Extract<Action, { kind: K }>

export interface ToolRunOptions {
  /** The user has allowed that it runs outside of the sandbox for commands. */
  readonly isOutside?: boolean
  /** An edit is for every place of its old text. */
  readonly replacesAll?: boolean
  /** A page is read when it shows this text. */
  readonly awaitedText?: string | undefined
}

/**
 * A tool of one conversation. Expected failures are observations with `is_error`; a thrown error becomes an
 * AgentErrorEvent "Error executing tool '<name>': <message>".
 */
export interface Tool<A extends Action = Action> {
  /** The name for the model. */
  readonly name: string
  /** As in SystemPromptEvent; the model reads its `description`. */
  readonly definition: ToolDefinition
  /** JSON Schema of the arguments for the model, without `security_risk` and `summary`. */
  readonly parameters: Record<string, unknown>
  /** Validates parsed JSON arguments; the error is a sentence for the model. */
  parse(args: Record<string, unknown>): { readonly action: A } | { readonly error: string }
  /**
   * Keys of the resources of an action: actions that share one run one after another, all others
   * concurrently.
   */
  resources(action: A): readonly string[]
  /** When aborted, stops at once (kills processes); its result is ignored then. */
  run(action: A, signal: AbortSignal, options?: ToolRunOptions): Promise<Observation>
  /** Something that it has started continues between its calls. */
  isOccupied?(): Promise<boolean>
  /** Releases the tool's resources. */
  close?(): Promise<void>
}

/** Opens the tools of a registry name (`browser_tool_set` has many). Large libraries load on first use. */
export type ToolFactory = (
  context: ToolContext,
  params: Readonly<Record<string, unknown>>,
) => Tool | readonly Tool[] | Promise<Tool | readonly Tool[]>

/** A TextContent of the wire. */
export function textBlock(value: string): { cache_prompt: false; type: 'text'; text: string } {
  return { cache_prompt: false, type: 'text', text: value }
}
