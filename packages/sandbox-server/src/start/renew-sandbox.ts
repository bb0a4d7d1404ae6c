/**
 * Tells a sandbox again what starts told it, whenever its agent server begins to answer: after a resume, and
 * after a restart that the control plane did not make.
 *
 * Problem: a start sets the git identity and gives conversations the token of their Git provider. While the
 * sandbox stood still the user may have changed both, and an agent server that came back may have lost what
 * it had. It shows when a push fails.
 *
 * Idea: it is a step before RUNNING, so a kill of this server repeats it, and no client meets a sandbox that
 * has not been told. The agent server gets its own settings (key, webhooks) before, by its environment or by
 * `sendInit`.
 *
 * Invariants:
 * - It may be repeated at any time and changes nothing that something else set in the sandbox: an identity is
 *   replaced when it is the one that was given last, a secret when its description is that of a token.
 * - A sandbox without conversations was given nothing, and is not asked.
 * - A failure does not keep a sandbox from running: it becomes the detail of its row.
 */

import { isRecord, ownMember } from '@slipway/shared/json'
import { outputForms, Redactor, redactedText } from '@slipway/shared/redaction'
import type { AppConversationRow, SandboxRow } from '@slipway/storage/control-plane'
import type { GitProviders } from '../accounts/git-providers.ts'
import { defaultProvider } from '../accounts/git-repository.ts'
import type { UserSettingsStore } from '../accounts/settings.ts'
import type { ConversationContext } from '../conversations/records/conversation-context.ts'
import { parseUuid, toHexId } from '../conversations/records/conversation-ids.ts'
import { parseMetadata } from '../conversations/records/conversation-info.ts'
import type { AgentTarget } from '../network/agent-target.ts'
import { execCommand } from '../sandboxes/sandbox-exec.ts'
import { findGitToken, gitTokenDescription, gitTokenVariable } from './git-token.ts'
import { describeOutput, renewGitCommand } from './prepare-workspace.ts'

const commandMs = 5_000
const totalMs = 10_000
/** Limit of agent servers. */
const maxIdsPerRequest = 99

export interface RenewalDeps extends Pick<ConversationContext, 'controlPlane' | 'storage' | 'clock' | 'log'> {
  readonly accounts: {
    readonly userSettings: Pick<UserSettingsStore, 'read'>
    readonly gitProviders: Pick<GitProviders, 'getToken'>
  }
}

/** Returns what its owner should know; undefined when all is as it was. */
export async function renewSandbox(
  deps: RenewalDeps,
  sandbox: SandboxRow,
  target: AgentTarget,
  outerSignal: AbortSignal,
): Promise<string | undefined> {
  const rows = await deps.controlPlane.conversations.listBySandbox(sandbox.id)
  if (rows.length === 0) return undefined
  const signal = AbortSignal.any([outerSignal, deps.clock.timeout(totalMs)])
  const redactor = new Redactor({ mark: redactedText, forms: outputForms })
  redactor.add(target.key)
  const tasks = [
    renewGit(deps, sandbox, rows, target, signal),
    renewConversations({ ...deps, redactor }, rows, target, signal),
  ]
  const outcomes = await Promise.allSettled(tasks)
  outerSignal.throwIfAborted()
  const notes = outcomes.map((outcome) => {
    if (outcome.status === 'fulfilled') return outcome.value
    deps.log('warn', 'a sandbox was not told its settings again', {
      sandbox: sandbox.id,
      error: redactor.redact(String(outcome.reason)),
    })
    return 'It could not be told its settings again.'
  })
  return [...new Set(notes.filter((note) => note !== undefined))].join(' ') || undefined
}

async function renewGit(
  { accounts, clock }: RenewalDeps,
  { owner }: SandboxRow,
  rows: readonly AppConversationRow[],
  target: AgentTarget,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { git_user_name: name, git_user_email: email } = await accounts.userSettings.read(owner)
  const projects = rows.map((row) => parseMetadata(row).projectDir).filter((path) => path !== undefined)
  const command = renewGitCommand({ name, email }, [...new Set(projects)])
  const result = await execCommand(target, command, { timeoutMs: commandMs, clock, signal })
  return result.exitCode === 0 ? undefined : `Its git identity could not be set: ${describeOutput(result)}`
}

/** Gives conversations the current token of their provider, and finds those that are gone. */
async function renewConversations(
  deps: RenewalDeps & { readonly redactor: Redactor },
  rows: readonly AppConversationRow[],
  { client }: AgentTarget,
  signal: AbortSignal,
): Promise<string | undefined> {
  const failures: unknown[] = []
  const found = new Map<string, unknown>()
  const ids = rows.map(({ id }) => toHexId(id))
  for (let at = 0; at < ids.length; at += maxIdsPerRequest) {
    const query = { ids: ids.slice(at, at + maxIdsPerRequest) }
    for (const info of await client.call('getConversations', { query, signal }))
      if (info !== null) found.set(parseUuid(info.id) ?? '', info.secret_registry)
  }
  for (const row of rows) {
    const { selected_repository, git_provider } = parseMetadata(row)
    const name = gitTokenVariable(git_provider ?? defaultProvider)
    if (describedAs(found.get(row.id), name) !== gitTokenDescription) continue
    const token = await findGitToken(deps.accounts, row.owner, { selected_repository, git_provider })
    if (token === undefined) continue
    // An agent server may repeat it in an error.
    deps.redactor.add(token.token)
    const value = token.token.reveal()
    const secret = { kind: 'StaticSecret' as const, value, description: gitTokenDescription }
    const params = { conversation_id: row.id }
    await client
      .call('updateSecrets', { params, body: { secrets: { [name]: secret } }, signal })
      .catch((error: unknown) => void failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
  const lost = await findLost(deps, rows, found)
  if (lost.length === 0) return undefined
  deps.log('warn', 'an agent server has lost conversations', { conversations: lost })
  return `Its agent server has lost ${lost.length} of its conversations; their histories are kept here.`
}

/** Conversations that had events in this sandbox and are missing now. */
async function findLost(
  { storage }: RenewalDeps,
  rows: readonly AppConversationRow[],
  found: ReadonlyMap<string, unknown>,
): Promise<string[]> {
  const missing = rows.filter(({ id }) => !found.has(id))
  const records = await storage.conversations.get(missing.map(({ id }) => id))
  return missing
    .filter((row, at) => (records[at]?.head ?? 0) > (parseMetadata(row).offset ?? 0))
    .map(({ id }) => id)
}

function describedAs(registry: unknown, name: string): unknown {
  const sources = isRecord(registry) ? registry.secret_sources : undefined
  const source = isRecord(sources) ? ownMember(sources, name) : undefined
  return isRecord(source) ? source.description : undefined
}
