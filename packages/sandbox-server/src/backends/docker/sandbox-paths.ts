import { isWithin } from '@slipway/shared/fs'
import type { SandboxConfig } from '../backend.ts'
import type { TarDirectory } from './tar.ts'

/** The user of the files and processes in a sandbox. */
export const userId = 10_001
/** Persistent, besides a working directory elsewhere. */
export const workspace = '/workspace'
/** Caches and settings of tools. */
export const homeDirectory = `${workspace}/.home`
/** The agent server's own files. */
export const agentData = `${workspace}/.slipway`

export const workingDirectory = (config: SandboxConfig): string => config.workingDir || `${workspace}/project`

/** Mount points of the volume: also a working directory elsewhere, as other places are read-only. */
export function volumeTargets(config: SandboxConfig): string[] {
  const workingDir = workingDirectory(config)
  return isInWorkspace(workingDir) ? [workspace] : [workspace, workingDir]
}

/** The folders of a new volume, relative to its root: tools expect them. */
export function initialDirectories(config: SandboxConfig): TarDirectory[] {
  const names = [homeDirectory, workingDirectory(config)].filter(isInWorkspace).flatMap((directory) => {
    const parts = directory.split('/').slice(2)
    return parts.map((_, index) => `./${parts.slice(0, index + 1).join('/')}`)
  })
  return ['.', ...names].map((name) => ({ name, userId }))
}

const isInWorkspace = (path: string) => isWithin(workspace, path)

/** Why a sandbox cannot be a container; undefined when it can. */
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
