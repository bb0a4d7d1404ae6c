import type { LogFunction } from '@slipway/protocol'
import { maxIdleMs, PostgresDatabase } from './database/database.ts'
import type { StorageContext } from './event-log/event-log.ts'
import type { SharedData } from './group-commit/log-heads.ts'
import { ChangeNotices } from './leases/change-notices.ts'
import { ChangePoll } from './leases/change-poll.ts'
import { PostgresConversationLeases } from './leases/conversation-leases.ts'
import { Registration } from './leases/registration.ts'

interface SharingOptions {
  readonly db: PostgresDatabase
  readonly url: string
  readonly directUrl: string
  readonly leaseMs: number
  readonly log: LogFunction
}

/** Work of the storage that the end of another server makes necessary. */
interface Leftovers {
  removeLeftover(leftover: {
    readonly ordinal: number
    readonly above: number
    readonly epoch: number
  }): Promise<void>
  resume(): Promise<void>
}

/** A renewal, and a statement that hangs. */
export const ownConnections = 2
/** Between two looks for what servers that are gone have left, and for deliveries that no notice told of. */
const leftoversMs = 30_000

/** A transaction of a server that stands still ends well before its lease. */
export function idleMsOf(leaseMs: number): number {
  return Math.min(maxIdleMs, leaseMs / 2)
}

/** What a server needs to share the data with others: its registration, leases, and notices of changes. */
export class Sharing implements AsyncDisposable {
  readonly leases: PostgresConversationLeases
  readonly sharedData: SharedData
  readonly #options: SharingOptions
  readonly #registration: Registration
  readonly #resources: AsyncDisposableStack
  #notices: ChangeNotices | undefined
  #storage: { readonly context: StorageContext; readonly leftovers: Leftovers } | undefined
  #leftoversAtMs = 0

  private constructor(
    options: SharingOptions,
    registration: Registration,
    leases: PostgresConversationLeases,
    resources: AsyncDisposableStack,
  ) {
    this.#options = options
    this.#registration = registration
    this.leases = leases
    this.#resources = resources
    this.sharedData = {
      get server() {
        return registration.id
      },
      isHeld: (conversation) => leases.isHeld(conversation),
      forget: (conversations) => leases.forget(conversations),
      notify: (conversations) => this.#notices?.notify(conversations),
    }
  }

  /** Rejects with a plain Error while a server owns the data alone. */
  static async open(options: SharingOptions): Promise<Sharing> {
    const { db, url, leaseMs, log } = options
    await using resources = new AsyncDisposableStack()
    const ownDb = new PostgresDatabase(url, log, { connections: ownConnections, idleMs: idleMsOf(leaseMs) })
    resources.defer(() => ownDb.close())
    const registration: Registration = resources.use(
      await Registration.open({
        ...{ db: ownDb, leaseMs, log },
        onLost: () => leases.lose(),
        onSweep: () => sharing.#sweep(),
      }),
    )
    const leases = new PostgresConversationLeases({
      ...{ db, registration },
      onAcquired: (lease) => sharing.#refresh(lease),
    })
    const sharing = new Sharing(options, registration, leases, resources.move())
    return sharing
  }

  get epoch(): number {
    return this.#registration.epoch
  }

  /** Begins to tend the leases, and to tell and hear of changes. */
  async start(context: StorageContext, leftovers: Leftovers): Promise<void> {
    this.#storage = { context, leftovers }
    const { liveTails, deliveries, heads } = context
    const { db, directUrl, log } = this.#options
    const onChanged = (conversation: string) => {
      if (!this.leases.isHeld(conversation)) deliveries.markChanged(conversation)
    }
    this.#notices = this.#resources.use(
      await ChangeNotices.open(
        {
          ...{ db, url: directUrl, log },
          onChanged: (conversations) => {
            if (conversations === undefined) liveTails.notifyAll()
            for (const id of conversations ?? []) {
              const ordinal = heads.ordinalOf(id)
              if (ordinal !== undefined) liveTails.get(ordinal)?.signal.notify()
              onChanged(id)
            }
          },
        },
        this.#registration.id,
      ),
    )
    this.#resources.use(
      new ChangePoll({
        db,
        listFollowed: () => liveTails.ordinals,
        onFollowedChanged: (ordinal) => liveTails.get(ordinal)?.signal.notify(),
        onChanged,
      }),
    )
    this.#registration.start()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync()
  }

  /** Memory of a conversation that another server may have written is read again. */
  async #refresh(lease: {
    readonly conversation: string
    readonly ordinal: number
    readonly epoch: number
    readonly above: number | undefined
  }): Promise<void> {
    const { ordinal, epoch, above } = lease
    const { context, leftovers } = this.#storage ?? {}
    if (above !== undefined) await leftovers?.removeLeftover({ ordinal, epoch, above })
    context?.heads.forget(lease.conversation)
    context?.liveTails.get(ordinal)?.reset()
  }

  async #sweep(): Promise<void> {
    if (performance.now() >= this.#leftoversAtMs) {
      this.#leftoversAtMs = performance.now() + leftoversMs
      await this.#storage?.leftovers.resume()
      this.#storage?.context.deliveries.reload()
    }
    await this.leases.reportOrphans()
  }
}
