import { createHash } from 'node:crypto'
import { cpus, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'

/** What makes figures of different machines, or hours of one machine, comparable: fixed work and its time. */
export interface Calibration {
  readonly work: string
  readonly seconds: number
  readonly machine: string
  readonly node: string
}

const megabytes = 1024

/** Hashes 1 GiB with SHA-256 on one core: about a second. */
export function calibrate(): Calibration {
  const block = Buffer.alloc(1 << 20, 'calibration')
  const hash = createHash('sha256')
  const startedAt = performance.now()
  for (let count = 0; count < megabytes; count++) hash.update(block)
  hash.digest()
  const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(3))
  const memory = `${Math.round(totalmem() / 1e9)} GB, ${process.platform} ${process.arch}`
  const machine = `${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, ${memory}`
  return { work: 'SHA-256 of 1 GiB by Node', seconds, machine, node: process.version }
}

/** One line for a log. */
export function formatCalibration({ work, seconds, machine, node }: Calibration): string {
  return `calibration: ${work} in ${seconds.toFixed(2)} s (${machine}, node ${node})`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(formatCalibration(calibrate()))
