import { join } from 'node:path'
import { exists } from '@slipway/shared/fs'
import type { ConversationRecord, Storage } from '@slipway/storage'
import type { Webhooks } from '../../webhooks/webhooks.ts'
import type { ConversationInfoReader } from '../conversation-info.ts'
import type { ConversationParts } from '../parts.ts'
import type { ConversationRegistry } from '../registry.ts'
import { readStoredRequest } from '../stored-request.ts'
import { removeWorktree, worktreeOwner } from './worktrees.ts'

export interface RemoveConversationDeps {
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly infoReader: ConversationInfoReader
  readonly parts: Pick<ConversationParts, 'onRemove'>
  /** Where worktrees are. */
  readonly worktrees: string
  readonly environment: Readonly<Record<string, string>>
  readonly webhooks?: Pick<Webhooks, 'flushBeforeRemoval'>
}

/**
 * Removes a conversation with its files, its worktree and, deepest first, the conversations of its tasks; a
 * repeated request completes an interrupted removal. Other child conversations stay. Returns false when it did not
 * exist.
 */
export async function removeConversation(deps: RemoveConversationDeps, id: string): Promise<boolean> {
  const { storage, registry, infoReader, parts } = deps
  const removeTasks = async () => {
    for (const task of await registry.tasks.listChildIds(id)) await removeConversation(deps, task)
  }
  // Its readers see the end of a run before their sockets close.
  const loaded = await registry.peek(id)
  if (loaded?.isRunning) await loaded.interrupt()
  await registry.close(id, { isDeleted: true })
  await removeTasks()
  const [record] = await storage.conversations.get([id])
  if (record !== undefined) await deps.webhooks?.flushBeforeRemoval(record)
  const isRemoved = await storage.conversations.remove(id)
  // A request may have loaded it in between, and a task may have begun.
  await registry.close(id, { isDeleted: true })
  await removeTasks()
  if (isRemoved) {
    await parts.onRemove(id)
    await infoReader.removeFiles(id)
    await removeUnusedWorktree(deps, (record && worktreeOf(deps, record)) ?? id)
  }
  return isRemoved
}

function worktreeOf({ worktrees }: RemoveConversationDeps, { request }: ConversationRecord) {
  const { workspace } = readStoredRequest({ request })
  return workspace?.working_dir === undefined ? undefined : worktreeOwner(worktrees, workspace.working_dir)
}

/** A fork works where its source did: the worktree goes with the last conversation in it. */
async function removeUnusedWorktree(deps: RemoveConversationDeps, owner: string): Promise<void> {
  if (!(await exists(join(deps.worktrees, owner)))) return
  for (let page_id: string | undefined, isMore = true; isMore; ) {
    const page = await deps.storage.conversations.search({ limit: 100, sort_order: 'CREATED_AT', page_id })
    if (page.items.some((record) => worktreeOf(deps, record) === owner)) return
    page_id = page.next_page_id ?? undefined
    isMore = page_id !== undefined
  }
  await removeWorktree(deps.worktrees, owner, deps.environment)
}
