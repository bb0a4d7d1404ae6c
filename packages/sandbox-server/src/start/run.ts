import { hash } from 'node:crypto'
import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { CallError, ConnectionError } from '@slipway/client'
import {
  type AppConversationStartRequest,
  must,
  type RepositoryConsent,
  type RepositoryTrust,
  type UserSettings,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { Redactor, Secret } from '@slipway/shared/redaction'
import { exportEvents } from '@slipway/storage'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import type { AccountSecrets, Accounts } from '../accounts/accounts.ts'
import type { GitProviders, GitToken } from '../accounts/git-providers.ts'
import { defaultProvider, type Repository, resolveRepository } from '../accounts/git-repository.ts'
import { providerTokenName } from '../accounts/lookup-secrets.ts'
import type { ScriptConsents } from '../accounts/script-consents.ts'
import type { UserSettingsStore } from '../accounts/settings.ts'
import type { ConversationContext } from '../conversations/records/conversation-context.ts'
import { toHexId } from '../conversations/records/conversation-ids.ts'
import {
  type ConversationMetadata,
  defaultTitle,
  parseMetadata,
} from '../conversations/records/conversation-info.ts'
import type { Organizations } from '../organizations/organizations.ts'
import type { SandboxConnection } from '../sandboxes/sandboxes.ts'
import type { AdmittedStart } from './admission.ts'
import { type ConversationSettings, createConversationBody, initialMessage } from './conversation-request.ts'
import { StartError } from './failures.ts'
import { type ForkedWorkspace, forkWorkspace } from './fork.ts'
import { findGitToken, gitTokenDescription, gitTokenVariable } from './git-token.ts'
import { conversationMarketplaces } from './marketplaces.ts'
import { type PrepareOptions, type PrepareTimeouts, prepareWorkspace } from './prepare-workspace.ts'
import type { StartProgress } from './progress.ts'
import { type SandboxChoice, type StartSandboxes, waitUntilRunning } from './select-sandbox.ts'

const createTimeoutMs = 120_000
const copyTimeoutMs = 600_000
const lookupTimeoutMs = 10_000
const maxCreateAttempts = 3
const retryDelayMs = 1_000
/** Another server may receive the decision. */
const consentPollMs = 1_000

interface StartAccounts extends Pick<Accounts, 'model' | 'secrets'> {
  readonly userSettings: Pick<UserSettingsStore, 'read'>
  readonly gitProviders: Pick<GitProviders, 'getToken' | 'readTokens'>
}

export interface StartRunDeps extends ConversationContext {
  readonly sandboxes: StartSandboxes
  readonly accounts: StartAccounts
  readonly organizations: Pick<Organizations, 'sharedWith' | 'limitsOf'>
  /** Limit for a sandbox to become RUNNING. */
  readonly waitMs: number
  readonly limits: PrepareTimeouts
  /** Scripts of repositories that their user has not decided about. */
  readonly scriptTrust: RepositoryTrust
  readonly scriptConsents: Pick<ScriptConsents, 'find' | 'register'>
}

/** A start whose sandbox is chosen. */
export interface StartJob extends AdmittedStart {
  readonly settings: UserSettings
  readonly choice: SandboxChoice
  readonly progress: StartProgress
  readonly redactor: Redactor
  readonly signal: AbortSignal
  /** Whether other conversations are in the sandbox or starting in it. */
  hasOthers(): Promise<boolean>
}

/** Everything between WORKING and READY (wire 3.1). Rejects on failure, without undoing earlier steps. */
export async function runStart(deps: StartRunDeps, job: StartJob): Promise<void> {
  const { progress, choice, signal, redactor, id, scope, request } = job
  await progress.update({ status: 'WAITING_FOR_SANDBOX', sandbox: choice.row.id })
  const connection = await waitUntilRunning(deps.sandboxes, choice.row, {
    waitMs: deps.waitMs,
    clock: deps.clock,
    signal,
  })
  for (const secret of connection.secrets()) redactor.add(secret)
  deps.sandboxes.touch(choice.row.id)
  const agent_url = connection.publicUrl
  const isStarted =
    job.existing?.sandbox === choice.row.id &&
    (await hasAgent(connection, id, AbortSignal.any([signal, deps.clock.timeout(lookupTimeoutMs)])))
  if (!isStarted) {
    const token = await findGitToken(deps.accounts, scope.owner, request)
    redactor.add(token?.token)
    // Before scripts of the repository run, so that their output is redacted.
    const secrets = await collectSecrets(deps, job, token?.token)
    const marketplaces = await conversationMarketplaces(
      job.settings.registered_marketplaces,
      job.scope.owner,
      { gitProviders: deps.accounts.gitProviders, redactor },
    )
    const forked = job.source && (await forkProject(deps, job, job.source, connection))
    const workingDir = forked?.workingDir ?? (await prepareProject(deps, job, connection, token))
    await progress.update({ status: 'SETTING_UP_SKILLS' })
    await progress.update({ status: 'STARTING_CONVERSATION', agent_url })
    await createConversation(deps, job, connection, { workingDir, secrets, marketplaces }, forked?.log)
  } else await sendUnsent(deps, job, connection)
  deps.sandboxes.touch(choice.row.id)
  await progress.update({ status: 'READY', agent_url })
}

/** Whether its agent server has the conversation, and not only its log. */
async function hasAgent({ client }: SandboxConnection, id: string, signal: AbortSignal): Promise<boolean> {
  const [info] = await client.call('getConversations', { query: { ids: [id] }, signal })
  const { llm } = info?.agent ?? {}
  // Info of a log without an agent names a model that does not exist.
  return info !== null && info !== undefined && !(isRecord(llm) && llm.model === 'none')
}

/** Takes the place of `prepareProject`: what it does for a repository is in the files. */
async function forkProject(
  deps: StartRunDeps,
  job: StartJob,
  source: AppConversationRow,
  connection: SandboxConnection,
): Promise<ForkedWorkspace> {
  await job.progress.update({ status: 'PREPARING_REPOSITORY' })
  return await forkWorkspace(deps, job, source, connection)
}

async function prepareProject(
  deps: StartRunDeps,
  job: StartJob,
  connection: SandboxConnection,
  token: GitToken | undefined,
): Promise<string> {
  const { request, settings, progress, choice, redactor, signal, id } = job
  const parentDir = parentProjectDir(job)
  if (parentDir !== undefined) {
    for (const status of ['PREPARING_REPOSITORY', 'RUNNING_SETUP_SCRIPT', 'SETTING_UP_GIT_HOOKS'])
      await progress.update({ status })
    return parentDir
  }
  const isAlone = !choice.isGrouped && (choice.isNew || !(await job.hasOthers()))
  const { workingDir } = connection
  const repository = requireRepository(request, token)
  const directory = isAlone ? workingDir : posix.join(workingDir, toHexId(id))
  return await prepareWorkspace(connection, {
    directory,
    repository,
    mayRunScripts: scriptDecision(deps, job, repository?.url ?? directory),
    branch: request.selected_branch,
    newBranch: `slipway/${toHexId(id).slice(0, 8)}`,
    isFullClone: settings.git_full_clone,
    identity: { name: settings.git_user_name, email: settings.git_user_email },
    limits: deps.limits,
    clock: deps.clock,
    fetch: deps.fetch,
    signal,
    onStep: (status) => progress.update({ status }),
    onWarning: (text) => progress.addWarning(redactor.redact(text)),
  })
}

/** Who decides whether scripts with a content may run; undefined when they may without a question. */
function scriptDecision(
  deps: StartRunDeps,
  job: StartJob,
  repository: string,
): PrepareOptions['mayRunScripts'] {
  const { scriptConsents, scriptTrust } = deps
  const { repository_scripts: choice } = job.request
  if (scriptTrust === 'always') return choice === 'deny' ? async () => false : undefined
  return async ({ content, items }) => {
    const scripts = { repository: withoutPassword(repository), content, items }
    const { id, decision } = await scriptConsents.register(job.scope.owner, scripts, choice)
    if (decision !== 'pending' || scriptTrust === 'skip') return decision === 'allowed'
    return await waitForConsent(deps, job, id)
  }
}

/** The task says what the start waits for; its sandbox is not idle meanwhile. */
async function waitForConsent(deps: StartRunDeps, job: StartJob, id: string): Promise<boolean> {
  const { scriptConsents, sandboxes, limits, clock } = deps
  const { progress, choice, scope, signal } = job
  const status = 'RUNNING_SETUP_SCRIPT'
  const detail = `Waits for consent to the scripts of the repository. Decide with: slipway trust ${id}`
  await progress.update({ status, detail })
  let decision: RepositoryConsent['decision'] | undefined = 'pending'
  for (const until = clock.monotonic() + limits.consentMs; decision === 'pending'; ) {
    if (clock.monotonic() > until) {
      progress.addWarning(`Nobody decided about the scripts within ${limits.consentMs / 60_000} minutes.`)
      break
    }
    sandboxes.touch(choice.row.id)
    await clock.sleep(consentPollMs, { signal })
    decision = (await scriptConsents.find(scope.owner, id))?.decision
  }
  await progress.update({ status })
  return decision === 'allowed'
}

/** Of an address of a repository. */
function withoutPassword(address: string): string {
  return address.replace(/^(\w+:\/\/)[^/]*@/, '$1')
}

/** A child in the sandbox of its parent works in the parent's project. */
function parentProjectDir({ parent, choice, request }: StartJob): string | undefined {
  if (parent === undefined || parent.sandbox !== choice.row.id) return undefined
  const { projectDir, selected_repository = null } = parseMetadata(parent)
  return (request.selected_repository ?? null) === selected_repository ? projectDir : undefined
}

function requireRepository(
  { selected_repository, git_provider }: AppConversationStartRequest,
  token: GitToken | undefined,
): Repository | undefined {
  if (selected_repository === undefined) return undefined
  const resolved = resolveRepository(selected_repository, git_provider, token)
  if (resolved !== undefined) return resolved
  throw new StartError(`Unknown Git host for ${git_provider}; store a token together with its host.`)
}

/**
 * Secrets of the account that the request names, redacted and granted to the sandbox from now on, and the
 * provider's token, so that the agent can push.
 */
async function collectSecrets(
  { accounts, controlPlane }: StartRunDeps,
  { scope, request, redactor, choice }: StartJob,
  token: Secret | undefined,
): Promise<AccountSecrets> {
  const all = await accounts.secrets(scope.owner)
  for (const { value } of Object.values(all)) redactor.add(value)
  const { secret_names: names = Object.keys(all) } = request
  const missing = names.find((name) => !Object.hasOwn(all, name))
  if (missing !== undefined) throw new StartError(`There is no secret ${missing}.`)
  const stored = Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)))
  const provider = request.git_provider ?? defaultProvider
  const granted = token === undefined ? names : [...names, providerTokenName(provider)]
  await controlPlane.sandboxes.grantSecrets(choice.row.id, granted)
  const name = gitTokenVariable(provider)
  return token === undefined || Object.hasOwn(stored, name)
    ? stored
    : { ...stored, [name]: { value: token, description: gitTokenDescription } }
}

