import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentServerMain, programRoot } from '@slipway/shared/process/testing'
import { type BackendUnderTest, observe } from '../../backend.contract.ts'
import type { SandboxConfig } from '../../backend.ts'
import { detectCgroupHierarchies } from '../cgroups/cgroups.ts'
import { listMountsBelow } from '../host/disk-image.ts'
import { hasHomeBelow, listDescendants, listProcesses } from '../host/processes.ts'
import { ProcessBackend, type ProcessBackendOptions } from '../process-backend.ts'
import { sandboxPaths } from '../sandbox-paths.ts'
import { findSupervisor } from '../supervisor.ts'

/** Of the program: Node, the libraries, the packages. */
export const agentServerFiles = [
  process.execPath,
  join(programRoot, 'node_modules'),
  join(programRoot, 'packages'),
]

export interface ProcessBackendFixture extends BackendUnderTest {
  readonly backend: ProcessBackend
  readonly directory: string
  readonly ledgerId: string
}

/**
 * A separate directory in which sandboxes are processes; `close` ends and removes all of it, whoever made
 * it.
 */
export async function openProcessBackend(
  overrides: Partial<ProcessBackendOptions> = {},
  resources: SandboxConfig['resources'] = {},
): Promise<ProcessBackendFixture> {
  const directory = overrides.directory ?? (await realpath(await mkdtemp(join(tmpdir(), 'slipway-process-'))))
  const ledgerId = randomBytes(16).toString('hex')
  const opened: ProcessBackend[] = []
  const open = (label: string) => {
    const backend = new ProcessBackend({
      directory,
      ledgerId: label,
      agentCommand: [process.execPath, agentServerMain],
      readable: agentServerFiles,
      log: () => {},
      ...overrides,
    })
    opened.push(backend)
    return backend
  }
  const backend = open(ledgerId)
  let orders = 0
  return {
    backend,
    directory,
    ledgerId,
    reopen: async () => open(ledgerId),
    openForOtherLedger: async () => open(randomBytes(16).toString('hex')),
    createConfig: (given = {}) => ({
      id: `box-${++orders}`,
      image: null,
      command: [],
      env: {},
      workingDir: '',
      resources,
      network: 'shared',
      ...given,
    }),
    node: (script) => [process.execPath, '-e', script, '--'],
    kill: async (id) => {
      const supervisor = await findSupervisor(sandboxPaths(directory, id), (await observe(backend, id)).epoch)
      const all = supervisor === undefined ? [] : listDescendants(await listProcesses(), supervisor.pid)
      const programs = all.filter(({ pid }) =>
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(process.execPath),
      )
      for (const { pid } of programs) process.kill(pid, 'SIGKILL')
    },
    listRemains: (id) => listRemains(directory, ledgerId, id),
    close: async () => {
      for (const each of opened) for (const { id } of await each.list()) await each.remove(id)
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/**
 * What is left of a sandbox: processes that work in its folder or were started for it, mounts, control
 * groups, files.
 */
async function listRemains(directory: string, ledgerId: string, id: string): Promise<string[]> {
  const root = join(directory, id)
  const found: string[] = []
  for (const each of await listProcesses()) {
    const command = existsSync(`/proc/${each.pid}`) ? readCommand(each.pid) : ''
    if (command.includes(root) || (await hasHomeBelow(each, root)))
      found.push(`process ${each.pid} ${command}`)
  }
  found.push(...(await listMountsBelow(root)).map((path) => `mount ${path}`))
  for (const { base } of await detectCgroupHierarchies()) {
    const groups = readdirSync(base).filter(
      (name) => name.includes(ledgerId.slice(0, 16)) && name.endsWith(`-${id}`),
    )
    found.push(...groups.map((name) => `group ${name}`))
  }
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.includes(id),
  )
  return [...found, ...files.map((name) => `file ${name}`)]
}

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
