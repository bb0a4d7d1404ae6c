import { hasMessageTexts, leafEventIdKey } from '@slipway/protocol'

const stateUpdateKind = 'ConversationStateUpdateEvent'
const leafUpdateKind = `${stateUpdateKind}\0${leafEventIdKey}`

/** A number with the kind and the source that it stands for. */
export type KindSource = readonly [number: number, kind: string, source: string]

/**
 * Numbers of the pairs of kind and source that events have; those of kinds with message texts are odd. State
 * updates that move the leaf have their own numbers, so that the few of a long log are found at once: in the
 * table their kind contains the key.
 */
export class KindSourceNumbers {
  readonly #numbers = new Map<string, number>()
  readonly #byKind = new Map<string, number[]>()
  readonly #bySource = new Map<string, number[]>()
  #leafUpdates: number[] = []
  #next = 1
  readonly #chooseNumber: () => number

  /** `chooseNumber` returns a number below 2^30 that is not in use; by default the next one. */
  constructor(chooseNumber?: () => number) {
    this.#chooseNumber = chooseNumber ?? (() => this.#next)
  }

  /** Forgets all pairs and adds these. */
  load(rows: readonly KindSource[]): void {
    for (const map of [this.#numbers, this.#byKind, this.#bySource]) map.clear()
    this.#leafUpdates = []
    for (const row of rows) this.#add(...row)
  }

  /** The number of a pair; calls `insert` with the row of a new one. */
  getNumber(eventKind: string, source: string, key: unknown, insert: (row: KindSource) => void): number {
    const kind = key === leafEventIdKey && eventKind === stateUpdateKind ? leafUpdateKind : eventKind
    const existing = this.#numbers.get(pairKey(kind, source))
    if (existing !== undefined) return existing
    const number = this.#chooseNumber() * 2 + (hasMessageTexts(kind) ? 1 : 0)
    insert([number, kind, source])
    this.#add(number, kind, source)
    return number
  }

  /** Numbers of the pairs that match the filters; undefined without a filter. */
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
    append(this.#byKind, kind === leafUpdateKind ? stateUpdateKind : kind, number)
    if (kind === leafUpdateKind) this.#leafUpdates.push(number)
    append(this.#bySource, source, number)
    this.#next = Math.max(this.#next, (number >> 1) + 1)
  }
}

/**
 * A kind, and the kind that a namespaced, versioned spelling of it names: its last segment, without `-Input`,
 * `-Output` and a version (`x.y.MessageEvent-Output__1` names MessageEvent).
 */
export function kindSpellings(kind: string): string[] {
  const bare = kind.replace(/(?:-(?:Input|Output))?(?:__\d+)?$/, '')
  const last = bare.split(/[.:/]|__/).at(-1) ?? ''
  return last === kind || last === '' ? [kind] : [kind, last]
}

function pairKey(kind: string, source: string): string {
  return `${kind.length}:${kind}${source}`
}

function append(lists: Map<string, number[]>, key: string, number: number): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [number])
  else list.push(number)
}
