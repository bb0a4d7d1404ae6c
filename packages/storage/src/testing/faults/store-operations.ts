import { randomUUID } from 'node:crypto'
import type { ControlPlaneStore } from '../../control-plane/control-plane-store.ts'
import {
  conversationRow,
  keyRow,
  messageRow,
  sandboxRow,
  taskRow,
  userRow,
} from '../../control-plane/testing/sample-rows.ts'
import { FaultRounds, type Operation, type State } from './fault-rounds.ts'

type Store = ControlPlaneStore
const day = '2026-01-31'
const page = { limit: 100 } as const

/** A user of a round, to whom everything of the round belongs; `spec` is that of its sandboxes. */
interface StoreIds {
  readonly user: string
  readonly spec: string
}

/** The id of one thing of a round. */
const idOf = ({ user }: StoreIds, name: string) => `${name}-${user}`

/** Rounds of the operations of a control plane. */
export const storeRounds = new FaultRounds({
  newIds: (): StoreIds => ({ user: randomUUID(), spec: randomUUID() }),
  setUp,
  goOn,
  observe,
})

async function setUp(store: Store, ids: StoreIds): Promise<void> {
  const { user, spec } = ids
  const owned = { owner: user, sandbox: idOf(ids, 'box') }
  await Promise.all([
    store.users.addUser(userRow({ id: user })),
    store.users.addKey(keyRow({ id: idOf(ids, 'key'), user })),
    store.sandboxes.add(sandboxRow({ id: idOf(ids, 'box'), owner: user, status: 'RUNNING' })),
    store.sandboxes.add(sandboxRow({ id: idOf(ids, 'pooled'), owner: null, spec, status: 'RUNNING' })),
    store.sandboxes.add(
      sandboxRow({ id: idOf(ids, 'younger'), owner: null, spec, status: 'RUNNING', created_at: 2 }),
    ),
    store.sandboxes.grantSecrets(idOf(ids, 'box'), ['A']),
    store.conversations.add(conversationRow({ id: idOf(ids, 'c'), ...owned })),
    store.startTasks.add(
      taskRow({ id: idOf(ids, 'task'), conversation: idOf(ids, 'c'), quota_day: day, ...owned }),
    ),
    store.pendingMessages.add(messageRow(idOf(ids, 'm1'), idOf(ids, 'c')), 10),
    store.documents.update(user, 'settings', () => Buffer.from('first')),
  ])
}

/** A change of each kind. */
async function goOn(store: Store, ids: StoreIds): Promise<void> {
  const { user } = ids
  await Promise.all([
    store.pendingMessages.add(messageRow(idOf(ids, 'last'), idOf(ids, 'c')), 10),
    store.documents.update(user, 'last', () => Buffer.from('last')),
    store.sandboxes.grantSecrets(idOf(ids, 'box'), ['LAST']),
  ])
}

async function observe(store: Store, ids: StoreIds): Promise<State> {
  const { user, spec } = ids
  const owner = { owner: user }
  const seen = {
    user: await store.users.getUser(user),
    limits: await store.users.getLimits(user).catch(({ code }) => code),
    keys: await store.users.listKeys(user),
    key: await store.users.findKeyByHash(`hash of ${idOf(ids, 'key')}`),
    sandboxes: (await store.sandboxes.search(owner, page)).items,
    running: (await store.sandboxes.listRunning(user)).map(({ id }) => id),
    pooled: (await store.sandboxes.get([idOf(ids, 'pooled'), idOf(ids, 'younger')])).map((row) => [
      row?.owner,
      row?.spec === spec,
    ]),
    granted: await store.sandboxes.listGrantedSecrets(idOf(ids, 'box')),
    conversations: (await store.conversations.search(owner, { ...page, sort_order: 'CREATED_AT' })).items,
    children: await store.conversations.listChildren(idOf(ids, 'c')),
    tasks: (await store.startTasks.search(owner, { ...page, sort_order: 'CREATED_AT' })).items,
    unfinished: (await store.startTasks.listUnfinished()).filter((task) => task.owner === user).length,
    used: await store.quota.getUsed(user, day),
    messages: (await store.pendingMessages.list(idOf(ids, 'c'))).map(({ id }) => id),
    settings: [
      String(await store.documents.get(user, 'settings')),
      String(await store.documents.get(user, 'last')),
    ],
  }
  // Ids are new in each round.
  return { seen: JSON.parse(JSON.stringify(seen).replaceAll(user, 'user').replaceAll(spec, 'spec')) }
}

