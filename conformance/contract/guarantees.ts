import { clocks } from './clocks.ts'
import { cuts } from './cuts.ts'
import { freezes } from './freezes.ts'
import { fullDisk } from './full-disk.ts'
import type { Guarantee } from './guarantee.ts'
import { idleSockets } from './idle-sockets.ts'
import { kills } from './kills.ts'
import { leases } from './leases.ts'
import { runKills } from './run-kills.ts'
import { sandboxKills } from './sandbox-kills.ts'
import { soak } from './soak.ts'
import { stalledReaders } from './stalled-reader.ts'
import { steadyMemory } from './steady-memory.ts'
import { damage } from './storage/damage.ts'
import { lostAnswers } from './storage/lost-answers.ts'
import { movedFiles } from './storage/moved-files.ts'
import { oldVersions } from './storage/old-versions.ts'
import { slowDisk } from './storage/slow-disk.ts'
import { zeroedPages } from './storage/zeroed-pages.ts'
import { twoServers } from './two-servers.ts'

/** By the name that `npm run contract -- NAME` takes. */
export const guarantees: Readonly<Record<string, Guarantee>> = {
  kills,
  'run-kills': runKills,
  'sandbox-kills': sandboxKills,
  cuts,
  freezes,
  'two-servers': twoServers,
  leases,
  clocks,
  'full-disk': fullDisk,
  'slow-disk': slowDisk,
  damage,
  'zeroed-pages': zeroedPages,
  'lost-answers': lostAnswers,
  'moved-files': movedFiles,
  'old-versions': oldVersions,
  'idle-sockets': idleSockets,
  'stalled-readers': stalledReaders,
  soak,
  'steady-memory': steadyMemory,
}
