import type { Clock } from '@slipway/shared/time'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { AgentInstance } from '../../network/agent-server-probe.ts'

/** One that is noted before it is RUNNING is no orphan yet. */
const keptMs = 600_000

interface Noted {
  readonly epoch: string | null
  readonly instance: AgentInstance
  readonly at: number
}

/**
 * Which start of its agent server a sandbox had when it was last asked; another one has none of the settings
 * that it got since.
 */
export class AgentInstances {
  readonly #noted = new Map<string, Noted>()
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Undefined also when its processes were started again meanwhile. */
  find({ id, epoch }: Pick<SandboxRow, 'id' | 'epoch'>): AgentInstance | undefined {
    const noted = this.#noted.get(id)
    return noted?.epoch === epoch ? noted.instance : undefined
  }

  /** Nothing is known after `undefined`. */
  note({ id, epoch }: Pick<SandboxRow, 'id' | 'epoch'>, instance: AgentInstance | undefined): void {
    if (instance === undefined) this.#noted.delete(id)
    else this.#noted.set(id, { epoch, instance, at: this.#clock.now() })
  }

  /** Forgets the others, but those of the last minutes. */
  retain(isRunning: (id: string) => boolean): void {
    const before = this.#clock.now() - keptMs
    for (const [id, { at }] of this.#noted) if (at < before && !isRunning(id)) this.#noted.delete(id)
  }
}
