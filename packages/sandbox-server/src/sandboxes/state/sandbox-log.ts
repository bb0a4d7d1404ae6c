import type { Clock } from '@slipway/shared/time'
import type { SandboxEventRows, SandboxRow } from '@slipway/storage/control-plane'
import type { Backend } from '../../backends/backend.ts'
import type { SandboxSecrets } from './sandbox-secrets.ts'
import { redactOutput, secretValues } from './status-detail.ts'

const maxBytes = 256 * 1024
const maxSavedBytes = 64 * 1024
/** A removal waits no longer for the log. */
const saveTimeoutMs = 5_000

interface SandboxLogDeps {
  readonly clock: Clock
  readonly sandboxEvents: Pick<SandboxEventRows, 'saveLog'>
  /** Texts that are secrets of an owner, beside those of the sandbox. */
  readonly findSecrets?: ((owner: string | null) => Promise<readonly string[]>) | undefined
}

type Reader = Pick<Backend, 'readLog'>

/** The logs of sandboxes, without secrets: what is there, and what is kept of one that is removed. */
export function sandboxLogs({ clock, sandboxEvents, findSecrets }: SandboxLogDeps) {
  const read = async (
    row: SandboxRow,
    backend: Reader,
    secrets: SandboxSecrets | undefined,
    bytes: number,
  ) => {
    const values = [...(secrets === undefined ? [] : secretValues(secrets))]
    values.push(...((await findSecrets?.(row.owner)) ?? []))
    return redactOutput(await backend.readLog(row.id, bytes), values)
  }
  return {
    readLog: (row: SandboxRow, backend: Reader, secrets: SandboxSecrets | undefined) =>
      read(row, backend, secrets, maxBytes),
    async saveLog(row: SandboxRow, backend: Reader, secrets: SandboxSecrets | undefined): Promise<void> {
      const done = new AbortController()
      const late = clock.sleep(saveTimeoutMs, { signal: done.signal }).then(() => {
        throw new Error('its log was not read in time')
      })
      try {
        const text = await Promise.race([read(row, backend, secrets, maxSavedBytes), late])
        const { id: sandbox, owner, org } = row
        if (text !== '')
          await sandboxEvents.saveLog({ sandbox, owner, org, text, created_at: clock.now() * 1000 })
      } finally {
        done.abort()
        late.catch(() => {})
      }
    },
  }
}
