import { Stats, statSync } from 'node:fs'

/** Functions of `node:fs/promises` that the file thread does, by the synchronous function of that name. */
export const fileOperations = [
  ...['link', 'lstat', 'mkdir', 'mkdtemp', 'readdir', 'readlink', 'realpath', 'rename', 'rm'],
  ...['rmdir', 'stat', 'symlink', 'unlink', 'utimes'],
] as const

export interface FileRequest {
  readonly id: number
  /** One of `fileOperations`, or `open`. */
  readonly name: string
  readonly args: readonly unknown[]
}

/** `id` 0: the thread is ready, or cannot be. */
export interface FileResponse {
  readonly id: number
  readonly value?: unknown
  readonly error?: { readonly message: string } & Readonly<Record<string, unknown>>
}

const kinds = [
  'isFile',
  'isDirectory',
  'isSymbolicLink',
  'isFIFO',
  'isSocket',
  'isBlockDevice',
  'isCharacterDevice',
]

/** A directory entry, without its methods. */
interface PlainEntry {
  readonly name: string | Uint8Array
  readonly parentPath: string
  readonly kind: string | undefined
}

type Entry = Omit<PlainEntry, 'kind'> & Readonly<Record<string, unknown>>

/** What a message can carry of a result: methods are lost in one. */
export function encodeResult(value: unknown): unknown {
  if (value instanceof Stats) return { stats: { ...value } }
  if (typeof Object(value).ino === 'bigint') return { bigStats: { ...Object(value) } }
  if (!Array.isArray(value) || typeof value[0] !== 'object' || !('isFile' in Object(value[0])))
    return { value }
  const entries = (value as Entry[]).map((entry): PlainEntry => {
    const kind = kinds.find((method) => (entry[method] as () => boolean).call(entry))
    return { name: entry.name, parentPath: entry.parentPath, kind }
  })
  return { entries }
}

export function decodeResult(result: unknown): unknown {
  const { value, stats, bigStats, entries } = result as {
    readonly value?: unknown
    readonly stats?: object
    readonly bigStats?: object
    readonly entries?: PlainEntry[]
  }
  if (stats !== undefined) return Object.assign(Object.create(Stats.prototype), stats)
  if (bigStats !== undefined) return Object.assign(Object.create(bigStatsPrototype()), bigStats)
  return entries?.map(decodeEntry) ?? value
}

/** Node does not export the class. */
function bigStatsPrototype(): object {
  return Object.getPrototypeOf(statSync('/', { bigint: true }))
}

function decodeEntry({ name, parentPath, kind }: PlainEntry): object {
  const methods = Object.fromEntries(kinds.map((method) => [method, () => method === kind]))
  return { name: typeof name === 'string' ? name : Buffer.from(name), parentPath, ...methods }
}
