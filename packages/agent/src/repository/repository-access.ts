import { realpath } from 'node:fs/promises'
import type { CommandRule, HookConfig, RepositoryCodeItem } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { FoundAgents } from '../agents/find-agents.ts'
import { loadHooks } from '../conversation/hooks/config.ts'
import { type RepositoryCode, readRepositoryCode } from './repository-code.ts'

/**
 * `trusted`: no consent is needed. `pending`: the run waits. `skipped`: without a decision it goes on
 * without.
 */
export type RepositoryVerdict = 'trusted' | 'allowed' | 'denied' | 'pending' | 'skipped'

/** Who decides whether what a repository brings may run. */
export interface RepositoryConsents {
  /** The decision for exactly this content, and the id under which it can be changed. */
  check(code: RepositoryCode): Promise<{ readonly id: string; readonly verdict: RepositoryVerdict }>
}

/** The value of the state update with the key `repository_consent`. */
export interface RepositoryNotice {
  readonly id: string
  readonly decision: Exclude<RepositoryVerdict, 'trusted'>
  readonly repository: string
  readonly items: readonly RepositoryCodeItem[]
}

interface RepositoryAccessOptions {
  /** The real path of the workspace. */
  readonly directory: string
  readonly homeDirectory: string | undefined
  /** Without it nothing of a repository runs. */
  readonly consents: RepositoryConsents | undefined
  /** The conversation may wait for a decision; otherwise it goes on without what is undecided. */
  readonly mayWait: boolean
  readonly usesHooks: boolean
  readonly usesAgents: boolean
}

/** What the repository of a conversation brings, as far as it may run. */
export class RepositoryAccess {
  /** What the log says; undefined when nothing needed consent that the conversation uses. */
  readonly notice: RepositoryNotice | undefined
  /** Of the repository if they may run, else those of the home directory. */
  readonly hooks: HookConfig | undefined
  /** Of the repository, if they may be used. */
  readonly commandRules: readonly CommandRule[]
  readonly issues: readonly string[]
  readonly #options: RepositoryAccessOptions

  private constructor(
    options: RepositoryAccessOptions,
    found: {
      readonly notice: RepositoryNotice | undefined
      readonly hooks: HookConfig | undefined
      readonly commandRules: readonly CommandRule[]
      readonly issues: readonly string[]
    },
  ) {
    this.#options = options
    this.notice = found.notice
    this.hooks = found.hooks
    this.commandRules = found.commandRules
    this.issues = found.issues
  }

  static async open(options: RepositoryAccessOptions): Promise<RepositoryAccess> {
    const { homeDirectory, usesHooks } = options
    const { code, id, verdict } = await checkCode(options)
    const { repository, items } = code
    const notice = verdict === 'trusted' ? undefined : { id, decision: verdict, repository, items }
    const commandRules = mayRun(verdict) ? code.rules.rules : []
    const ruleIssues = code.rules.issues
    if (!usesHooks)
      return new RepositoryAccess(options, { notice, hooks: undefined, commandRules, issues: ruleIssues })
    const own = mayRun(verdict) ? code.hooks.config : undefined
    const home = own === undefined && homeDirectory !== undefined ? await loadHooks(homeDirectory) : undefined
    const issues = [...code.hooks.issues, ...ruleIssues, ...(home?.issues ?? [])]
    return new RepositoryAccess(options, { notice, hooks: own ?? home?.config, commandRules, issues })
  }

  get isPending(): boolean {
    return this.notice?.decision === 'pending'
  }

  /** Whether the answer has changed. Only a conversation that waits asks again. */
  async hasNewVerdict(): Promise<boolean> {
    return this.isPending && (await checkCode(this.#options)).verdict !== 'pending'
  }

  /** The agents of the repository as they are now, if these may run. */
  async agents(): Promise<FoundAgents> {
    const { code, verdict } = await checkCode(this.#options)
    return mayRun(verdict) ? code.agents : { agents: [], issues: code.agents.issues }
  }
}

/** The state update that tells of a decision. */
export function noticeEvent(notice: RepositoryNotice): EventDraft {
  return {
    kind: 'ConversationStateUpdateEvent',
    source: 'environment',
    key: 'repository_consent',
    value: notice,
  }
}

function mayRun(verdict: RepositoryVerdict): boolean {
  return verdict === 'trusted' || verdict === 'allowed'
}

async function checkCode(options: RepositoryAccessOptions) {
  const { directory, homeDirectory, consents, mayWait, usesHooks, usesAgents } = options
  const code = await readRepositoryCode(directory)
  const isUsed =
    (usesHooks && code.hooks.config !== undefined) ||
    (usesAgents && code.agents.agents.length > 0) ||
    code.rules.rules.length > 0
  const isHome =
    homeDirectory !== undefined && (await realpath(homeDirectory).catch(() => undefined)) === directory
  // The home directory is the user's own.
  if (!isUsed || isHome || code.items.length === 0) return { code, id: '', verdict: 'trusted' as const }
  const { id, verdict } = (await consents?.check(code)) ?? { id: '', verdict: 'skipped' as const }
  return { code, id, verdict: verdict === 'pending' && !mayWait ? ('skipped' as const) : verdict }
}
