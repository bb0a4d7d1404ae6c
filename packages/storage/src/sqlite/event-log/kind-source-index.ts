import { leafEventIdKey } from '@slipway/protocol'
import type { Database } from '../database/database.ts'

const stateUpdateKind = 'ConversationStateUpdateEvent'
const leafUpdateKind = `${stateUpdateKind}\0${leafEventIdKey}`

/**
 * Pairs of kind and source that events have, as small numbers; those of messages are odd. State updates that move the leaf
 * have numbers of their own, so that the few of a long log are found at once: in the table their kind carries the key.
 */
export class KindSourceIndex {
  readonly #db: Database
  readonly #numbers = new Map<string, number>()
  readonly #byKind = new Map<string, number[]>()
  readonly #bySource = new Map<string, number[]>()
  readonly #leafUpdates: number[] = []
  #undoActions: (() => void)[] = []
  #next = 1

  constructor(db: Database) {
    this.#db = db
    for (const [number, kind, source] of db.all<[number, string, string]>(
      'SELECT number, kind, source FROM facet',
    )) {
      this.#add(number, kind, source)
    }
  }

  /** The number of a pair, written in the transaction that is open when it is a new one. */
  getNumber(eventKind: string, source: string, key?: unknown): number {
    const kind = key === leafEventIdKey && eventKind === stateUpdateKind ? leafUpdateKind : eventKind
    const existing = this.#numbers.get(pairKey(kind, source))
    if (existing !== undefined) return existing
    const number = this.#next * 2 + (kind === 'MessageEvent' ? 1 : 0)
    this.#db.run('INSERT INTO facet (number, kind, source) VALUES (?, ?, ?)', number, kind, source)
    this.#add(number, kind, source)
    this.#undoActions.push(() => this.#remove(number, kind, source))
    return number
  }

  /** The transaction in which new pairs were written has ended. */
  afterTransaction(isCommitted: boolean): void {
    if (this.#undoActions.length === 0) return
    if (!isCommitted) for (const undo of this.#undoActions) undo()
    this.#undoActions = []
  }

  /** Those that match the filters, undefined when there is none to match. */
  matching(
    kind: string | undefined,
    source: string | undefined,
    key?: typeof leafEventIdKey,
  ): readonly number[] | undefined {
    if (key !== undefined) return this.#leafUpdates
    const sourceNumbers = source === undefined ? undefined : (this.#bySource.get(source) ?? [])
    if (kind === undefined) return sourceNumbers
    const kindNumbers = kindSpellings(kind).flatMap((spelling) => this.#byKind.get(spelling) ?? [])
    return sourceNumbers === undefined
      ? kindNumbers
      : kindNumbers.filter((number) => sourceNumbers.includes(number))
  }

  #add(number: number, kind: string, source: string): void {
    this.#numbers.set(pairKey(kind, source), number)
    for (const list of this.#lists(kind, source)) list.push(number)
    this.#next = Math.max(this.#next, (number >> 1) + 1)
  }

  #remove(number: number, kind: string, source: string): void {
    this.#numbers.delete(pairKey(kind, source))
    for (const list of this.#lists(kind, source)) list.splice(list.indexOf(number), 1)
  }

  #lists(kind: string, source: string): number[][] {
    const isLeafUpdate = kind === leafUpdateKind
    const lists = [
      getOrCreateList(this.#byKind, isLeafUpdate ? stateUpdateKind : kind),
      getOrCreateList(this.#bySource, source),
    ]
    return isLeafUpdate ? [...lists, this.#leafUpdates] : lists
  }
}

/**
 * A kind as given, and the kind that a namespaced, versioned spelling of it names: its last segment, without
 * `-Input`, `-Output` and a version (`x.y.MessageEvent-Output__1` names MessageEvent).
 */
export function kindSpellings(kind: string): string[] {
  const bare = kind.replace(/(?:-(?:Input|Output))?(?:__\d+)?$/, '')
  const last = bare.split(/[.:/]|__/).at(-1) ?? ''
  return last === kind || last === '' ? [kind] : [kind, last]
}

function pairKey(kind: string, source: string): string {
  return `${kind.length}:${kind}${source}`
}

function getOrCreateList(map: Map<string, number[]>, key: string): number[] {
  let list = map.get(key)
  if (list === undefined) {
    list = []
    map.set(key, list)
  }
  return list
}
