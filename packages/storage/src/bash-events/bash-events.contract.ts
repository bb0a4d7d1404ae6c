import { expect, test } from 'vitest'
import type { BashEventRange, BashEventRow, BashEvents, FinishedFilter } from './bash-events.ts'

/** Opens the same store again and again. */
export type OpenBashEvents = () => { open(): BashEvents } & Disposable

function row(
  instant: number,
  commandId: string,
  order: number,
  more: Partial<BashEventRow> = {},
): BashEventRow {
  const id = order === -1 ? commandId : `${commandId}-${order}`
  return {
    instant,
    id,
    commandId,
    conversationId: null,
    order,
    isLast: false,
    body: Buffer.from(`{"id":"${id}"}`),
    ...more,
  }
}

const rows = [
  row(1, 'a', -1),
  row(2, 'b', -1),
  row(3, 'a', 0),
  row(4, 'b', 0, { isLast: true }),
  row(5, 'a', 1),
  row(6, 'c', -1),
]

/** What every store of bash events promises. */
export function bashEventsContract(openStore: OpenBashEvents): void {
  test('events are read in order of time, each with what was added', () => {
    using store = openStore()
    using events = store.open()
    expect(events.lastInstant).toBe(0)
    events.add(rows)
    expect([...events.read({})]).toEqual(rows)
    expect(events.get('b-0')).toEqual(rows[3])
    expect(events.get('none')).toBeUndefined()
    expect(events.lastInstant).toBe(6)
    expect(events.totals).toEqual({
      count: 6,
      sizeBytes: rows.reduce((sum, { body }) => sum + body.length, 0),
    })
  })

  test.each<[BashEventRange, number[]]>([
    [{ commandId: 'a' }, [1, 3, 5]],
    [{ kind: 'BashCommand' }, [1, 2, 6]],
    [{ kind: 'BashOutput', isDescending: true }, [5, 4, 3]],
    [{ orderAfter: 0 }, [1, 2, 5, 6]],
    [{ from: 2, to: 5 }, [2, 3, 4]],
    [{ from: 2, to: 5, commandId: 'b', kind: 'BashOutput', orderAfter: -1, isDescending: true }, [4]],
    [{ commandId: 'none' }, []],
  ])('%j selects events', (range, expected) => {
    using store = openStore()
    using events = store.open()
    events.add(rows)
    expect([...events.read(range)].map(({ instant }) => instant)).toEqual(expected)
  })

  test('an event that is stored already is left out', () => {
    using store = openStore()
    using events = store.open()
    events.add(rows.slice(0, 3))
    events.add(rows)
    expect([...events.read({})]).toEqual(rows)
    expect(events.totals.count).toBe(6)
  })

  test('commands are finished, unfinished or removed as a whole', () => {
    using store = openStore()
    using events = store.open()
    events.add(rows)
    expect(events.unfinished()).toEqual([
      { commandId: 'a', conversationId: null, nextOrder: 2 },
      { commandId: 'c', conversationId: null, nextOrder: 0 },
    ])
    const b = { commandId: 'b', count: 2, sizeBytes: 10 + 12 }
    expect(events.finished()).toEqual([b])
    expect([events.finished({ endedBefore: 4 }), events.finished({ endedBefore: 5 })]).toEqual([[], [b]])
    expect(events.remove(['a', 'none'])).toBe(3)
    expect([...events.read({})].map(({ id }) => id)).toEqual(['b', 'b-0', 'c'])
    expect(events.totals.count).toBe(3)
    events.compact()
  })

  test('commands of a conversation are read and listed apart', () => {
    using store = openStore()
    using events = store.open()
    const conversationId = 'one'
    const own = [row(7, 'd', -1, { conversationId }), row(8, 'd', 0, { conversationId, isLast: true })]
    events.add([...rows, ...own])
    const instants = (range: BashEventRange) => [...events.read(range)].map(({ instant }) => instant)
    expect(instants({ conversationId })).toEqual([7, 8])
    expect(instants({ conversationId: null })).toEqual([1, 2, 3, 4, 5, 6])
    expect(instants({ conversationId: 'two' })).toEqual([])
    expect(instants({})).toHaveLength(8)
    const names = (filter: FinishedFilter) => events.finished(filter).map(({ commandId }) => commandId)
    expect([names({ conversationId }), names({ conversationId: null }), names({})]).toEqual([
      ['d'],
      ['b'],
      ['b', 'd'],
    ])
    expect(events.get('d-0')).toEqual(own[1])
  })

  test('an event in memory counts like the others until the store is closed', () => {
    using store = openStore()
    const last = row(7, 'a', 2, { isLast: true })
    {
      using events = store.open()
      events.add(rows)
      events.addInMemory(last)
      expect([...events.read({ commandId: 'a' })]).toEqual([rows[0], rows[2], rows[4], last])
      expect([events.get('a-2'), events.lastInstant, events.totals.count]).toEqual([last, 7, 7])
      expect(events.finished().map(({ commandId }) => commandId)).toEqual(['a', 'b'])
    }
    using events = store.open()
    expect([...events.read({})]).toEqual(rows)
    expect(events.unfinished().map(({ commandId }) => commandId)).toEqual(['a', 'c'])
  })
}
