import fc from 'fast-check'
import { expect, test } from 'vitest'
import { foldCase } from '../text/case-folding.ts'
import type { AppConversationFilter, AppConversationRow } from './app-conversations.ts'
import type { ControlPlaneStore } from './control-plane-store.ts'
import type { Scope } from './rows.ts'
import {
  conversationRow,
  type OpenStore,
  rowIds,
  sandboxRow,
  taskRow,
  walkPages,
} from './testing/sample-rows.ts'

type Sort = Parameters<ControlPlaneStore['conversations']['search']>[1]['sort_order']

const sorts: readonly Sort[] = [
  'CREATED_AT',
  'CREATED_AT_DESC',
  'UPDATED_AT',
  'UPDATED_AT_DESC',
  'TITLE',
  'TITLE_DESC',
]
const titles = [
  null,
  '',
  'a',
  'B',
  'ab',
  'ß',
  'Straße',
  '😀',
  '\uffff',
  'A'.repeat(300),
  `${'a'.repeat(300)}b`,
]
const moment = fc.integer({ min: 0, max: 4 })
const members = fc.record({
  owner: fc.constantFrom(null, 'a', 'a', 'b'),
  org: fc.constantFrom(null, 'o'),
  sandbox: fc.constantFrom('s', 't'),
  parent: fc.constantFrom(null, null, 'p'),
  title: fc.constantFrom(...titles),
  created_at: moment,
  updated_at: moment,
})
const filters = fc.record(
  {
    title__contains: fc.constantFrom('', 'A', 'SS', 'ß'),
    created_at__gte: moment,
    created_at__lt: moment,
    updated_at__gte: moment,
    updated_at__lt: moment,
    sandbox_id__eq: fc.constantFrom('s', 't', 'x'),
    include_sub_conversations: fc.boolean(),
  },
  { requiredKeys: [] },
)
const scopes = fc.record(
  { owner: fc.constantFrom(null, 'a', 'a', 'b'), org: fc.constantFrom('o', 'x') },
  { requiredKeys: ['owner'] },
)

function matches(row: AppConversationRow, { owner, org }: Scope, filter: AppConversationFilter): boolean {
  const { created_at__gte = 0, created_at__lt = 9, updated_at__gte = 0, updated_at__lt = 9 } = filter
  return (
    row.owner === owner &&
    (org === undefined || row.org === org) &&
    foldCase(row.title ?? '').includes(foldCase(filter.title__contains ?? '')) &&
    row.created_at >= created_at__gte &&
    row.created_at < created_at__lt &&
    row.updated_at >= updated_at__gte &&
    row.updated_at < updated_at__lt &&
    (filter.sandbox_id__eq === undefined || row.sandbox === filter.sandbox_id__eq) &&
    (filter.include_sub_conversations === true || row.parent === null)
  )
}

/** The order of the rows computed differently: texts as code points, independent of the locale. */
function compare(sort: Sort): (x: AppConversationRow, y: AppConversationRow) => number {
  const by = (row: AppConversationRow) => {
    if (sort.startsWith('TITLE')) return Buffer.from([...foldCase(row.title ?? '')].slice(0, 100).join(''))
    const at = Buffer.alloc(4)
    at.writeUInt32BE(sort.startsWith('CREATED') ? row.created_at : row.updated_at)
    return at
  }
  const sign = sort.endsWith('_DESC') ? -1 : 1
  return (x, y) => sign * (Buffer.compare(by(x), by(y)) || (x.id < y.id ? -1 : 1))
}