/**
 * Writes the row first, so that event ingest finds it, and then creates the conversation. One that has a log
 * here and another sandbox than before takes it along.
 */
async function createConversation(
  deps: StartRunDeps,
  job: StartJob,
  connection: SandboxConnection,
  agent: Pick<ConversationSettings, 'workingDir' | 'secrets' | 'marketplaces'>,
  forkedLog?: ForkedWorkspace['log'],
): Promise<void> {
  const { id, parent, choice, signal, progress } = job
  const isNew = await deps.conversationMutex.runExclusive(id, () => saveRow(deps, job, agent.workingDir))
  // From now on its former sandbox adds nothing.
  const [record] = await deps.storage.conversations.get([id])
  const ownLog =
    record === undefined || record.head === 0
      ? undefined
      : () => exportEvents(deps.storage.log, record, { meta: false })
  const log = forkedLog ?? ownLog
  const { initial_message, ...body } = createConversationBody({
    ...job,
    ...agent,
    parent: parent?.sandbox === choice.row.id ? parent.id : undefined,
  })
  try {
    const isContinued = log !== undefined && (await copyLog(deps, job, connection, log))
    if (!isContinued && forkedLog !== undefined)
      throw new StartError('The agent server of its sandbox cannot take a log.')
    if (!isContinued && log !== undefined) await changeMembers(deps, id, { offset: record?.head })
    if (isContinued && initial_message) await changeMembers(deps, id, { unsentMessage: progress.row.id })
    await repeatCall(deps, signal, createTimeoutMs, (within) =>
      connection.client.call('createConversation', {
        body: isContinued ? body : { ...body, initial_message },
        signal: within,
      }),
    )
    if (isContinued) await sendUnsent(deps, job, connection)
  } catch (error) {
    if (isNew) await deps.conversationMutex.runExclusive(id, () => removeEmptyRow(deps, id))
    throw error
  }
}

