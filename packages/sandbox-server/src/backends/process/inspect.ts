import type { ObservedSandbox } from '../backend.ts'
import type { AgentSockets } from './agent-socket.ts'
import { countOomKills } from './cgroups/sandbox-cgroups.ts'
import { readBootId } from './host/processes.ts'
import { describeExitCode, readLastOutput } from './output.ts'
import type { SandboxPaths } from './sandbox-paths.ts'
import { isPaused } from './sandbox-processes.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import { findSupervisor, readExit, readSupervisorId } from './supervisor.ts'

/** A supervisor that has not written its pid by then never will. */
const supervisorGraceMs = 10_000

export async function inspectSandbox(
  sockets: AgentSockets,
  paths: SandboxPaths,
  record: SandboxRecord,
  isStarting: boolean,
): Promise<ObservedSandbox> {
  const { id, epoch, workingDir } = record
  const base = { id, epoch, workingDir: workingDir || undefined }
  const notRunning = (state: ObservedSandbox['state'], detail: string) =>
    ({ ...base, state, addresses: {}, detail }) as const
  if (record.isRemoving) return notRunning('broken', 'It is being removed, or its removal was cut off')
  if (record.fault !== null) return notRunning('broken', record.fault)
  if (isStarting) return { ...base, state: 'starting', addresses: {} }
  if (epoch === '' && record.isCopy)
    return notRunning('stopped', 'It was restored or copied: what ran then belongs to the other folder')
  if (epoch === '') return notRunning('stopped', 'It has not been started')
  if (!record.hasSocket) return notRunning('stopped', 'It was started by an earlier version of the server')
  if (record.bootId !== (await readBootId())) return notRunning('stopped', 'The host was restarted')
  // In this order: a supervisor writes the exit before it ends.
  const supervisor = await findSupervisor(paths, epoch)
  const exit = await readExit(paths, epoch)
  if (exit === undefined && supervisor !== undefined) {
    const socket = await sockets.find(paths, record, supervisor.pid)
    const addresses: ObservedSandbox['addresses'] =
      socket === undefined ? {} : { AGENT_SERVER: `http+unix://${encodeURIComponent(socket)}` }
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
  const lastOutput = exit?.message || (await readLastOutput(paths.root, record.outputStart))
  return `${how}${memory}${lastOutput === '' ? '' : `:\n${lastOutput}`}`
}
