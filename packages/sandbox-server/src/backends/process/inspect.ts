import { link, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Seen } from '../backend.ts'
import { outOfMemoryKills } from './cgroups/sandbox-cgroups.ts'
import { ignoring } from './host/files.ts'
import { bootId } from './host/processes.ts'
import { howItEnded, lastWords } from './output.ts'
import { type Place, shortSocketPath } from './sandbox-paths.ts'
import { isPaused } from './sandbox-processes.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import { exitOf, supervisorOf, whoIs } from './supervisor.ts'

/** The name under which an agent server without a network listens, in its data folder. */
export const socketName = 'agent.sock'

/** A supervisor that has not written itself down by then never will. */
const unknownForMs = 10_000

/** What is really there of one sandbox. */
export async function look(
  directory: string,
  place: Place,
  record: SandboxRecord,
  isStarting: boolean,
): Promise<Seen> {
  const { id, epoch, workingDir } = record
  const known = { id, epoch, ...(workingDir === '' ? {} : { workingDir }) }
  const not = (state: Seen['state'], detail: string): Seen => ({ ...known, state, addresses: {}, detail })
  if (record.isRemoving) return not('broken', 'It is being removed, or its removal was cut off')
  if (record.fault !== null) return not('broken', record.fault)
  if (isStarting) return { ...known, state: 'starting', addresses: {} }
  if (epoch === '') return not('stopped', 'It has not been started')
  if (record.bootId !== (await bootId())) return not('stopped', 'The host was started anew')
  // In this order: one that has ended has written its exit before.
  const supervisor = await supervisorOf(place, epoch)
  const exit = await exitOf(place, epoch)
  if (exit === undefined && supervisor !== undefined) {
    const addresses = await addressesOf(directory, place, record)
    return { ...known, state: (await isPaused(place, record)) ? 'paused' : 'running', addresses }
  }
  const isUnknown = exit === undefined && (await whoIs(place, epoch)) === undefined
  if (isUnknown && Date.now() - record.startedAtMs < unknownForMs)
    return { ...known, state: 'starting', addresses: {} }
  return not('stopped', await howItStopped(place, record))
}

async function howItStopped(place: Place, record: SandboxRecord): Promise<string> {
  const exit = await exitOf(place, record.epoch)
  const kills = await outOfMemoryKills(record.groups)
  const how = exit === undefined ? 'It was ended from outside' : howItEnded(exit.code)
  const memory = kills === 0 ? '' : ` after it had used up its memory (${kills} processes ended for that)`
  const words = exit?.words || (await lastWords(place.root))
  return `${how}${memory}${words === '' ? '' : `:\n${words}`}`
}

async function addressesOf(
  directory: string,
  place: Place,
  record: SandboxRecord,
): Promise<Record<string, string>> {
  if (record.port !== null) return { AGENT_SERVER: `http://127.0.0.1:${record.port}` }
  const path = await reachSocket(directory, place, record.epoch)
  return path === undefined ? {} : { AGENT_SERVER: `http+unix://${encodeURIComponent(path)}` }
}

/**
 * A path of the host to the socket that the sandbox made, once it is there. The sandbox could put a link to a socket of the host
 * in its place at any time, so the socket itself is given a second name in a folder that the sandbox does not see.
 */
async function reachSocket(directory: string, place: Place, epoch: string): Promise<string | undefined> {
  const name = `${epoch.slice(0, 8)}.sock`
  const kept = join(place.reach, name)
  if (!(await isSocket(kept))) {
    const codes = ['ENOENT', 'EEXIST', 'EPERM', 'EXDEV', 'ENOTDIR', 'ENOSPC', 'EACCES']
    await ignoring(codes, link(join(place.data, socketName), kept))
    if (!(await isSocket(kept))) {
      await rm(kept, { force: true })
      return undefined
    }
  }
  return shortSocketPath(directory, place, name)
}

async function isSocket(path: string): Promise<boolean> {
  return (await ignoring(['ENOENT', 'ENOTDIR'], lstat(path)))?.isSocket() ?? false
}
