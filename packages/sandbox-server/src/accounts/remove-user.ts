import { Problem } from '@slipway/protocol'
import type { ControlPlaneStore, SandboxRow } from '@slipway/storage/control-plane'

export interface RemoveUserDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'users' | 'sandboxes' | 'conversations' | 'startTasks'>
  readonly conversations: {
    remove(scope: { readonly owner: string }, id: string): Promise<void>
  }
  readonly sandboxes: { remove(row: SandboxRow): Promise<void> }
  readonly starter: { cancel(conversation: string): Promise<void> }
}

/** So many ids are in a refusal. */
const maxNamed = 50

/**
 * Revokes the keys of a user first, in any case. Then a Problem `conflict` names the sandboxes and counts the
 * conversations of the user, unless they are to be deleted too; the user is removed last, so a repeated call
 * completes a removal.
 */
export async function removeUser(
  deps: RemoveUserDeps,
  id: string,
  { isWithSandboxes }: { readonly isWithSandboxes: boolean },
): Promise<void> {
  const { users, sandboxes, conversations } = deps.controlPlane
  await users.removeKeys(id)
  if (isWithSandboxes) await removeWork(deps, id)
  const [{ items }, count] = await Promise.all([
    sandboxes.search({ owner: id }, { limit: maxNamed }),
    conversations.countAll(id),
  ])
  if (items.length > 0 || count > 0) {
    const named = items.map((row) => row.id)
    throw new Problem(
      'conflict',
      `The keys of the user do not work any more. The user stays, with sandboxes (${named.join(', ') || 'none'}) and ${count} stored conversations: delete them first, or with with_sandboxes=true.`,
      undefined,
      { code: 'user_has_sandboxes', sandboxes: named, conversations: count },
    )
  }
  await users.removeUser(id)
}

/** Starts in progress end first: they would create more. */
export async function removeWork(deps: RemoveUserDeps, owner: string): Promise<void> {
  const { controlPlane, conversations, sandboxes, starter } = deps
  const { startTasks } = controlPlane
  const scope = { owner }
  for (const { owner: ofTask, conversation } of await startTasks.listUnfinished())
    if (ofTask === owner && conversation !== null) await starter.cancel(conversation)
  for (const id of await controlPlane.conversations.listIds(owner))
    await conversations.remove(scope, id).catch(ignoreMissing)
  for (;;) {
    const { items } = await controlPlane.sandboxes.search(scope, { limit: 100 })
    if (items.length === 0) break
    for (const row of items) await sandboxes.remove(row)
  }
  for (;;) {
    const { items } = await startTasks.search(scope, { limit: 100, sort_order: 'CREATED_AT' })
    const ids = items.map(({ conversation }) => conversation).filter((id) => id !== null)
    if (ids.length === 0) break
    for (const id of ids) await startTasks.removeByConversation(id)
  }
}

/** It was the child of one that was removed before. */
function ignoreMissing(error: unknown): void {
  if (!(error instanceof Problem) || error.code !== 'not_found') throw error
}
