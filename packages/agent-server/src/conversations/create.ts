import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Settings, Workspace } from '@slipway/agent'
import { invalid, type StartConversationRequest, type Wire } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import { withFittingImages } from './message-images.ts'
import type { Agents } from './registry.ts'
import { idFor } from './send-message.ts'
import { type Requested, requestedSettings } from './start-settings.ts'
import type { KeptRequest } from './stored-request.ts'

const gitMs = 30_000
const workingDir = ['body', 'workspace', 'working_dir'] as const

/** What creating needs. */
export interface CreateParts extends Requested {
  readonly storage: Storage
  readonly agents: Agents
  /** Where worktrees are made. */
  readonly worktrees: string
  /** Which members and kinds the events of a conversation have whose creator does not say; `seed` unless given. */
  readonly wire?: Wire
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Creates a conversation with its working directory (a git repository when it was in none), or answers the one that has
 * the id already and changes nothing. The initial message is stored and run.
 */
export async function createConversation(
  parts: CreateParts,
  request: StartConversationRequest,
  wire: Wire = parts.wire ?? 'seed',
): Promise<{ record: ConversationRecord; created: boolean }> {
  const { storage, agents } = parts
  const { conversation_id: id = randomUUID(), tags = {}, parent_conversation_id } = request
  const [known] = await storage.conversations.get([id])
  if (known !== undefined) return { record: await begun(parts, known), created: false }
  if (parent_conversation_id !== undefined) await mustBeParent(storage, parent_conversation_id, id)
  const asked = await requestedSettings(parts, request)
  const settings = await withWorkspace(parts, id, await withFittingMessage(agents, id, asked.settings))
  const { record, created } = await storage.conversations.create({
    id,
    tags,
    ...agents.seal(settings, wire === 'seed' ? asked.origin : { ...asked.origin, wire }),
    ...(parent_conversation_id === undefined ? {} : { parent: parent_conversation_id }),
  })
  return { record: await begun(parts, record), created }
}

/**
 * The conversation with its initial message, if it was created with one and nothing has been written yet: also when the
 * process died between the two, and whoever created it asks again.
 */
async function begun(
  { storage, agents }: CreateParts,
  record: ConversationRecord,
): Promise<ConversationRecord> {
  const kept: KeptRequest = JSON.parse(record.request ?? '{}')
  if (record.head > 0 || kept.has_initial_message !== true) return record
  const conversation = await agents.get(record.id)
  const message = conversation.settings.initial_message
  // What was sealed with another key cannot be sent.
  if (message === undefined) return record
  await conversation.send({ ...message, run: true }, idFor(record.id, 'initial', ''))
  const [now = record] = await storage.conversations.get([record.id])
  return now
}

/** Before anything is made, so that an image that cannot be read leaves nothing behind. */
async function withFittingMessage(agents: Agents, id: string, settings: Settings): Promise<Settings> {
  const { initial_message } = settings
  if (initial_message === undefined) return settings
  const options = { directory: agents.directoryOf(id), loc: ['body', 'initial_message'] }
  return { ...settings, initial_message: await withFittingImages(initial_message, options) }
}

async function mustBeParent(storage: Storage, parent: string, id: string): Promise<void> {
  const [record] = parent === id ? [] : await storage.conversations.get([parent])
  if (record !== undefined) return
  throw invalid(['body', 'parent_conversation_id'], 'There is no such conversation to be the parent')
}

async function withWorkspace(parts: CreateParts, id: string, settings: Settings): Promise<Settings> {
  const { working_dir } = settings.workspace
  try {
    await mkdir(working_dir, { recursive: true })
  } catch {
    throw invalid(workingDir, 'The directory cannot be made')
  }
  await using workspace = await Workspace.open({ directory: working_dir, env: parts.environment })
  const git: Git = async (...args) => {
    const { exitCode, stdout } = await workspace.run('git', args, { timeoutMs: gitMs })
    return { exitCode, text: stdout.toString().trim() }
  }
  // Where there is no commit there is nothing that a worktree could show: clients that always ask for one mean "if there can be".
  if (settings.worktree && (await git('rev-parse', '--verify', '--quiet', 'HEAD')).exitCode === 0) {
    const path = await worktree(git, parts.worktrees, id)
    return { ...settings, workspace: { ...settings.workspace, working_dir: path } }
  }
  // Without git on this machine there is no repository, and nothing that needs one.
  const { exitCode } = await git('rev-parse', '--is-inside-work-tree')
  if (exitCode === 128) await git('init', '--quiet')
  return settings
}

type Git = (...args: string[]) => Promise<{ readonly exitCode: number | null; readonly text: string }>

/** The worktree of a conversation, which is there already when its creator asks again after a crash. */
async function worktree(git: Git, worktrees: string, id: string): Promise<string> {
  const path = join(worktrees, id)
  await mkdir(dirname(path), { recursive: true })
  const there = await git('-C', path, 'rev-parse', '--show-prefix')
  if (there.exitCode === 0 && there.text === '') return path
  // The long name where the short one is taken: a branch of somebody else is not touched.
  for (const branch of [`slipway/${id.slice(0, 8)}`, `slipway/${id}`])
    if ((await git('worktree', 'add', '-b', branch, path)).exitCode === 0) return path
  throw invalid(workingDir, 'git cannot make a worktree of this repository')
}
