import type { SandboxConfig } from '../backend.ts'
import type { TarDirectory } from './tar.ts'

/** Who owns the files in a sandbox and runs its processes. */
export const userId = 10_001
/** What stays of a sandbox, besides a working directory that is elsewhere. */
export const workspace = '/workspace'
/** Caches and settings of tools. */
export const homeDirectory = `${workspace}/.home`
/** The agent server's own files. */
export const agentData = `${workspace}/.slipway`

/** Where the order's agent works. */
export const workingDirectory = (config: SandboxConfig): string => config.workingDir || `${workspace}/project`

/** Where the volume is mounted: also at a working directory that is elsewhere, as nothing else can be written to. */
export function volumeTargets(config: SandboxConfig): string[] {
  const workingDir = workingDirectory(config)
  return isInWorkspace(workingDir) ? [workspace] : [workspace, workingDir]
}

/** What the volume has from the start, relative to its root: the places that tools take for granted. */
export function initialDirectories(config: SandboxConfig): TarDirectory[] {
  const names = [homeDirectory, workingDirectory(config)].filter(isInWorkspace).flatMap((directory) => {
    const parts = directory.split('/').slice(2)
    return parts.map((_, index) => `./${parts.slice(0, index + 1).join('/')}`)
  })
  return ['.', ...names].map((name) => ({ name, userId }))
}

const isInWorkspace = (path: string) => path === workspace || path.startsWith(`${workspace}/`)

/** Why the order cannot be a container, for people; undefined when it can. */
export function validateConfig(config: SandboxConfig): string | undefined {
  if (config.network === 'none') {
    return 'A container without a network cannot be reached: its only door to this machine is a port. The process backend can do it.'
  }
  const workingDir = workingDirectory(config)
  const parts = workingDir.split('/').slice(1)
  const isPlain = workingDir.startsWith('/') && parts.every((part) => !['', '.', '..'].includes(part))
  if (!isPlain || workingDir.includes('\0') || Buffer.byteLength(workingDir) > maxPathBytes) {
    return `The working directory is not a plain absolute path of at most ${maxPathBytes} bytes: ${workingDir.slice(0, maxPathBytes)}`
  }
  return undefined
}

const maxPathBytes = 90
