import { posix } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { NoAnswerError } from '@slipway/client'
import { type AppConversationStartRequest, type Llm, must, type Secret } from '@slipway/protocol'
import type { AppConversationRow, Ledger, Scope, Storage } from '@slipway/storage'
import type { Lanes } from '../async/keyed-mutex.ts'
import { hexOf } from '../conversations/records/conversation-ids.ts'
import { defaultTitle, type Members, membersOf } from '../conversations/records/conversation-info.ts'
import type { Removals } from '../conversations/records/removed-conversations.ts'
import type { Hidden } from '../redaction/redactor.ts'
import type { Reached } from '../sandboxes/sandboxes.ts'
import { agentStart, type StartSecrets, type StartSettings } from './conversation-request.ts'
import { StartFailed } from './failures.ts'
import { isAddress, type Repository, repositoryOf, usualProvider } from './git-repository.ts'
import { type PrepareLimits, prepare } from './prepare-workspace.ts'
import type { Progress } from './progress.ts'
import { type Choice, running, type StartSandboxes } from './select-sandbox.ts'

const createMs = 120_000
const lookMs = 10_000
const createTries = 3
const betweenTriesMs = 1_000

/** What starts need of a user's account. */
export interface StartAccounts {
  model(
    owner: string | null,
    asked: { readonly profile?: string | undefined; readonly model?: string | undefined },
  ): Promise<Llm>
  secrets(owner: string | null): Promise<StartSecrets>
  settings(owner: string | null): Promise<StartSettings>
  gitToken(
    owner: string | null,
    provider: string,
  ): Promise<{ readonly token: Secret; readonly host?: string } | undefined>
}

export interface RunParts {
  readonly ledger: Pick<Ledger, 'conversations' | 'startTasks'>
  readonly storage: Pick<Storage, 'conversations'>
  readonly sandboxes: StartSandboxes
  readonly accounts: StartAccounts
  readonly removals: Removals
  /** The lane of a conversation is held by what changes what is kept of it. */
  readonly lanes: Lanes
  readonly reach: typeof fetch
  readonly now: () => number
  /** How long a sandbox is waited for. */
  readonly waitMs: number
  readonly limits: PrepareLimits
}

/** One start, with everything that was found out before it was answered. */
export interface StartJob {
  /** Of the conversation. */
  readonly id: string
  readonly scope: Scope
  /** What is inherited from a parent, or from the conversation as it was, is in it. */
  readonly request: AppConversationStartRequest
  readonly model: Llm
  readonly settings: StartSettings
  /** The conversation as it was before, when it was there. */
  readonly known: AppConversationRow | undefined
  readonly parent: AppConversationRow | undefined
  readonly choice: Choice
  readonly progress: Progress
  readonly hidden: Hidden
  readonly signal: AbortSignal
  /** Whether other conversations are in the sandbox, or on their way into it. */
  hasOthers(): Promise<boolean>
}

/** Everything between WORKING and READY (wire 3.1). Rejects when it cannot go on; what was made by then stays. */
export async function runStart(parts: RunParts, job: StartJob): Promise<void> {
  const { progress, choice, signal, hidden, id } = job
  await progress.change({ status: 'WAITING_FOR_SANDBOX', sandbox: choice.row.id })
  const reached = await running(parts.sandboxes, choice.row, { waitMs: parts.waitMs, signal })
  for (const secret of reached.secrets()) hidden.add(secret)
  parts.sandboxes.touch(choice.row.id)
  const agent_url = reached.publicUrl
  const isThere = job.known?.sandbox === choice.row.id && (await isKnownTo(reached, id, signal))
  if (!isThere) {
    const token = await gitToken(parts, job)
    hidden.add(token?.token)
    // Read before anything of the repository runs, so that nothing that it prints is told with a secret in it.
    const secrets = await allSecrets(parts, job, token?.token)
    const projectDir = await prepared(parts, job, reached, token)
    await progress.change({ status: 'SETTING_UP_SKILLS' })
    await progress.change({ status: 'STARTING_CONVERSATION', agent_url })
    await begin(parts, job, { reached, projectDir, secrets })
  }
  parts.sandboxes.touch(choice.row.id)
  await progress.change({ status: 'READY', agent_url })
}

async function isKnownTo({ client }: Reached, id: string, signal: AbortSignal): Promise<boolean> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(lookMs)])
  const [info] = await client.call('getConversations', { query: { ids: [id] }, signal: within })
  return info !== null && info !== undefined
}

async function gitToken({ accounts }: RunParts, { scope, request }: StartJob) {
  const { selected_repository, git_provider } = request
  if (git_provider !== undefined) return await accounts.gitToken(scope.owner, git_provider)
  const isNamed = selected_repository !== undefined && !isAddress(selected_repository)
  return isNamed ? await accounts.gitToken(scope.owner, usualProvider) : undefined
}

async function prepared(
  parts: RunParts,
  job: StartJob,
  reached: Reached,
  token: { readonly token: Secret; readonly host?: string } | undefined,
): Promise<string> {
  const { request, settings, progress, choice, hidden, signal, id } = job
  const shared = projectOfParent(job)
  if (shared !== undefined) {
    for (const status of ['PREPARING_REPOSITORY', 'RUNNING_SETUP_SCRIPT', 'SETTING_UP_GIT_HOOKS'])
      await progress.change({ status })
    return shared
  }
  const isAlone = !choice.isGrouped && (choice.isNew || !(await job.hasOthers()))
  const { workingDir } = reached
  return await prepare(reached, {
    directory: isAlone ? workingDir : posix.join(workingDir, hexOf(id)),
    repository: repository(request, token),
    branch: request.selected_branch,
    newBranch: `slipway/${hexOf(id).slice(0, 8)}`,
    isFullClone: settings.git_full_clone,
    identity: { name: settings.git_user_name, email: settings.git_user_email },
    limits: parts.limits,
    reach: parts.reach,
    signal,
    onStep: (status) => progress.change({ status }),
    onTrouble: (text) => progress.note(hidden.hide(text)),
  })
}

