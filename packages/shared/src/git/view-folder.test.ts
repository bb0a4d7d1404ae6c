import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeViewFolder, removeViewLeftovers } from './view-folder.ts'

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
  const own = basename(await makeViewFolder())
  const gone = [make(`slipway-git-${dead}-a`), make(`slipway-git-${process.pid}-of-the-last-one`)]
  utimesSync(join(root, gone[1] ?? ''), 1_000_000, 1_000_000)
  const kept = [own, ...[`slipway-git-${process.ppid}-a`, 'slipway-git-other', `x-${dead}-a`].map(make)]
  symlinkSync(own, join(root, `slipway-git-${dead}-link`))
  await removeViewLeftovers()
  expect(gone.filter((name) => existsSync(join(root, name)))).toEqual([])
  expect([...kept, `slipway-git-${dead}-link`].filter((name) => !existsSync(join(root, name)))).toEqual([])
})
