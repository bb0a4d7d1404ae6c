import { writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { openPostgresControlPlaneStore } from '../control-plane-store.ts'

/** A process for tests: works under a lease, and prints each acknowledgement, then `refused`. */
const [, , url = ''] = process.argv
const { leases, documents } = await openPostgresControlPlaneStore({
  url,
  leaseTimes: { leaseMs: 3_000, renewMs: 200 },
})
const lease = await leases.tryAcquire('work')
for (let n = 1; ; n++) {
  try {
    await lease?.run(() => documents.update('', 'work', () => Buffer.from(String(n))))
    writeSync(1, `${n}\n`)
  } catch {
    writeSync(1, 'refused\n')
  }
  await pause(20)
}
