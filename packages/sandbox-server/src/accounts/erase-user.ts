/**
 * Erases all that the control plane has of a person, and says what it was.
 *
 * The certificate must be the same whether the server was killed in between or not. So what is there is taken
 * down first, as ids in a sealed document; then it is deleted; what a repeat finds in addition (a sandbox
 * that appeared meanwhile) is added. Counts come from that document and never from what a step has deleted.
 * The certificate replaces the ids when nothing is left, and the user's row goes last: until then a repeat
 * continues where the first one stopped, and after it a repeat answers the same certificate.
 *
 * Lines of the audit stay, under a pseudonym and without what changed. Files of sandboxes are gone when the
 * backend has said so, which this waits for. The files of this server's databases are overwritten before the
 * answer (`overwriteRemoved`), also of a repeat. What this server does not have: backups, the file of
 * `SLIPWAY_AUDIT_LOG` (ids alone), what was pushed or sent elsewhere.
 */
import { hash } from 'node:crypto'
import { type Erasure, formatInstant, type Instant, Problem, parseInstant } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import type { Cipher, ConversationRecords, Storage } from '@slipway/storage'
import { type ControlPlaneStore, currentAuditTrail, type SandboxRow } from '@slipway/storage/control-plane'
import type { Accounts } from './accounts.ts'
import { type RemoveUserDeps, removeWork } from './remove-user.ts'
import { userDocument } from './user-documents.ts'

interface EraseUserDeps extends RemoveUserDeps {
  readonly controlPlane: Pick<
    ControlPlaneStore,
    | 'users'
    | 'sandboxes'
    | 'conversations'
    | 'startTasks'
    | 'pendingMessages'
    | 'documents'
    | 'audit'
    | 'overwriteRemoved'
  >
  readonly sandboxes: RemoveUserDeps['sandboxes'] & {
    untilGone(id: string, signal: AbortSignal): Promise<void>
  }
  readonly storage: Pick<Storage, 'overwriteRemoved'> & {
    readonly conversations: Pick<ConversationRecords, 'get'>
  }
  readonly accounts: Pick<Accounts, 'userSecrets' | 'llmProfiles' | 'gitProviders'>
  readonly cipher: Cipher
  readonly now: () => Instant
}

type Counts = Erasure['counts']

/** What there is of a user: ids, and of conversations and documents how much is in them. */
interface Inventory {
  readonly ids: Readonly<Record<string, readonly string[]>>
  readonly events: Readonly<Record<string, number>>
  readonly auditLines: number
}

type Stored = { readonly inventory: Inventory } | { readonly certificate: Erasure } | null

/** So often what appeared meanwhile is looked for. */
const maxRounds = 5

/** The name under which lines of the audit stay; that of a pseudonym is itself. */
function pseudonymOf(user: string): string {
  if (/^erased-[0-9a-f]{16}$/.test(user)) return user
  return `erased-${hash('sha256', `slipway user ${user}`).slice(0, 16)}`
}

/**
 * The certificate of a user who was erased, by id or pseudonym. The first answer may have been lost before
 * files were overwritten.
 */
export async function repeatErasure(
  deps: EraseUserDeps,
  user: string,
  signal: AbortSignal,
): Promise<Erasure | undefined> {
  const stored = await progressOf(deps, user).read()
  if (stored === null || !('certificate' in stored)) return undefined
  currentAuditTrail()?.forget(stored.certificate.user)
  await overwriteRemoved(deps, signal)
  return stored.certificate
}

/** Idempotent, also after a kill. Rejects with a Problem `conflict` while more appears than is deleted. */
export async function eraseUser(deps: EraseUserDeps, user: string, signal: AbortSignal): Promise<Erasure> {
  const { users, audit } = deps.controlPlane
  const pseudonym = pseudonymOf(user)
  currentAuditTrail()?.forget(pseudonym)
  const progress = progressOf(deps, user)
  const createdAt = (await users.getUser(user))?.created_at ?? 0
  // The id may be used again, as that of the first user of a server.
  const isOfOther = ({ erased_at }: Erasure) => createdAt > (parseInstant(erased_at) ?? 0)
  const add = async (found: Inventory): Promise<Inventory> => {
    const known = await progress.update((known) => {
      if (known !== null && 'inventory' in known) return { inventory: merge(known.inventory, found) }
      return known === null || isOfOther(known.certificate) ? { inventory: found } : known
    })
    return known !== null && 'inventory' in known ? known.inventory : found
  }
  let inventory = await add(await takeInventory(deps, user))
  await users.removeKeys(user)
  for (let round = 0; ; round++) {
    await deleteWork(deps, user)
    // Also those that were deleted before, and are being removed.
    for (const id of inventory.ids.sandboxes ?? []) await deps.sandboxes.untilGone(id, signal)
    const left = await takeInventory(deps, user)
    if (!hasWork(left)) break
    if (round === maxRounds)
      throw new Problem('conflict', 'Work of the user appears as fast as it is deleted: try again')
    inventory = await add(left)
  }
  const ids = ['sandboxes', 'conversations', 'keys'].flatMap((kind) => inventory.ids[kind] ?? [])
  await audit.pseudonymise(user, pseudonym, ids)
  const done = await progress.update((known) =>
    known !== null && 'inventory' in known
      ? { certificate: certify(pseudonym, known.inventory, deps.now()) }
      : known,
  )
  await users.removeUser(user)
  await overwriteRemoved(deps, signal)
  if (done === null || !('certificate' in done)) throw new Error('an erasure has no certificate')
  return done.certificate
}

