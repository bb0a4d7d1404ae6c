import type { Order } from '../backend.ts'
import type { Directory } from './tar.ts'

/** Who owns the files in a sandbox and runs its processes. */
export const userId = 10_001
/** What stays of a sandbox, besides a working directory that is elsewhere. */
export const workspace = '/workspace'
/** Caches and settings of tools. */
export const home = `${workspace}/.home`
/** The agent server's own files. */
export const agentData = `${workspace}/.slipway`

/** Where the order's agent works. */
export const workingDirOf = (order: Order): string => order.workingDir || `${workspace}/project`

/** Where the volume is mounted: also at a working directory that is elsewhere, as nothing else can be written to. */
export function volumeTargets(order: Order): string[] {
  const workingDir = workingDirOf(order)
  return isBelow(workingDir) ? [workspace] : [workspace, workingDir]
}

/** What the volume has from the start, relative to its root: the places that tools take for granted. */
export function directoriesOf(order: Order): Directory[] {
  const names = [home, workingDirOf(order)].filter(isBelow).flatMap((directory) => {
    const parts = directory.split('/').slice(2)
    return parts.map((_, index) => `./${parts.slice(0, index + 1).join('/')}`)
  })
  return ['.', ...names].map((name) => ({ name, userId }))
}

const isBelow = (path: string) => path === workspace || path.startsWith(`${workspace}/`)

/** Why the order cannot be a container, for people; undefined when it can. */
export function faultOf(order: Order): string | undefined {
  if (order.network === 'none') {
    return 'A container without a network cannot be reached: its only door to this machine is a port. The process backend can do it.'
  }
  const workingDir = workingDirOf(order)
  const parts = workingDir.split('/').slice(1)
  const isPlain = workingDir.startsWith('/') && parts.every((part) => !['', '.', '..'].includes(part))
  if (!isPlain || workingDir.includes('\0') || Buffer.byteLength(workingDir) > mostBytes) {
    return `The working directory is not a plain absolute path of at most ${mostBytes} bytes: ${workingDir.slice(0, mostBytes)}`
  }
  return undefined
}

const mostBytes = 90
