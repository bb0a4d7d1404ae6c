import { randomUUID } from 'node:crypto'
import { writeSync } from 'node:fs'
import { openControlPlaneStore } from '../control-plane-store.ts'

/** A process for tests: writes to a store and prints each acknowledgement at once. */
const [, , directory = ''] = process.argv
const { sandboxes, conversations, startTasks, documents, pendingMessages } = await openControlPlaneStore({
  directory,
})
const day = '2026-01-31'
const moments = { created_at: 1, changed_at: 1, updated_at: 1, used_at: 1 }
const sandbox = {
  ...moments,
  owner: null,
  org: null,
  spec: 'small',
  backend: 'process',
  wanted: 'running',
  status: 'RUNNING',
  detail: null,
  key_hash: null,
  sealed: Buffer.from('sealed'),
  epoch: null,
  addresses: '{}',
  caught_up_at: null,
  deletes_at: null,
} as const
const conversation = {
  ...moments,
  owner: null,
  org: null,
  sandbox: 's',
  parent: null,
  title: 'first',
  status: null,
  members: '{}',
}
const task = {
  ...moments,
  ...{ owner: 'u', org: null, status: 'READY', detail: null, conversation: null, sandbox: null },
  ...{ agent_url: null, request: '{}', quota_day: day },
}
const message = { target: 't', owner: null, message: '{}', created_at: 1 }

function print(...words: (string | number)[]): void {
  writeSync(1, `${words.join(' ')}\n`)
}

/** Adds, perhaps claims and perhaps removes a sandbox; adds, retitles and perhaps removes a conversation. */
async function writeRows(number: number): Promise<void> {
  const id = randomUUID()
  await sandboxes.add({ ...sandbox, id, created_at: number })
  print('added', id)
  const [pooled] = await sandboxes.listPooled('small')
  const sealed = Buffer.from(`u${number}`)
  const claimed = pooled && (await sandboxes.claim(pooled.id, { owner: `u${number}`, sealed }))
  if (claimed !== undefined) print('claimed', claimed.id, `u${number}`)
  await conversations.add({ ...conversation, id })
  print('titled', id, 'first')
  if (number % 2 === 0) {
    await conversations.update(id, { title: 'second' })
    print('titled', id, 'second')
  }
  if (number % 5 === 0) {
    print('removing', id)
    await Promise.all([conversations.remove(id), sandboxes.remove(id)])
    print('removed', id)
  }
}

async function writeCounters(): Promise<void> {
  const { used } = await startTasks.add({ ...task, id: randomUUID() })
  print('used', used)
  let length = 0
  await documents.update('u', 'd', (old) => {
    length = (old?.length ?? 0) + 1
    return Buffer.alloc(length, 'x')
  })
  print('length', length)
  const position = await pendingMessages.add({ ...message, id: randomUUID() }, Number.MAX_SAFE_INTEGER)
  print('waiting', position ?? 0)
}

for (let i = 0; ; i++) await Promise.all([writeRows(2 * i), writeRows(2 * i + 1), writeCounters()])
