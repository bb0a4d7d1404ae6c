import { clocks } from './clocks.ts'
import { cuts } from './cuts.ts'
import { damage } from './damage.ts'
import { freezes } from './freezes.ts'
import { fullDisk } from './full-disk.ts'
import type { Guarantee } from './guarantee.ts'
import { idleSockets } from './idle-sockets.ts'
import { kills } from './kills.ts'
import { runKills } from './run-kills.ts'
import { sandboxKills } from './sandbox-kills.ts'
import { soak } from './soak.ts'
import { stalledReaders } from './stalled-reader.ts'
import { twoServers } from './two-servers.ts'

/** By the name that `npm run contract -- NAME` takes. */
export const guarantees: Readonly<Record<string, Guarantee>> = {
  kills,
  'run-kills': runKills,
  'sandbox-kills': sandboxKills,
  cuts,
  freezes,
  'two-servers': twoServers,
  clocks,
  'full-disk': fullDisk,
  damage,
  'idle-sockets': idleSockets,
  'stalled-readers': stalledReaders,
  soak,
}
