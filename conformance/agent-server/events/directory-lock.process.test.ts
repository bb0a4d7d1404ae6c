import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentServerMain } from '@slipway/shared/process/testing'
import { expect, test } from 'vitest'
import { startProcess } from '../../support/agent-server.ts'

const limit = { timeout: 180_000 }
const nobody = 65534
const isRoot = process.getuid?.() === 0
/** Runs a program as an ordinary user. */
const asUser = ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups']
const canSwitch =
  isRoot &&
  spawnSync(asUser[0] ?? '', [...asUser.slice(1), process.execPath, '--check', agentServerMain]).status === 0
const canMount = isRoot && spawnSync('unshare', ['-m', 'sh', '-c', 'mount -t tmpfs none /mnt']).status === 0

function dataDirectory() {
  const base = mkdtempSync(join(tmpdir(), 'slipway-lock-'))
  chmodSync(base, 0o755)
  const data = join(base, 'data')
  mkdirSync(data)
  if (isRoot) chownSync(data, nobody, nobody)
  return { data, [Symbol.dispose]: () => rmSync(base, { recursive: true, force: true }) }
}

async function startServer(data: string, wrapper: readonly string[] = []) {
  const server = await startProcess(
    [agentServerMain, '--port', '0', '--data', data],
    { SLIPWAY_NO_KEY: '1' },
    wrapper,
  )
  return { ...server, [Symbol.asyncDispose]: async () => void (await server.stop('SIGKILL')) }
}

/** Why a server does not start. */
async function refusal(data: string, wrapper: readonly string[] = []): Promise<string> {
  try {
    await using _ = await startServer(data, wrapper)
    return 'started'
  } catch (error) {
    return String(error)
  }
}

test('a second server is refused when the lock file is gone', limit, async () => {
  using directory = dataDirectory()
  const { data } = directory
  await using server = await startServer(data)
  const reason = `${data} is in use by another process (pid ${server.pid})`
  expect(await refusal(data)).toContain(reason)
  rmSync(join(data, 'lock.db'))
  expect(await refusal(data)).toContain(reason)
})

test('after a kill the next server starts', limit, async () => {
  using directory = dataDirectory()
  await using first = await startServer(directory.data)
  await first.stop('SIGKILL')
  expect(await refusal(directory.data)).toBe('started')
})

test('a lock file that is none keeps the server from starting, with its path', limit, async () => {
  using directory = dataDirectory()
  const path = join(directory.data, 'lock.db')
  writeFileSync(path, 'no database '.repeat(1_000))
  const reason = await refusal(directory.data)
  expect(reason).toContain(`the lock file ${path} cannot be used`)
  expect(reason).toContain('Delete it')
  expect(reason).not.toContain('in use')
})

test.each(['/proc/none/such', '/dev/fd/none/such'])(
  'a data directory that cannot be created is refused: %s',
  limit,
  async (path) => {
    expect(await refusal(path)).toContain('ENOENT')
  },
)

test('a database that cannot be opened is named', limit, async () => {
  using directory = dataDirectory()
  mkdirSync(join(directory.data, 'log.db'))
  writeFileSync(join(directory.data, 'log.db', 'file'), '')
  expect(await refusal(directory.data)).toContain(`${join(directory.data, 'log.db')} cannot be opened`)
})

test.skipIf(!canSwitch)(
  'files that an ordinary user cannot write keep the server from starting',
  limit,
  async () => {
    using directory = dataDirectory()
    const { data } = directory
    expect(await refusal(data, asUser)).toBe('started')
    for (const name of ['lock.db', 'log.db']) {
      const path = join(data, name)
      chmodSync(path, 0o400)
      const reason = await refusal(data, asUser)
      expect(reason).toContain(path)
      expect(reason).toMatch(/permission denied/)
      chmodSync(path, 0o600)
    }
    chmodSync(data, 0o500)
    expect(await refusal(data, asUser)).toMatch(/permission denied; change its owner or mode/)
  },
)

test.skipIf(!canSwitch)('a server whose lock file became read-only keeps the others out', limit, async () => {
  using directory = dataDirectory()
  const { data } = directory
  await using _ = await startServer(data, asUser)
  chmodSync(join(data, 'lock.db'), 0o444)
  expect(await refusal(data, asUser)).toContain('in use by another process')
})

test.skipIf(!canMount)('a full and a read-only disk are named as such', limit, async () => {
  using directory = dataDirectory()
  const onDisk = (prepare: string) => [
    'unshare',
    '-m',
    'sh',
    '-c',
    `mount -t tmpfs -o size=1m none "$0" && ${prepare} && exec "$@"`,
    directory.data,
  ]
  const full = '{ dd if=/dev/zero of="$0/ballast" bs=4k 2>/dev/null; true; }'
  const fullReason = await refusal(directory.data, onDisk(full))
  expect(fullReason).toMatch(/disk is full/i)
  expect(fullReason).toContain(directory.data)
  const readOnly = await refusal(directory.data, onDisk('mount -o remount,ro "$0"'))
  expect(readOnly).toContain('the file system is read-only')
})