export const storeOperations: readonly Operation<Store, StoreIds>[] = [
  {
    name: 'new sandbox',
    run: ({ sandboxes }, ids) => sandboxes.add(sandboxRow({ id: idOf(ids, 'new'), owner: ids.user })),
  },
  {
    name: 'pause',
    run: ({ sandboxes }, ids) => sandboxes.update(idOf(ids, 'box'), { wanted: 'paused', status: 'PAUSED' }),
  },
  {
    name: 'step of a reconciliation',
    run: ({ sandboxes }, ids) =>
      sandboxes.update(
        idOf(ids, 'box'),
        { epoch: 'e1', key_hash: ids.user },
        { where: { wanted: 'running' } },
      ),
  },
  {
    name: 'claim',
    run: ({ sandboxes }, ids) =>
      sandboxes.claim(idOf(ids, 'pooled'), { owner: ids.user, used_at: 5, sealed: Buffer.from('a claim') }),
  },
  {
    name: 'secrets of a sandbox',
    run: ({ sandboxes }, ids) => sandboxes.grantSecrets(idOf(ids, 'box'), ['B', 'C']),
  },
  { name: 'removed sandbox', run: ({ sandboxes }, ids) => sandboxes.remove(idOf(ids, 'box')) },
  {
    name: 'new conversation',
    run: ({ conversations }, ids) =>
      conversations.add(conversationRow({ id: idOf(ids, 'new'), owner: ids.user, parent: idOf(ids, 'c') }), {
        maxOfOwner: 5,
      }),
  },
  {
    name: 'title of a conversation',
    run: ({ conversations }, ids) => conversations.update(idOf(ids, 'c'), { title: 'new', updated_at: 7 }),
  },
  { name: 'removed conversation', run: ({ conversations }, ids) => conversations.remove(idOf(ids, 'c')) },
  {
    name: 'end of a start',
    run: ({ startTasks }, ids) =>
      startTasks.update(idOf(ids, 'task'), { status: 'READY', sandbox: idOf(ids, 'box'), updated_at: 7 }),
  },
  {
    name: 'new start',
    // After a failure the row says whether the slot is taken.
    run: async ({ startTasks }, ids) => {
      const row = taskRow({ id: idOf(ids, 'new'), owner: ids.user, quota_day: day })
      const [stored] = await startTasks.get([row.id])
      if (stored === undefined) await startTasks.add(row, { dailyLimit: 10 })
    },
  },
  {
    name: 'failed start',
    run: ({ startTasks }, ids) =>
      startTasks.update(idOf(ids, 'task'), { status: 'ERROR', quota_day: null, updated_at: 7 }),
  },
  { name: 'removed starts', run: ({ startTasks }, ids) => startTasks.removeByConversation(idOf(ids, 'c')) },
  {
    name: 'pending message',
    run: ({ pendingMessages }, ids) => pendingMessages.add(messageRow(idOf(ids, 'm2'), idOf(ids, 'c')), 10),
  },
  { name: 'delivered message', run: ({ pendingMessages }, ids) => pendingMessages.remove(idOf(ids, 'm1')) },
  {
    name: 'document',
    run: ({ documents }, { user }) => documents.update(user, 'settings', () => Buffer.from('second')),
  },
  {
    name: 'removed document',
    run: ({ documents }, { user }) => documents.update(user, 'settings', () => undefined),
  },
  { name: 'limits of a user', run: ({ users }, { user }) => users.setLimits(user, { max_sandboxes: 3 }) },
  { name: 'removed key', run: ({ users }, ids) => users.removeKey(ids.user, idOf(ids, 'key')) },
  { name: 'removed user', run: ({ users }, { user }) => users.removeUser(user) },
  {
    name: 'work that one server does alone',
    run: ({ leases, documents }, { user }) =>
      leases.runExclusive(user, () => documents.update(user, 'settings', () => Buffer.from('alone'))),
  },
]
