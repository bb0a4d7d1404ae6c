import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isRecord, parseJson } from '@slipway/shared/json'

/**
 * Removes everything of a benchmark when it has ended, however it did: a program in a session of its own,
 * which waits for the end of its input. It ends all processes that name the folder of the benchmark in their
 * arguments (servers, supervisors of sandboxes, their networks) or their environment (programs of sandboxes,
 * which may be stopped), and what is in the control groups of its sandboxes, then removes the folder.
 */
export function startReaper(folder: string): void {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  child.unref()
  const input: unknown = child.stdin
  // A pipe has no public type with `unref`; it must not keep the benchmark alive.
  if (isRecord(input) && typeof input.unref === 'function') input.unref()
}

/** Rounds without a find, because a process that is killed may just have started another. */
const calmRounds = 3
const maxRounds = 300

async function reap(folder: string): Promise<void> {
  for (let round = 0, calm = 0; round < maxRounds && calm < calmRounds; round++) {
    const groups = listCgroups(folder)
    const members = groups.flatMap((group) => readText(join(group, 'cgroup.procs')).split('\n').map(Number))
    const pids = new Set([...listProcesses(folder), ...members].filter((pid) => pid > 1))
    for (const pid of pids) kill(pid)
    for (const group of groups) thaw(group)
    calm = pids.size === 0 ? calm + 1 : 0
    await sleep(100)
  }
  for (const group of listCgroups(folder)) removeGroup(group)
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

/** Processes with the folder in their arguments or their environment, without this one. */
function listProcesses(folder: string): number[] {
  return listNames('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid)
    .filter((pid) => ['cmdline', 'environ'].some((file) => readText(`/proc/${pid}/${file}`).includes(folder)))
}

/** The control groups of all sandboxes of all servers below the folder. */
function listCgroups(folder: string): string[] {
  return listNames(folder).flatMap((data) => {
    const sandboxes = join(folder, data, 'sandboxes')
    return listNames(sandboxes).flatMap((id) => {
      const record = parseJson(readText(join(sandboxes, id, 'process.json')))
      return isRecord(record) && Array.isArray(record.groups) ? record.groups.map(String) : []
    })
  })
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {}
}

/** A frozen process that was killed ends when it is thawed. */
function thaw(group: string): void {
  for (const [name, text] of Object.entries({ 'freezer.state': 'THAWED', 'cgroup.freeze': '0' })) {
    try {
      writeFileSync(join(group, name), text, { flag: 'r+' })
    } catch {}
  }
}

function removeGroup(group: string): void {
  try {
    rmdirSync(group)
  } catch {}
}

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder = ''] = process.argv
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  process.stdin.resume().on('close', () => void reap(folder))
}
