import { statSync } from 'node:fs'

/** Differs from that of a file which was made later at the same path: numbers of files are used again. */
export function fileIdentity(path: string): string {
  const { ino, birthtimeNs } = statSync(path, { bigint: true })
  return `${ino} ${birthtimeNs}`
}
