import { spawnSync } from 'node:child_process'

/** Whether a program is on the `PATH`. */
export function isInstalled(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
}
