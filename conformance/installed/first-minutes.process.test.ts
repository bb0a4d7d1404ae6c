import { spawnSync } from 'node:child_process'
import { chmod, mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { findMachineNode, InstalledCommand } from './installed-command.ts'

/**
 * The first minutes with the released package: a home directory with blanks and umlauts in its path, a Node that
 * may be too old, both demos, the pages that come with it, and a home directory that cannot be written.
 */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 300_000 })

const node = findMachineNode()
const user = await InstalledCommand.open(node.directory, 'ä b ')
const skipReason = await user.install()
if (skipReason !== undefined && process.env.SLIPWAY_INSTALLED === '1') throw new Error(skipReason)
if (skipReason !== undefined) console.warn(`SKIPPED: the first minutes: ${skipReason}`)
const hasBubblewrap = [
  ['bwrap', '--ro-bind', '/', '/', 'true'] as const,
  ['pasta', '--version'] as const,
].every(([program, ...args]) => spawnSync(program, args).status === 0)
const minute = test.skipIf(skipReason !== undefined)
const packageRoot = join(user.prefix, 'lib/node_modules/slipway')

/** Puts the Node of the tests where `slipway components add node` would put the fetched one. */
async function addNode(home: string): Promise<void> {
  const name = `node-${process.platform}-${process.arch}`
  const bin = join(home, '.local/share/slipway-components/node_modules', name, 'bin')
  await mkdir(bin, { recursive: true })
  await symlink(process.execPath, join(bin, 'node'))
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}

beforeAll(async () => {
  // Another user enters it.
  await chmod(user.directory, 0o755)
  await chmod(join(user.directory, 'tmp'), 0o777)
})
afterAll(async () => {
  await user[Symbol.asyncDispose]()
})

minute('an old Node: each command says in one line which one it needs', async ({ skip }) => {
  skip(!node.isOld, 'the Node of this machine is new enough')
  for (const command of ['demo', 'demo-sandbox', 'serve', 'run', 'doctor']) {
    const { stdout, stderr } = await user.run([command], { code: 1 })
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^Slipway needs Node 24\.12 or newer and this is v\d+\S+: run "slipway components/)
    expect(stderr.trimEnd()).not.toContain('\n')
  }
})

minute('both demos run and leave nothing', async ({ skip }) => {
  await addNode(user.home)
  const { stdout } = await user.run(['demo', '--fast'])
  expect(stdout).toMatch(/^Done$/m)
  // npx would look for a package of that name in the registry.
  expect(stdout).not.toContain('npx')
  skip(!hasBubblewrap, 'bubblewrap or pasta is missing')
  const { stdout: sandbox } = await user.run(['demo-sandbox', '--fast'])
  expect(sandbox).toMatch(/^Done$/m)
  expect(sandbox).not.toContain('npx')
  expect(await user.processes()).toEqual([])
  const left = (await user.listHome()).filter((path) => !/^\.local(\/share(\/slipway-comp.*)?)?$/.test(path))
  expect(left).toEqual([])
})

minute('the pages that its files name come with the package', async () => {
  const units = await readdir(join(packageRoot, 'deploy/systemd'))
  const named = await Promise.all(
    units.map((unit) => readFile(join(packageRoot, 'deploy/systemd', unit), 'utf8')),
  )
  const pages = named.flatMap((text) => text.match(/docs\/[\w./-]+\.md/g) ?? [])
  expect(pages.length).toBeGreaterThan(0)
  for (const page of pages) expect(await exists(join(packageRoot, page)), page).toBe(true)

  const docs = (await readdir(join(packageRoot, 'docs'), { recursive: true })).filter((path) =>
    path.endsWith('.md'),
  )
  for (const page of ['README.md', 'CONTRACT.md', ...docs.map((path) => `docs/${path}`)]) {
    const text = await readFile(join(packageRoot, page), 'utf8')
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s#]+\.(?:md|svg|webp))/g)) {
      const path = normalize(join(dirname(page), link))
      // What only a clone has: sources and their pages.
      if (link.includes('://') || !/^(docs\/|README|CONTRACT|CHANGELOG)/.test(path)) continue
      expect(await exists(join(packageRoot, path)), `${page}: ${link}`).toBe(true)
    }
  }
})

minute('a home directory that cannot be written', async () => {
  const home = join(user.directory, 'read-only')
  const [cwd, data] = [join(user.directory, 'work'), join(user.directory, 'data')]
  await addNode(home)
  for (const path of [cwd, data]) await mkdir(path)
  for (const path of [cwd, data]) await chmod(path, 0o777)
  const share = join(home, '.local/share')
  await chmod(share, 0o555)
  const uid = process.getuid?.() === 0 ? 65_534 : undefined
  const env = { HOME: home, LLM_MODEL: 'scripted/demo' }
  const options = { ...{ cwd, uid, env } }

  const refused = await user.run(['run', 'hello'], { ...options, code: 1 })
  expect(refused.stderr).toMatch(
    /^slipway: Cannot write .*read-only\/\.local\/share\/slipway: permission denied .*\nSet XDG_DATA_HOME to .*"slipway serve --data DIR"\.\n$/,
  )
  const config = await user.run(['config', 'set', 'model.name', 'a/b'], { ...options, code: 1 })
  expect(config.stderr).toContain('Set XDG_CONFIG_HOME to')
  expect((await user.run(['doctor'], { ...options, code: 1 })).stdout).toMatch(
    /^error +data .*cannot be made.*\n +Set XDG_DATA_HOME/m,
  )

  const elsewhere = {
    ...options,
    env: { ...env, XDG_DATA_HOME: data, PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
  }
  expect((await user.run(['run', 'hello'], elsewhere)).stdout).toContain('· finished')
  await user.run(['stop'], elsewhere)

  const server = await user.start(['serve', '--port', '0', '--no-console', '--data', 'own'], env, options)
  expect((await user.run(['run', 'hello', '--data', 'own'], options)).stdout).toContain('· finished')
  expect(await server.stop()).toBe(0)
  await chmod(share, 0o755)
})