/** What a walk over pages must give. */
export function pageWalkContract(open: OpenStore): void {
  test('pages of conversations form the filtered list in order, for every filter and order, and counts agree', async () => {
    await using fixture = await open()
    const { conversations } = fixture.store
    const rows: AppConversationRow[] = []
    const inputs = fc.tuple(
      fc.array(members, { maxLength: 12 }),
      scopes,
      filters,
      fc.constantFrom(...sorts),
      fc.integer({ min: 1, max: 5 }),
    )
    await fc.assert(
      fc.asyncProperty(inputs, async ([added, scope, filter, sort_order, limit]) => {
        for (const row of rows.splice(0)) await conversations.remove(row.id)
        rows.push(...added.map((each, i) => conversationRow({ ...each, id: `c${i}` })))
        await Promise.all(rows.map((row) => conversations.add(row)))
        const walked = await walkPages(
          (query) => conversations.search(scope, { ...query, ...filter, sort_order }),
          limit,
        )
        const expected = rows.filter((row) => matches(row, scope, filter)).sort(compare(sort_order))
        expect(walked).toEqual(expected)
        expect(await conversations.count(scope, filter)).toBe(expected.length)
      }),
      { numRuns: 200 },
    )
  })

  test('pages list every permanent row once while others are added and removed', async () => {
    const inputs = fc.tuple(
      fc.array(members, { minLength: 1, maxLength: 12 }),
      fc.array(fc.array(fc.tuple(fc.boolean(), members), { maxLength: 3 }), { maxLength: 8 }),
      fc.constantFrom(...sorts),
      fc.integer({ min: 1, max: 3 }),
    )
    await fc.assert(
      fc.asyncProperty(inputs, async ([first, steps, sort_order, limit]) => {
        await using fixture = await open()
        const { conversations } = fixture.store
        let rowsById = 0
        const add = (each: Partial<AppConversationRow>) =>
          conversations.add(conversationRow({ ...each, id: `c${rowsById++}`, owner: 'a', parent: null }))
        for (const each of first) await add(each)
        const stays = new Set(Array.from({ length: rowsById }, (_, i) => `c${i}`))
        let last: AppConversationRow | undefined
        const search = async (query: { limit: number; page_id?: string | undefined }) => {
          const page = await conversations.search({ owner: 'a' }, { ...query, sort_order })
          last = page.items.at(-1)
          return page
        }
        const between = async () => {
          for (const [isAdded, each] of steps.shift() ?? []) {
            if (isAdded) await add(each)
            // The row at which the page ended: the one that a walk could stumble over.
            else if (last !== undefined) {
              await conversations.remove(last.id)
              stays.delete(last.id)
            }
          }
        }
        const walked = rowIds(await walkPages(search, limit, between))
        expect(new Set(walked).size).toBe(walked.length)
        for (const id of stays) expect(walked).toContain(id)
      }),
      { numRuns: 60 },
    )
  })

  test('pages of sandboxes and start tasks form the whole list, also with equal timestamps', async () => {
    await using fixture = await open()
    const { sandboxes, startTasks } = fixture.store
    const ids = Array.from({ length: 11 }, (_, i) => `x${String(i).padStart(2, '0')}`)
    for (const [i, id] of ids.entries()) {
      await sandboxes.add(sandboxRow({ id, created_at: i >> 2 }))
      const status = i % 2 === 0 ? 'READY' : 'WORKING'
      const conversation = i % 3 === 0 ? 'c' : null
      await startTasks.add(taskRow({ id, status, conversation, created_at: i >> 2, updated_at: 20 - i }))
    }
    const scope = { owner: 'alice' }
    const descending = ids.toReversed()
    for (const limit of [1, 2, 4, 11, 12]) {
      expect(rowIds(await walkPages((query) => sandboxes.search(scope, query), limit))).toEqual(descending)
      const tasks = (members: object, sort_order: 'CREATED_AT_DESC' | 'UPDATED_AT') =>
        walkPages((query) => startTasks.search(scope, { ...query, ...members, sort_order }), limit)
      expect(rowIds(await tasks({}, 'CREATED_AT_DESC'))).toEqual(descending)
      expect(rowIds(await tasks({}, 'UPDATED_AT'))).toEqual(descending)
      expect(rowIds(await tasks({ conversation_id__eq: 'c' }, 'UPDATED_AT'))).toEqual([
        'x09',
        'x06',
        'x03',
        'x00',
      ])
      expect(await tasks({ created_at__gte: 2 }, 'CREATED_AT_DESC')).toHaveLength(3)
    }
    expect(await startTasks.count(scope, {})).toBe(11)
    expect(await startTasks.count(scope, { conversation_id__eq: 'c', created_at__gte: 1 })).toBe(2)
    expect(await startTasks.count({ owner: null }, {})).toBe(0)
  })

  test('an invalid page id, or that of another list or order, is refused with its location', async () => {
    await using fixture = await open()
    const { conversations, sandboxes, users } = fixture.store
    for (const id of ['a', 'b']) {
      await conversations.add(conversationRow({ id, title: '€' }))
      await sandboxes.add(sandboxRow({ id }))
    }
    const scope = { owner: 'alice' }
    const search = (sort_order: Sort, page_id?: string) =>
      conversations.search(scope, { limit: 1, sort_order, page_id })
    const { next_page_id } = await search('TITLE')
    const good = String(next_page_id)
    expect(rowIds((await search('TITLE', good)).items)).toEqual(['b'])
    expect(rowIds((await search('TITLE', '')).items)).toEqual(['a'])
    const refused = { code: 'invalid', issues: [{ loc: ['query', 'page_id'] }] }
    const forged = ['{}', '[]', '["app_conversation_title+"]', '["app_conversation_title+",{},"a"]', '1'].map(
      (json) => `r1_${Buffer.from(json).toString('base64url')}`,
    )
    const bad = [
      '1',
      'r1_',
      'a',
      `${good}=`,
      good.slice(0, -1),
      `${good}x`,
      good.toUpperCase(),
      '\0',
      ...forged,
    ]
    for (const page_id of bad) await expect(search('TITLE', page_id)).rejects.toMatchObject(refused)
    for (const sort of ['TITLE_DESC', 'CREATED_AT'] as const)
      await expect(search(sort, good)).rejects.toMatchObject(refused)
    await expect(sandboxes.search(scope, { limit: 1, page_id: good })).rejects.toMatchObject(refused)
    await expect(users.listUsers({ limit: 1, page_id: good })).rejects.toMatchObject(refused)
    await fc.assert(
      fc.asyncProperty(fc.string(), async (text) => {
        await expect(search('TITLE', `r1_${text}`)).rejects.toMatchObject(refused)
      }),
    )
  })
}
