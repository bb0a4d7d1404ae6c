import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeTemporaryFolder, removeTemporaryLeftovers } from './temporary-folder.ts'

test('folders of dead processes are removed, those of running ones and of others stay', async () => {
  const root = mkdtempSync(join(tmpdir(), 'sw-view-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  vi.stubEnv('TMPDIR', root)
  onTestFinished(() => void vi.unstubAllEnvs())
  const { pid: dead } = spawnSync('true')
  const make = (name: string) => {
    mkdirSync(join(root, name))
    writeFileSync(join(root, name, 'config'), '')
    return name
  }
  const own = basename(await makeTemporaryFolder('git'))
  const gone = ['acp', 'git', 'here', 'index'].map((purpose) => make(`slipway-${purpose}-${dead}-a`))
  gone.push(make(`slipway-git-${process.pid}-of-the-last-one`))
  utimesSync(join(root, gone.at(-1) ?? ''), 1_000_000, 1_000_000)
  const kept = [
    own,
    ...[`slipway-git-${process.ppid}-a`, 'slipway-git-other', `slipway-data-${dead}-a`, `x-${dead}-a`].map(
      make,
    ),
  ]
  symlinkSync(own, join(root, `slipway-git-${dead}-link`))
  await removeTemporaryLeftovers()
  expect(gone.filter((name) => existsSync(join(root, name)))).toEqual([])
  expect([...kept, `slipway-git-${dead}-link`].filter((name) => !existsSync(join(root, name)))).toEqual([])
})
