import { backendContract } from '../backend.contract.ts'
import { copyFilesContract } from '../copy-files.contract.ts'
import { openProcessBackend } from './testing/process-backend-fixture.ts'

const limits = {
  memoryBytes: 512 << 20,
  maxProcesses: 200,
  cpus: 2,
  diskBytes: 64 << 20,
  maxOpenFiles: 2_000,
}

// What a host cannot do is left out by the backend itself, so these are fewer kinds where it can do less.
const [openLimited, openPlain] = [
  () => openProcessBackend({ isolate: 'auto' }, limits),
  () => openProcessBackend({ isolate: 'none', limit: 'none' }),
] as const
backendContract('jail and limits', openLimited)
copyFilesContract('jail and limits', openLimited)
backendContract('a plain process', openPlain)
copyFilesContract('a plain process', openPlain)
// On their own at night: together, the two above have everything of these.
if (process.env.SLIPWAY_NIGHTLY === '1') {
  backendContract('jail', () => openProcessBackend({ isolate: 'auto', limit: 'none' }))
  backendContract('limits', () => openProcessBackend({ isolate: 'none' }, limits))
}