function progressOf({ controlPlane, cipher }: Pick<EraseUserDeps, 'controlPlane' | 'cipher'>, user: string) {
  const { documents } = controlPlane
  const format = { empty: null as Stored, parse: (value: unknown) => value as Stored, show: () => ({}) }
  return userDocument<Stored>({ documents, cipher }, `erasure:${pseudonymOf(user)}`, format)
}

async function overwriteRemoved(
  { storage, controlPlane }: EraseUserDeps,
  signal: AbortSignal,
): Promise<void> {
  await raceAbort(storage.overwriteRemoved(), signal)
  await raceAbort(controlPlane.overwriteRemoved(), signal)
}

async function deleteWork(deps: EraseUserDeps, user: string): Promise<void> {
  const { pendingMessages, startTasks } = deps.controlPlane
  await removeWork(deps, user)
  await startTasks.removeByOwner(user)
  for (const id of await pendingMessages.listIds(user)) await pendingMessages.remove(id)
}

/** Also those that are being removed, which are in no list of the user. */
async function listSandboxes({ controlPlane }: EraseUserDeps, owner: string): Promise<SandboxRow[]> {
  const all: SandboxRow[] = []
  for await (const row of controlPlane.sandboxes.iterateAll()) if (row.owner === owner) all.push(row)
  return all
}

async function takeInventory(deps: EraseUserDeps, user: string): Promise<Inventory> {
  const { controlPlane, storage, accounts } = deps
  const { users, conversations, pendingMessages, documents, startTasks } = controlPlane
  const ids = {
    sandboxes: (await listSandboxes(deps, user)).map(({ id }) => id),
    conversations: await conversations.listIds(user),
    start_tasks: await listTasks(startTasks, user),
    pending_messages: await pendingMessages.listIds(user),
    keys: (await users.listKeys(user)).map(({ id }) => id),
    secrets: (await accounts.userSecrets.list(user)).map(({ name }) => name),
    profiles: Object.keys((await accounts.llmProfiles.readAll(user)).profiles),
    git_providers: Object.keys(await accounts.gitProviders.read(user)),
    documents: await documents.list(user),
    memberships: (await users.listOrgsOfUser(user)).map(({ id }) => id),
  }
  const found = await storage.conversations.get(ids.conversations)
  const events = Object.fromEntries(ids.conversations.map((id, at) => [id, found[at]?.head ?? 0]))
  const about = [...ids.sandboxes, ...ids.conversations, ...ids.keys]
  return { ids, events, auditLines: await controlPlane.audit.countAbout(user, about) }
}

async function listTasks(tasks: ControlPlaneStore['startTasks'], owner: string): Promise<string[]> {
  const all: string[] = []
  let page_id: string | undefined
  do {
    const page = await tasks.search({ owner }, { limit: 100, page_id, sort_order: 'CREATED_AT' })
    all.push(...page.items.map(({ id }) => id))
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return all
}

function hasWork({ ids }: Inventory): boolean {
  const { sandboxes = [], conversations = [], pending_messages = [] } = ids
  return sandboxes.length + conversations.length + pending_messages.length > 0
}

function merge(a: Inventory, b: Inventory): Inventory {
  const kinds = Object.keys(a.ids)
  const ids = kinds.map((kind) => [kind, [...new Set([...(a.ids[kind] ?? []), ...(b.ids[kind] ?? [])])]])
  const events = { ...b.events, ...a.events }
  for (const [id, count] of Object.entries(b.events)) events[id] = Math.max(count, events[id] ?? 0)
  return { ids: Object.fromEntries(ids), events, auditLines: Math.max(a.auditLines, b.auditLines) }
}

function certify(user: string, { ids, events, auditLines }: Inventory, now: Instant): Erasure {
  const numbers = Object.entries(ids).map(([kind, found]) => [kind, found.length])
  const sum = Object.values(events).reduce((total, count) => total + count, 0)
  const counts: Counts = { ...Object.fromEntries(numbers), events: sum, audit_lines: auditLines }
  const items = Object.entries(ids).flatMap(([kind, found]) =>
    found.map((id) => hash('sha256', `${kind} ${id}`)),
  )
  const erased_at = formatInstant(now)
  const digest = hash('sha256', JSON.stringify([user, erased_at, counts, items.sort()]))
  return { user, erased_at, counts, digest: `sha256:${digest}` }
}
