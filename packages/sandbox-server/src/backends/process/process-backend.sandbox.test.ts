import { backendContract } from '../backend.contract.ts'
import { openProcessPlace } from './testing/process-backend-fixture.ts'

const limits = {
  memoryBytes: 512 << 20,
  maxProcesses: 200,
  cpus: 2,
  diskBytes: 64 << 20,
  maxOpenFiles: 2_000,
}

// What a host cannot do is left out by the backend itself, so these are fewer kinds where it can do less.
backendContract('walls and limits', () => openProcessPlace({ isolate: 'auto' }, limits))
backendContract('walls', () => openProcessPlace({ isolate: 'auto', limit: 'none' }))
backendContract('limits', () => openProcessPlace({ isolate: 'none' }, limits))
backendContract('a plain process', () => openProcessPlace({ isolate: 'none', limit: 'none' }))
