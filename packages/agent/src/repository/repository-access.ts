import { realpath } from 'node:fs/promises'
import type { CommandRule, HookConfig, RepositoryCodeItem } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { FoundAgents } from '../agents/find-agents.ts'
import { mergeHookConfigs } from '../plugins/extensions.ts'
import { loadHooks } from './hooks-file.ts'
import { hooksFile, type RepositoryCode, readHooksHash, readRepositoryCode } from './repository-code.ts'

/**
 * `trusted`: no consent is needed. `pending`: the run waits. `skipped`: without a decision it continues
 * without.
 */
export type RepositoryVerdict = 'trusted' | 'allowed' | 'denied' | 'pending' | 'skipped'

/** Who decides whether what a repository brings may run. */
export interface RepositoryConsents {
  /** The decision for exactly this content, and the id under which it can be changed. */
  check(code: RepositoryCode): Promise<{ readonly id: string; readonly verdict: RepositoryVerdict }>
}

/** The value of the state update with the key `repository_consent`. */
interface RepositoryNotice {
  readonly id: string
  readonly decision: Exclude<RepositoryVerdict, 'trusted'>
  readonly repository: string
  readonly items: readonly RepositoryCodeItem[]
  /** The conversation has hooks of the repository, or had them and waits because they have changed. */
  readonly has_hooks?: true
}

interface RepositoryAccessOptions {
  /** The real path of the workspace. */
  readonly directory: string
  readonly homeDirectory: string | undefined
  /** Without it nothing of a repository runs. */
  readonly consents: RepositoryConsents | undefined
  /** The conversation may wait for a decision; otherwise it continues without what is undecided. */
  readonly mayWait: boolean
  readonly usesHooks: boolean
  readonly usesAgents: boolean
  /** `has_hooks` of the last notice: without a decision it waits, also when hooks are gone. */
  readonly hadHooks?: boolean
}

/** What the repository of a conversation brings, as far as it may run. */
export class RepositoryAccess {
  /** What the log says; undefined when nothing needed consent that the conversation uses. */
  readonly notice: RepositoryNotice | undefined
  /** Those of the home directory, then those of the repository if they may run. */
  readonly hooks: HookConfig | undefined
  /** Of the repository, if they may be used. */
  readonly commandRules: readonly CommandRule[]
  readonly issues: readonly string[]
  readonly #options: RepositoryAccessOptions
  /** Of the hooks that were consented to. */
  readonly #hooksHash: string | undefined

  private constructor(
    options: RepositoryAccessOptions,
    found: {
      readonly notice: RepositoryNotice | undefined
      readonly hooks: HookConfig | undefined
      readonly hooksHash?: string | undefined
      readonly commandRules: readonly CommandRule[]
      readonly issues: readonly string[]
    },
  ) {
    this.#options = options
    this.notice = found.notice
    this.hooks = found.hooks
    this.#hooksHash = found.hooksHash
    this.commandRules = found.commandRules
    this.issues = found.issues
  }

  static async open(options: RepositoryAccessOptions): Promise<RepositoryAccess> {
    const { homeDirectory, usesHooks } = options
    const { code, id, verdict } = await checkCode(options)
    const { repository, items } = code
    const hasHooks = usesHooks && code.hooks.config !== undefined && verdict === 'allowed'
    const isWaiting = options.hadHooks === true && verdict === 'pending'
    const notice =
      verdict === 'trusted'
        ? undefined
        : {
            id,
            decision: verdict,
            repository,
            items,
            ...(hasHooks || isWaiting ? { has_hooks: true as const } : {}),
          }
    const commandRules = mayRun(verdict) ? code.rules.rules : []
    const ruleIssues = code.rules.issues
    if (!usesHooks)
      return new RepositoryAccess(options, { notice, hooks: undefined, commandRules, issues: ruleIssues })
    const own = mayRun(verdict) ? code.hooks.config : undefined
    const isHome = homeDirectory !== undefined && (await isSame(homeDirectory, options.directory))
    const home = homeDirectory !== undefined && !isHome ? await loadHooks(homeDirectory) : undefined
    const issues = [...code.hooks.issues, ...ruleIssues, ...(home?.issues ?? [])]
    const hooks = mergeHookConfigs([home?.config, own])
    const hooksHash = verdict === 'allowed' ? code.hooksHash : undefined
    return new RepositoryAccess(options, { notice, hooks, hooksHash, commandRules, issues })
  }

  get isPending(): boolean {
    return this.notice?.decision === 'pending'
  }

  /** Whether the answer has changed, or hooks that were consented to have. */
  async hasNewVerdict(): Promise<boolean> {
    if (!this.isPending) return await this.haveHooksChanged()
    const { id, verdict } = await checkCode(this.#options)
    return verdict !== 'pending' || id !== this.notice?.id
  }

  /** Whether the hooks that were consented to, or a file that they name, are no longer what they were. */
  async haveHooksChanged(): Promise<boolean> {
    return this.#hooksHash !== undefined && (await readHooksHash(this.#options.directory)) !== this.#hooksHash
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

const removedHooks: RepositoryCodeItem = { kind: 'hook', path: hooksFile, name: 'removed', command: null }

function mayRun(verdict: RepositoryVerdict): boolean {
  return verdict === 'trusted' || verdict === 'allowed'
}

async function isSame(directory: string, real: string): Promise<boolean> {
  return (await realpath(directory).catch(() => undefined)) === real
}

async function checkCode(options: RepositoryAccessOptions) {
  const { directory, homeDirectory, consents, mayWait, usesHooks, usesAgents, hadHooks = false } = options
  const found = await readRepositoryCode(directory)
  const isGone = usesHooks && hadHooks && found.hooks.config === undefined
  const code = isGone ? { ...found, items: [removedHooks, ...found.items] } : found
  const isUsed =
    isGone ||
    (usesHooks && code.hooks.config !== undefined) ||
    (usesAgents && code.agents.agents.length > 0) ||
    code.rules.rules.length > 0
  const isHome = homeDirectory !== undefined && (await isSame(homeDirectory, directory))
  // The home directory is the user's own.
  if (!isUsed || isHome || code.items.length === 0) return { code, id: '', verdict: 'trusted' as const }
  const { id, verdict } = (await consents?.check(code)) ?? { id: '', verdict: 'skipped' as const }
  // What a conversation runs under must not go away because the agent has changed a file.
  if (verdict === 'skipped' && hadHooks && mayWait) return { code, id, verdict: 'pending' as const }
  return { code, id, verdict: verdict === 'pending' && !mayWait ? ('skipped' as const) : verdict }
}
