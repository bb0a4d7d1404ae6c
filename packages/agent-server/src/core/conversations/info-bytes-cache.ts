import type { Conversation } from '@slipway/agent'
import { LruMap } from '@slipway/shared/collections'
import type { ConversationRecord } from '@slipway/storage'

interface KeptInfo {
  readonly record: ConversationRecord
  readonly liveKey: string
  readonly bytes: Buffer
}

/** More than the largest page has. */
const maxKept = 1_000
/** Of the kept JSON and of the records that it was made of. */
const maxKeptBytes = 4_000_000

/** The JSON of conversations as lists show them, as long as all that it was made of stays the same. */
export class InfoBytesCache {
  readonly #kept = new LruMap<string, KeptInfo>({
    max: maxKept,
    maxSize: maxKeptBytes,
    sizeCalculation: ({ record, bytes }) => bytes.length + (record.request?.length ?? 0) + 1,
  })

  /** `liveKey`: what the JSON says besides the record. */
  get(record: ConversationRecord, liveKey: string): Buffer | undefined {
    const kept = this.#kept.get(record.id)
    if (kept?.liveKey !== liveKey || !isSameRecord(kept.record, record)) return undefined
    return kept.bytes
  }

  set(record: ConversationRecord, liveKey: string, bytes: Buffer): void {
    this.#kept.set(record.id, { record, liveKey, bytes })
  }
}

/** What the members of a conversation's info say that are not of its record: equal texts, equal members. */
export function liveKeyOf(loaded: Conversation | undefined, children: readonly string[]): string {
  const family = children.length === 0 ? '' : children.join()
  if (loaded === undefined) return family
  const { state, stats, isRunQueued } = loaded
  const { activatedSkills, invokedSkills, blockedMessages } = state
  const hasNone = activatedSkills.size === 0 && invokedSkills.size === 0 && blockedMessages.size === 0
  const members = hasNone
    ? ''
    : JSON.stringify([[...activatedSkills], [...invokedSkills], [...blockedMessages]])
  return `${stats.version} ${isRunQueued} ${family} ${members}`
}

function isSameRecord(a: ConversationRecord, b: ConversationRecord): boolean {
  if (a === b) return true
  return (
    a.updated_at === b.updated_at &&
    a.created_at === b.created_at &&
    a.head === b.head &&
    a.status === b.status &&
    a.title === b.title &&
    a.stats === b.stats &&
    a.request === b.request &&
    hasSameTags(a.tags, b.tags)
  )
}

/** In the same order too, which the JSON shows. */
function hasSameTags(a: ConversationRecord['tags'], b: ConversationRecord['tags']): boolean {
  const names = Object.keys(a)
  const others = Object.keys(b)
  return (
    names.length === others.length &&
    names.every((name, index) => name === others[index] && a[name] === b[name])
  )
}