/**
 * The message of a start that continued a log, which has its first message already: it is sent as any other,
 * once, by the next start where this one is interrupted.
 */
async function sendUnsent(
  deps: StartRunDeps,
  { id, request, signal }: StartJob,
  { client }: SandboxConnection,
): Promise<void> {
  const [row] = await deps.controlPlane.conversations.get([id])
  const unsent = row && parseMetadata(row).unsentMessage
  const body = initialMessage(request)
  if (unsent === undefined || !body) return
  const params = { conversation_id: id }
  const headers = { 'idempotency-key': hash('sha256', JSON.stringify([unsent, body])) }
  await repeatCall(deps, signal, createTimeoutMs, (within) =>
    client.call('sendMessage', { params, body, headers, signal: within }),
  )
  await changeMembers(deps, id, { unsentMessage: undefined })
}

async function changeMembers(
  { controlPlane, conversationMutex }: StartRunDeps,
  id: string,
  change: ConversationMetadata,
): Promise<void> {
  await conversationMutex.runExclusive(id, async () => {
    const [row] = await controlPlane.conversations.get([id])
    if (row === undefined) return
    const members: ConversationMetadata = { ...parseMetadata(row), ...change }
    await controlPlane.conversations.update(id, { members: JSON.stringify(members) })
  })
}

