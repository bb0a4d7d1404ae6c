import { leafKey } from '@slipway/protocol'
import type { Database } from '../database/database.ts'

const keyed = 'ConversationStateUpdateEvent'
const withLeafKey = `${keyed}\0${leafKey}`

/**
 * Pairs of kind and source that events have, as small numbers; those of messages are odd. State updates that move the leaf
 * have numbers of their own, so that the few of a long log are found at once: in the table their kind carries the key.
 */
export class Facets {
  readonly #db: Database
  readonly #numbers = new Map<string, number>()
  readonly #byKind = new Map<string, number[]>()
  readonly #bySource = new Map<string, number[]>()
  readonly #byKey: number[] = []
  #unsaved: (() => void)[] = []
  #next = 1

  constructor(db: Database) {
    this.#db = db
    for (const [number, kind, source] of db.rows<[number, string, string]>(
      'SELECT number, kind, source FROM facet',
    )) {
      this.#learn(number, kind, source)
    }
  }

  /** The number of a pair, written in the transaction that is open when it is a new one. */
  number(given: string, source: string, key?: unknown): number {
    const kind = key === leafKey && given === keyed ? withLeafKey : given
    const known = this.#numbers.get(keyOf(kind, source))
    if (known !== undefined) return known
    const number = this.#next * 2 + (kind === 'MessageEvent' ? 1 : 0)
    this.#db.run('INSERT INTO facet (number, kind, source) VALUES (?, ?, ?)', number, kind, source)
    this.#learn(number, kind, source)
    this.#unsaved.push(() => this.#forget(number, kind, source))
    return number
  }

  /** The transaction in which new pairs were written has ended. */
  settle(isSaved: boolean): void {
    if (this.#unsaved.length === 0) return
    if (!isSaved) for (const undo of this.#unsaved) undo()
    this.#unsaved = []
  }

  /** Those that match the filters, undefined when there is none to match. */
  matching(
    kind: string | undefined,
    source: string | undefined,
    key?: typeof leafKey,
  ): readonly number[] | undefined {
    if (key !== undefined) return this.#byKey
    const ofSource = source === undefined ? undefined : (this.#bySource.get(source) ?? [])
    if (kind === undefined) return ofSource
    const ofKind = spellings(kind).flatMap((spelling) => this.#byKind.get(spelling) ?? [])
    return ofSource === undefined ? ofKind : ofKind.filter((number) => ofSource.includes(number))
  }

  #learn(number: number, kind: string, source: string): void {
    this.#numbers.set(keyOf(kind, source), number)
    for (const list of this.#lists(kind, source)) list.push(number)
    this.#next = Math.max(this.#next, (number >> 1) + 1)
  }

  #forget(number: number, kind: string, source: string): void {
    this.#numbers.delete(keyOf(kind, source))
    for (const list of this.#lists(kind, source)) list.splice(list.indexOf(number), 1)
  }

  #lists(kind: string, source: string): number[][] {
    const isMove = kind === withLeafKey
    const lists = [listIn(this.#byKind, isMove ? keyed : kind), listIn(this.#bySource, source)]
    return isMove ? [...lists, this.#byKey] : lists
  }
}

/**
 * A kind as given, and the kind that a namespaced, versioned spelling of it names: its last segment, without
 * `-Input`, `-Output` and a version (`x.y.MessageEvent-Output__1` names MessageEvent).
 */
export function spellings(kind: string): string[] {
  const bare = kind.replace(/(?:-(?:Input|Output))?(?:__\d+)?$/, '')
  const last = bare.split(/[.:/]|__/).at(-1) ?? ''
  return last === kind || last === '' ? [kind] : [kind, last]
}

function keyOf(kind: string, source: string): string {
  return `${kind.length}:${kind}${source}`
}

function listIn(map: Map<string, number[]>, key: string): number[] {
  let list = map.get(key)
  if (list === undefined) {
    list = []
    map.set(key, list)
  }
  return list
}
