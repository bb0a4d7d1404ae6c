import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { type ResolvedSettings, readRepositoryCode } from '@slipway/agent'
import {
  invalidInput,
  type RepositoryDecision,
  type StartConversationRequest,
  type WireVersion,
} from '@slipway/protocol'
import { RepositoryViewError } from '@slipway/shared/git'
import { definedMembers } from '@slipway/shared/json'
import { makeDirectory } from '@slipway/shared/tool-files'
import type { ConversationRecord, Storage } from '@slipway/storage'
import type { ConversationParts } from '../parts.ts'
import type { ConversationRegistry } from '../registry.ts'
import type { RunAdmission } from '../run-admission.ts'
import { readStoredRequest } from '../stored-request.ts'
import { shrinkImages } from './message-images.ts'
import { deriveEventId } from './send-message.ts'
import { resolveStartSettings, type StartSettingsDeps } from './start-settings.ts'
import { createWorktree, openGit } from './worktrees.ts'

const workingDirPath = ['body', 'workspace', 'working_dir'] as const

export interface CreateConversationDeps extends StartSettingsDeps {
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly worktrees: string
  readonly parts: ConversationParts
  /** Wire version of a conversation whose creator does not request one; `seed` unless passed. */
  readonly wire?: WireVersion
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Creates a conversation and its working directory (a git repository unless it is in one), or returns the
 * existing one of the id unchanged. An imported one gets the agent and the settings of the request, and
 * continues with its log. Stores the initial message and runs it unless it says otherwise. Without a free run
 * slot nothing is created: a Problem `too_many`, unless the request is `admitted` already.
 */
export async function createConversation(
  deps: CreateConversationDeps,
  request: StartConversationRequest,
  wire: WireVersion = deps.wire ?? 'seed',
  admitted?: RunAdmission,
): Promise<{ record: ConversationRecord; created: boolean }> {
  const { storage, registry } = deps
  const { repository_consent: decision, title, ...input } = request
  const { conversation_id: id = randomUUID(), tags = {}, parent_conversation_id } = input
  const [existing] = await storage.conversations.get([id])
  if (existing !== undefined && existing.request !== null)
    return { record: await sendInitialMessage(deps, existing), created: false }
  // Its id is that of the message that began the log: a repeat could not be told from the first.
  if (existing !== undefined && existing.head > 0 && input.initial_message !== undefined)
    throw invalidInput(['body', 'initial_message'], 'The imported conversation has events: send the message')
  using own = admitted === undefined ? registry.admitRun(input.initial_message?.run === true) : undefined
  if (parent_conversation_id !== undefined)
    await assertParentFits(storage, parent_conversation_id, id, input.workspace.working_dir)
  const resolved = await resolveStartSettings(deps, {
    ...input,
    repository_consent: undefined,
    title: undefined,
  })
  const settings = await prepareWorkspace(
    deps,
    id,
    await shrinkInitialMessage(registry, id, resolved.settings),
  )
  if (decision !== undefined) await decideConsent(deps, decision, settings.workspace.working_dir)
  const names = resolved.origin.launched_agent_profile?.secret_refs ?? undefined
  const bound = await deps.parts.credentials?.takePending(id, settings.agent, names)
  const sealed = registry.settings.seal(
    bound === undefined ? settings : withoutSecret(settings, bound),
    wire === 'seed' ? resolved.origin : { ...resolved.origin, wire },
  )
  const adopted =
    existing &&
    (await adopt(storage, existing, { ...sealed, ...definedMembers({ tags: input.tags, title }) }))
  const { record, created } =
    adopted ??
    (await storage.conversations.create({
      ...{ id, tags, title, parent: parent_conversation_id },
      ...sealed,
    }))
  return { record: await sendInitialMessage(deps, record, own ?? admitted), created }
}

/** Undefined when it was removed in the meantime. */
async function adopt(
  { conversations }: Storage,
  { id }: ConversationRecord,
  update: Parameters<Storage['conversations']['patch']>[1],
): Promise<{ record: ConversationRecord; created: boolean } | undefined> {
  const record = await conversations.patch(id, update)
  return record && { record, created: true }
}

function withoutSecret(settings: ResolvedSettings, name: string): ResolvedSettings {
  const { [name]: _, ...secrets } = settings.secrets ?? {}
  return { ...settings, secrets }
}

/**
 * Sends the initial message unless there are events: a repeated request completes a creation that a crash
 * interrupted.
 */
async function sendInitialMessage(
  { storage, registry }: CreateConversationDeps,
  record: ConversationRecord,
  admitted?: RunAdmission,
): Promise<ConversationRecord> {
  const stored = readStoredRequest(record)
  if (record.head > 0 || stored.has_initial_message !== true) return record
  const conversation = await registry.get(record.id)
  const message = conversation.settings.initial_message
  // Settings sealed with another key cannot be used.
  if (message === undefined) return record
  using admission = admitted ?? registry.admitRun(message.run)
  await conversation.send(message, deriveEventId(record.id, 'initial', ''), admission.take())
  const [current = record] = await storage.conversations.get([record.id])
  return current
}

/** Runs before anything is created, so that an unreadable image leaves nothing behind. */
async function shrinkInitialMessage(
  registry: ConversationRegistry,
  id: string,
  settings: ResolvedSettings,
): Promise<ResolvedSettings> {
  const { initial_message } = settings
  if (initial_message === undefined) return settings
  const options = { directory: registry.conversationDirectory(id), loc: ['body', 'initial_message'] }
  return { ...settings, initial_message: await shrinkImages(initial_message, options) }
}

/** A parent exists and works in the same directory. */
async function assertParentFits(
  storage: Storage,
  parent: string,
  id: string,
  directory: string,
): Promise<void> {
  const loc = ['body', 'parent_conversation_id']
  const [record] = parent === id ? [] : await storage.conversations.get([parent])
  if (record === undefined) throw invalidInput(loc, 'There is no such conversation to be the parent')
  const { workspace } = readStoredRequest(record)
  if (workspace !== undefined && resolve(workspace.working_dir) !== resolve(directory))
    throw invalidInput(loc, 'The parent conversation works in another directory')
}

/** Stores the decision about what the working directory brings now. */
async function decideConsent(
  { parts: { repositoryDecisions } }: CreateConversationDeps,
  decision: RepositoryDecision,
  directory: string,
): Promise<void> {
  const code = await readRepositoryCode(directory)
  if (code.items.length === 0 || repositoryDecisions === undefined) return
  const { id } = await repositoryDecisions.register(code)
  await repositoryDecisions.decide(id, decision)
}

async function prepareWorkspace(
  deps: CreateConversationDeps,
  id: string,
  settings: ResolvedSettings,
): Promise<ResolvedSettings> {
  const { working_dir } = settings.workspace
  let created: string | undefined
  try {
    created = await makeDirectory(working_dir)
  } catch {
    throw invalidInput(workingDirPath, 'The directory cannot be made')
  }
  await using git = await openGit(working_dir, deps.environment)
  // A repository without commits has no worktree: clients that always request one mean "if possible".
  if (settings.worktree && (await git.run('rev-parse', '--verify', '--quiet', 'HEAD')).exitCode === 0) {
    const path = await createWorktree(git, { ...deps, id }).catch((error: unknown) => {
      throw error instanceof RepositoryViewError ? invalidInput(workingDirPath, error.message) : error
    })
    if (path === undefined)
      throw invalidInput(workingDirPath, 'git cannot make a worktree of this repository')
    return { ...settings, workspace: { ...settings.workspace, working_dir: path } }
  }
  // A directory that was there is the user's: it stays as it is.
  if (created === undefined) return settings
  // Without git on this machine there is no repository, and nothing that needs one.
  const { exitCode } = await git.run('rev-parse', '--is-inside-work-tree')
  if (exitCode === 128) await git.run('init', '--quiet')
  return settings
}
