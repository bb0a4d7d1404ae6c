import { Problem } from '@slipway/protocol'
import { OwnOrigin, type OwnOriginOptions } from './own-origin.ts'

/** The origins of owners, each open from the first call to the end of its owner. */
export class OriginPool implements AsyncDisposable {
  readonly #options: Pick<OwnOriginOptions, 'log' | 'clock'>
  readonly #origins = new Map<object, Promise<OwnOrigin>>()
  readonly #closing = new Set<Promise<void>>()
  #isClosed = false

  constructor(options: Pick<OwnOriginOptions, 'log' | 'clock'>) {
    this.#options = options
  }

  /** The origin of an owner, until `ended` aborts. */
  async open(
    owner: object,
    options: Pick<OwnOriginOptions, 'label' | 'target'> & { readonly ended: AbortSignal },
  ): Promise<OwnOrigin> {
    const open = this.#origins.get(owner)
    if (open !== undefined) return await open
    const { ended } = options
    if (this.#isClosed || ended.aborted) throw new Problem('unavailable', 'What this address shows has ended')
    const opening = OwnOrigin.open({ ...this.#options, ...options })
    this.#origins.set(owner, opening)
    const close = () => this.#close(owner)
    ended.addEventListener('abort', close, { once: true })
    opening.catch(() => {
      ended.removeEventListener('abort', close)
      this.#origins.delete(owner)
    })
    return await opening
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    for (const owner of [...this.#origins.keys()]) this.#close(owner)
    await Promise.all(this.#closing)
  }

  #close(owner: object): void {
    const opening = this.#origins.get(owner)
    if (opening === undefined) return
    this.#origins.delete(owner)
    const closed = opening
      .then(async (origin) => await origin.close())
      .catch(() => {})
      .finally(() => this.#closing.delete(closed))
    this.#closing.add(closed)
  }
}
