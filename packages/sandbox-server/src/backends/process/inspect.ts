import { link, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ObservedSandbox } from '../backend.ts'
import { countOomKills } from './cgroups/sandbox-cgroups.ts'
import { ignoreErrors } from './host/files.ts'
import { readBootId } from './host/processes.ts'
import { describeExitCode, readLastOutput } from './output.ts'
import { type SandboxPaths, shortSocketPath } from './sandbox-paths.ts'
import { isPaused } from './sandbox-processes.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import { findSupervisor, readExit, readSupervisorId } from './supervisor.ts'

/** The socket of an agent server without a network, in its data folder. */
export const agentSocketName = 'agent.sock'

/** A supervisor that has not written its pid by then never will. */
const supervisorGraceMs = 10_000

export async function inspectSandbox(
  directory: string,
  paths: SandboxPaths,
  record: SandboxRecord,
  isStarting: boolean,
): Promise<ObservedSandbox> {
  const { id, epoch, workingDir } = record
  const base = { id, epoch, ...(workingDir === '' ? {} : { workingDir }) }
  const notRunning = (state: ObservedSandbox['state'], detail: string) =>
    ({ ...base, state, addresses: {}, detail }) as const
  if (record.isRemoving) return notRunning('broken', 'It is being removed, or its removal was cut off')
  if (record.fault !== null) return notRunning('broken', record.fault)
  if (isStarting) return { ...base, state: 'starting', addresses: {} }
  if (epoch === '') return notRunning('stopped', 'It has not been started')
  if (record.bootId !== (await readBootId())) return notRunning('stopped', 'The host was restarted')
  // In this order: a supervisor writes the exit before it ends.
  const supervisor = await findSupervisor(paths, epoch)
  const exit = await readExit(paths, epoch)
  if (exit === undefined && supervisor !== undefined) {
    const addresses = await findAddresses(directory, paths, record)
    return { ...base, state: (await isPaused(paths, record)) ? 'paused' : 'running', addresses }
  }
  const isUnknown = exit === undefined && (await readSupervisorId(paths, epoch)) === undefined
  if (isUnknown && Date.now() - record.startedAtMs < supervisorGraceMs)
    return { ...base, state: 'starting', addresses: {} }
  return notRunning('stopped', await describeStop(paths, record))
}

async function describeStop(paths: SandboxPaths, record: SandboxRecord): Promise<string> {
  const exit = await readExit(paths, record.epoch)
  const kills = await countOomKills(record.groups)
  const how = exit === undefined ? 'It was ended from outside' : describeExitCode(exit.code)
  const memory = kills === 0 ? '' : ` after it had used up its memory (${kills} processes ended for that)`
  const lastOutput = exit?.message || (await readLastOutput(paths.root))
  return `${how}${memory}${lastOutput === '' ? '' : `:\n${lastOutput}`}`
}

async function findAddresses(
  directory: string,
  paths: SandboxPaths,
  record: SandboxRecord,
): Promise<Record<string, string>> {
  if (record.port !== null) return { AGENT_SERVER: `http://127.0.0.1:${record.port}` }
  const path = await linkSocket(directory, paths, record.epoch)
  return path === undefined ? {} : { AGENT_SERVER: `http+unix://${encodeURIComponent(path)}` }
}

/** A hidden second name of the socket: the sandbox could replace its own by a link to one of the host. */
async function linkSocket(
  directory: string,
  paths: SandboxPaths,
  epoch: string,
): Promise<string | undefined> {
  const name = `${epoch.slice(0, 8)}.sock`
  const linkPath = join(paths.sockets, name)
  if (!(await isSocket(linkPath))) {
    const codes = ['ENOENT', 'EEXIST', 'EPERM', 'EXDEV', 'ENOTDIR', 'ENOSPC', 'EACCES']
    await ignoreErrors(codes, link(join(paths.data, agentSocketName), linkPath))
  }
  if (await isSocket(linkPath)) return await shortSocketPath(directory, paths, name)
  await rm(linkPath, { force: true })
  return undefined
}

async function isSocket(path: string): Promise<boolean> {
  return (await ignoreErrors(['ENOENT', 'ENOTDIR'], lstat(path)))?.isSocket() ?? false
}
