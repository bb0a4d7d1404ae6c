import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isProductionSource, type Source } from './draw.ts'

/**
 * A copy of a commit below a folder, with the installed libraries of `root`: hard links where the file system
 * allows, so nothing may write into them. Packages of the workspace resolve to the copy.
 */
export function makePrivateCopy(root: string, commit: string, folder: string): string {
  const tree = join(folder, 'tree')
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  run('git', 'clone', '--quiet', '--shared', '--no-checkout', root, tree)
  run('git', '-C', tree, 'checkout', '--quiet', '--detach', commit)
  const libraries = realpathSync(join(root, 'node_modules'))
  const target = join(tree, 'node_modules')
  try {
    execFileSync('cp', ['-al', libraries, target], { stdio: 'ignore' })
  } catch {
    rmSync(target, { recursive: true, force: true })
    run('cp', '-a', libraries, target)
  }
  // Caches are written in place.
  const caches = readdirSync(target).filter((name) => /^\.(?:vite|vitest|cache)/.test(name))
  for (const name of caches) rmSync(join(target, name), { recursive: true })
  for (const name of readdirSync(join(target, '@slipway'))) {
    const place = realpathSync(join(target, '@slipway', name))
    if (!place.startsWith(`${realpathSync(tree)}/`)) throw new Error(`@slipway/${name} resolves to ${place}`)
  }
  return tree
}

/** The production sources of a tree, by path. */
export function readSources(tree: string): Source[] {
  const files = execFileSync('git', ['-C', tree, 'ls-files', 'packages'], { encoding: 'utf8' }).split('\n')
  return files
    .filter(isProductionSource)
    .toSorted()
    .map((file) => ({ file, text: readFileSync(join(tree, file), 'utf8') }))
}
