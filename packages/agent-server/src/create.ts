import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Settings, Workspace } from '@slipway/agent'
import { invalid, must, type StartConversationRequest } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import type { Agents } from './agents.ts'
import { idFor } from './messages.ts'
import { type KeptRequest, settingsOf } from './settings.ts'

const gitMs = 30_000
const workingDir = ['body', 'workspace', 'working_dir'] as const

/** What creating needs. */
export interface CreateParts {
  readonly storage: Storage
  readonly agents: Agents
  /** Where worktrees are made. */
  readonly worktrees: string
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Creates a conversation with its working directory (a git repository when it was in none), or answers the one that has
 * the id already and changes nothing. The initial message is stored and run.
 */
export async function createConversation(
  parts: CreateParts,
  request: StartConversationRequest,
): Promise<{ record: ConversationRecord; created: boolean }> {
  const { storage, agents } = parts
  const { conversation_id: id = randomUUID(), tags = {}, parent_conversation_id } = request
  const [known] = await storage.conversations.get([id])
  if (known !== undefined) return { record: await begun(parts, known), created: false }
  if (parent_conversation_id !== undefined) await mustBeParent(storage, parent_conversation_id, id)
  const asked = settingsOf(request)
  const settings = await withWorkspace(parts, id, asked)
  const { record, created } = await storage.conversations.create({
    id,
    tags,
    ...agents.seal(settings),
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
  if (record.head > 0 || kept.initial_message === undefined) return record
  const conversation = await agents.get(record.id)
  const message = must(conversation.settings.initial_message, 'the initial message')
  await conversation.send({ ...message, run: true }, idFor(record.id, 'initial', ''))
  const [now = record] = await storage.conversations.get([record.id])
  return now
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
  const git = (...args: string[]) => workspace.run('git', args, { timeoutMs: gitMs })
  const inside = await git('rev-parse', '--is-inside-work-tree')
  // Without git on this machine there is no repository, and nothing that needs one.
  if (!settings.worktree) {
    if (inside.exitCode === 128) await git('init', '--quiet')
    return settings
  }
  const path = join(parts.worktrees, id)
  await mkdir(dirname(path), { recursive: true })
  const added = await git('worktree', 'add', '-b', `slipway/${id.slice(0, 8)}`, path)
  if (added.exitCode !== 0) throw invalid(workingDir, 'A worktree needs a git repository with a commit')
  return { ...settings, workspace: { ...settings.workspace, working_dir: path } }
}