/**
 * Gives the agent server the log of the conversation, byte for byte; what it has already is skipped. False
 * where agent servers take none: then it begins another log, which follows this one here.
 */
async function copyLog(
  deps: StartRunDeps,
  { id, signal, existing }: StartJob,
  { client }: SandboxConnection,
  log: ForkedWorkspace['log'],
): Promise<boolean> {
  const { clock } = deps
  const meta = { conversation_id: id, title: existing?.title }
  const chunks = async function* (within: AbortSignal) {
    yield Buffer.from(`${JSON.stringify(meta)}\n`)
    yield* log(within)
  }
  try {
    await repeatCall({ clock }, signal, copyTimeoutMs, (within) =>
      client.importEvents(Readable.toWeb(Readable.from(chunks(within))) as ReadableStream<Uint8Array>, {
        unknown: 'keep',
        signal: within,
      }),
    )
    return true
  } catch (error) {
    if (!(error instanceof CallError) || ![404, 405, 501].includes(error.status)) throw error
    return false
  }
}

/** Repeats an idempotent call whose answer was lost. */
async function repeatCall(
  { clock }: Pick<StartRunDeps, 'clock'>,
  signal: AbortSignal,
  timeoutMs: number,
  call: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await call(AbortSignal.any([signal, clock.timeout(timeoutMs)]))
      return
    } catch (error) {
      if (!(error instanceof ConnectionError) || tries === maxCreateAttempts) throw error
      await clock.sleep(retryDelayMs, { signal })
    }
  }
}

/** Whether the row is new. */
async function saveRow(deps: StartRunDeps, job: StartJob, projectDir: string): Promise<boolean> {
  const { controlPlane, removedConversations, clock } = deps
  const { id, scope, request, choice, existing, parent, model } = job
  await removedConversations.forget(id, choice.row.id)
  const previous = existing === undefined ? {} : parseMetadata(existing)
  const members: ConversationMetadata = {
    ...previous,
    selected_repository: request.selected_repository ?? null,
    selected_branch: request.selected_branch ?? null,
    git_provider: request.git_provider ?? null,
    trigger: request.trigger ?? previous.trigger,
    pr_number: request.pr_number.length > 0 ? request.pr_number : previous.pr_number,
    llm_model: model.model,
    public: request.public ?? previous.public,
    tags: { ...previous.tags, ...request.tags },
    isTitleChosen: request.title !== undefined || previous.isTitleChosen,
    projectDir,
    // Its agent server gets the whole log.
    offset: undefined,
  }
  const title = request.title ?? existing?.title ?? defaultTitle(id)
  const at = clock.now() * 1000
  const row: AppConversationRow = {
    id,
    owner: scope.owner,
    org: scope.org ?? choice.row.org,
    sandbox: choice.row.id,
    parent: parent?.id ?? existing?.parent ?? null,
    title,
    status: null,
    members: JSON.stringify(members),
    created_at: at,
    updated_at: at,
  }
  const maxOfOwner = await deps.storageQuota.maxConversations(scope.owner)
  const added = await controlPlane.conversations.add(row, { maxOfOwner })
  if (added.created) return true
  if (added.row.owner !== scope.owner) throw new StartError('The conversation_id is taken.')
  const { sandbox, parent: parentId } = row
  const change = { sandbox, parent: parentId, title, members: row.members, updated_at: at }
  must(await controlPlane.conversations.update(id, change), 'the row of a conversation that is being started')
  return false
}

async function removeEmptyRow({ controlPlane, storage }: StartRunDeps, id: string): Promise<void> {
  const [record] = await storage.conversations.get([id])
  if ((record?.head ?? 0) === 0) await controlPlane.conversations.remove(id)
}