/** A conversation that works for another one in the same sandbox works on the same files. */
function projectOfParent({ parent, choice, request }: StartJob): string | undefined {
  if (parent === undefined || parent.sandbox !== choice.row.id) return undefined
  const { projectDir, selected_repository = null } = membersOf(parent)
  return (request.selected_repository ?? null) === selected_repository ? projectDir : undefined
}

function repository(
  { selected_repository, git_provider }: AppConversationStartRequest,
  token: { readonly token: Secret; readonly host?: string } | undefined,
): Repository | undefined {
  if (selected_repository === undefined) return undefined
  const found = repositoryOf(selected_repository, git_provider, token)
  if (found !== undefined) return found
  throw new StartFailed(`Where ${git_provider} is, is not known: store its host with a token of it.`)
}

/** Secrets of the account, and the token of the repository's provider, so that the agent can push. */
async function allSecrets(parts: RunParts, job: StartJob, token: Secret | undefined): Promise<StartSecrets> {
  const { request } = job
  const own = await ownSecrets(parts, job)
  const name = `${(request.git_provider ?? usualProvider).toUpperCase()}_TOKEN`
  return token === undefined || Object.hasOwn(own, name)
    ? own
    : { ...own, [name]: { value: token, description: 'Token of the provider of the repository' } }
}

/** Those of the account; from now on they are hidden in what the start says. */
async function ownSecrets({ accounts }: RunParts, { scope, hidden }: StartJob): Promise<StartSecrets> {
  const own = await accounts.secrets(scope.owner)
  for (const { value } of Object.values(own)) hidden.add(value)
  return own
}

/** The conversation's row, so that what comes home at once finds it, and then the conversation itself. */
async function begin(
  parts: RunParts,
  job: StartJob,
  {
    reached,
    projectDir,
    secrets,
  }: { readonly reached: Reached; readonly projectDir: string; readonly secrets: StartSecrets },
): Promise<void> {
  const { id, parent, choice, signal } = job
  const isNew = await parts.lanes.run(id, () => writeRow(parts, job, projectDir))
  const body = agentStart({
    ...job,
    secrets,
    workingDir: projectDir,
    parent: parent?.sandbox === choice.row.id ? parent.id : undefined,
  })
  try {
    for (let tries = 1; ; tries++) {
      const within = AbortSignal.any([signal, AbortSignal.timeout(createMs)])
      try {
        return void (await reached.client.call('createConversation', { body, signal: within }))
      } catch (error) {
        // Asked again it answers the one that was made by the lost answer.
        if (!(error instanceof NoAnswerError) || tries === createTries) throw error
        await sleep(betweenTriesMs, undefined, { signal })
      }
    }
  } catch (error) {
    if (isNew) await parts.lanes.run(id, () => dropRow(parts, id))
    throw error
  }
}

/** Whether the row is new. */
async function writeRow(parts: RunParts, job: StartJob, projectDir: string): Promise<boolean> {
  const { ledger, storage, removals, now } = parts
  const { id, scope, request, choice, known, parent, model } = job
  await removals.forget(id, choice.row.id)
  const [record] = await storage.conversations.get([id])
  const before = known === undefined ? {} : membersOf(known)
  const isMoved = known !== undefined && known.sandbox !== choice.row.id
  const members: Members = {
    ...before,
    selected_repository: request.selected_repository ?? null,
    selected_branch: request.selected_branch ?? null,
    git_provider: request.git_provider ?? null,
    trigger: request.trigger ?? before.trigger,
    pr_number: request.pr_number.length > 0 ? request.pr_number : before.pr_number,
    llm_model: model.model,
    public: request.public ?? before.public,
    tags: { ...before.tags, ...request.tags },
    isTitleChosen: request.title !== undefined || before.isTitleChosen,
    projectDir,
    offset: isMoved ? (record?.head ?? 0) : before.offset,
  }
  const title = request.title ?? known?.title ?? defaultTitle(id)
  const at = now()
  const row: AppConversationRow = {
    id,
    owner: scope.owner,
    org: scope.org ?? choice.row.org,
    sandbox: choice.row.id,
    parent: parent?.id ?? known?.parent ?? null,
    title,
    status: null,
    members: JSON.stringify(members),
    created_at: at,
    updated_at: at,
  }
  const added = await ledger.conversations.add(row)
  if (added.created) return true
  if (added.row.owner !== scope.owner) throw new StartFailed('The conversation_id is taken.')
  const { sandbox, parent: parentId } = row
  const change = { sandbox, parent: parentId, title, members: row.members, updated_at: at }
  must(await ledger.conversations.change(id, change), 'the row of a conversation that is being started')
  return false
}

/** Nothing came of it: unless something came home, it never was. */
async function dropRow({ ledger, storage }: RunParts, id: string): Promise<void> {
  const [record] = await storage.conversations.get([id])
  if ((record?.head ?? 0) === 0) await ledger.conversations.remove(id)
}
