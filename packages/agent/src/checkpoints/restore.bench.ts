import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Workspace } from '../workspace/workspace.ts'
import { defaultLimits } from './shadow-repository.ts'
import { WorkspaceCheckpoints } from './workspace-checkpoints.ts'

/**
 * `node packages/agent/src/checkpoints/restore.bench.ts [FILES]`: milliseconds that a checkpoint and a
 * restore take in a tree of 100,000 files of which a step has changed 100; one line of JSON, the best of
 * three. The floor, in turn: `git add --all` and `git read-tree --reset -u` by a bare repository of the same
 * tree, after the same changes.
 */
const files = Number(process.argv[2] ?? 100_000)
const perDirectory = 500
const root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-restore-')))
try {
  const directory = join(root, 'work')
  const name = (file: number) => join(directory, `d${Math.floor(file / perDirectory)}`, `f${file}`)
  const change = (round: number) => {
    for (let file = 0; file < files; file += files / 100) appendFileSync(name(file), `changed ${round}\n`)
  }
  for (let file = 0; file < files; file += perDirectory)
    mkdirSync(join(name(file), '..'), { recursive: true })
  for (let file = 0; file < files; file++) writeFileSync(name(file), `${file % 50}\n`)
  await using workspace = await Workspace.open({ directory, env: { PATH: process.env.PATH ?? '' } })
  const checkpoints = new WorkspaceCheckpoints({
    ...{ workspace, directory: join(root, 'checkpoints'), excluded: [] },
    limits: { ...defaultLimits, timeoutMs: 600_000 },
  })
  await checkpoints.save('first')
  const [before] = await checkpoints.list()
  if (before === undefined) throw new Error('there is no checkpoint')
  const git = (...args: readonly string[]) => {
    const own = [`--git-dir=${join(root, 'bare')}`, `--work-tree=${directory}`]
    const identity = ['-c', 'user.name=bench', '-c', 'user.email=bench@localhost', '-c', 'gc.auto=0']
    return execFileSync('git', [...own, ...identity, ...args], { encoding: 'utf8' }).trim()
  }
  git('init', '-q')
  git('add', '--all')
  const tree = git('write-tree')
  let floor = Number.POSITIVE_INFINITY
  let save = Number.POSITIVE_INFINITY
  let restore = Number.POSITIVE_INFINITY
  for (let round = 0; round < 3; round++) {
    change(round)
    const saving = performance.now()
    await checkpoints.save(`e${round}`)
    const restoring = performance.now()
    const { paths } = await checkpoints.restore(before.id)
    if (paths.length !== 100) throw new Error(`${paths.length} files were restored`)
    save = Math.min(save, restoring - saving)
    restore = Math.min(restore, performance.now() - restoring)
    change(round)
    git('add', '--all')
    const bare = performance.now()
    git('add', '--all')
    git('read-tree', '--reset', '-u', tree)
    floor = Math.min(floor, performance.now() - bare)
  }
  console.log(JSON.stringify({ save, restore, floor }))
} finally {
  await rm(root, { recursive: true, force: true })
}
