import { createHash } from 'node:crypto'

const chunkBytes = 2 ** 24
const chunks = 64

/** Seconds of hashing 1 GiB with SHA-256: a fixed piece of work, by which runs on different machines compare. */
export function calibrate(): number {
  const chunk = Buffer.alloc(chunkBytes)
  const hash = createHash('sha256')
  const startedAt = performance.now()
  for (let round = 0; round < chunks; round++) hash.update(chunk)
  hash.digest()
  return (performance.now() - startedAt) / 1000
}
