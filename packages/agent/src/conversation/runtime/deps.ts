import { type CommandRule, type CommandSandbox, type Llm, type MetaProfile, Problem } from '@slipway/protocol'
import type { AppendOptions, Snapshot } from '@slipway/storage'
import type { CredentialSource } from '../../acp/credentials.ts'
import type { OpenModel } from '../../llm/model.ts'
import type { ExtensionProvider } from '../../plugins/extensions.ts'
import type { RepositoryConsents } from '../../repository/repository-access.ts'
import type { McpOAuthStates } from '../../tools/core/mcp-oauth-states.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import type { TaskDeps } from '../tasks/task-runner.ts'
import type { RunMonitor } from './instrumentation.ts'

/** Permissions to run; the returned functions give them back. */
export interface RunSlots {
  /** A request to run waits for its turn; otherwise it is refused when no slot is free. */
  readonly isQueued: boolean
  /** Undefined when none is free. */
  tryAcquire(): (() => void) | undefined
  /** Waits for one; on abort it resolves without one. */
  acquire(signal: AbortSignal): Promise<() => void>
}

/** A slot that is reserved for a run, given back by a call; `none` when the run gets one on its own. */
export type RunSlot = 'none' | (() => void)

const runLimitText = 'Conversation run limit reached. Retry the request later.'

/** No run slot is free. */
export function runLimitProblem(detail = runLimitText): Problem {
  return new Problem('too_many', detail)
}

/** Everything outside of a conversation that it uses. */
export interface ConversationDeps extends TaskDeps {
  readonly openModel: OpenModel
  /** The environment of tools and hooks; they see no other variables of the server. */
  readonly environment: Readonly<Record<string, string>>
  /** Holds one private directory for each conversation: outputs, lists, recordings. */
  readonly directory: string
  /** The server's own keys, redacted in every conversation. */
  readonly redactedValues?: readonly string[]
  /**
   * The server itself: its data directories, real paths, and its port once it listens. Tools must not reach
   * it. `isHidden`: programs of tools do not see the directories, where bubblewrap works, except `worktrees`:
   * git would take those that it does not see for removed.
   */
  readonly server?: {
    readonly directories: readonly string[]
    readonly isHidden?: boolean
    readonly worktrees?: readonly string[]
    port(): number | undefined
  }
  /** Rules for commands in all conversations. */
  readonly commandRules?: readonly CommandRule[]
  /** Of conversations that name none; default: off. */
  readonly commandSandbox?: CommandSandbox
  /** Limit the tools' file access to the workspace. */
  readonly isConfined: boolean
  /** The value of a secret of the server itself, by its address without a host. */
  readonly resolveServerSecret?: ((url: string) => Promise<string | undefined>) | undefined
  /** Fetches LookupSecrets; `fetch` unless given. */
  readonly lookupFetch?: typeof fetch | undefined
  /** The saved meta-profile of a name. */
  readonly findMetaProfile?: ((name: string) => Promise<MetaProfile | undefined>) | undefined
  /** Ask installed language servers for the errors that an edit has brought. */
  readonly hasLanguageServers?: boolean
  /** Store the files of the workspace before each step; needs git. */
  readonly hasCheckpoints?: boolean
  /** Default deadline for a confirmation, in milliseconds; undefined: none. A policy may set its own. */
  readonly confirmationDeadlineMs?: number | undefined
  /** Keeps the tokens of sign-ins to MCP servers. */
  readonly mcpOAuth?: McpOAuthStates | undefined
  /** Where a credential of a conversation's external agent lives, instead of in its secrets. */
  readonly findCredential?: ((conversation: string, name: string) => CredentialSource | undefined) | undefined
  readonly monitor?: RunMonitor | undefined
  /** The limit of concurrent runs; without it there is none. */
  readonly runSlots?: RunSlots | undefined
  /**
   * Called for a run that ended because the storage cannot be used at the moment: it keeps its status, and
   * continues when the conversation is opened again. Without it the run ends with an error in the log.
   */
  readonly onRunAbandoned?: ((conversation: string) => void) | undefined
  /** Source of plugins; without it a conversation has none. */
  readonly extensions?: ExtensionProvider | undefined
  /** Decides whether hooks and agents of a repository may run; without it none does. */
  readonly repositoryConsents?: RepositoryConsents | undefined
}

/** The data of a conversation beside its log. */
export interface ConversationStore {
  /** The conversation state as it was last saved, if any. */
  readonly snapshot: Snapshot | null
  /** JSON text of the usage statistics. */
  readonly stats: string | null
  saveSnapshot(snapshot: Snapshot): Promise<void>
  /** The settings in the form that the conversation's record stores. */
  seal(settings: ResolvedSettings): Pick<NonNullable<AppendOptions['record']>, 'request' | 'sealed'>
  /** Undefined when the conversation cannot have a title. */
  readonly title?: {
    isMissing(): Promise<boolean>
    /** Does nothing when there is a title already. */
    set(title: string): Promise<void>
    /** The model for titles, when it is not the agent's own. */
    model(): Promise<Llm | undefined>
  }
}
