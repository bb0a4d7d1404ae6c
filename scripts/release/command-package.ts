import { chmod, cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { buildConsole } from '../../packages/cli/src/console/console-build.ts'
import { frontDoors, isReleased, listFiles, packageFolders, readPackage, root, writeJson } from './files.ts'

const bin = 'packages/cli/src/main.js'

/**
 * Fills a directory with the package `slipway`: the sources of all packages at their paths in the repository,
 * with the types blanked out (so lines and columns of a stack stay those of the source), and the files that
 * they read. Libraries stay dependencies, with the ranges of our packages.
 */
export async function createCommandPackage(directory: string, version: string): Promise<void> {
  for (const folder of packageFolders) {
    if (folder !== 'packages/console') await copyPackage(directory, folder)
    else await buildConsole(join(root, folder), join(directory, folder, 'dist'))
  }
  await writeJson(join(directory, 'package.json'), {
    name: 'slipway',
    version,
    description: 'The agent server whose log you can trust.',
    license: 'MIT',
    type: 'module',
    bin: { slipway: bin },
    files: ['packages', 'examples'],
    engines: { node: '>=24.12' },
    dependencies: collectDependencies(),
  })
  await chmod(join(directory, bin), 0o755)
  for (const file of ['LICENSE', 'README.md', 'CHANGELOG.md'])
    await cp(join(root, file), join(directory, file))
}

async function copyPackage(directory: string, folder: string): Promise<void> {
  await mkdir(join(directory, folder), { recursive: true })
  const { name, version } = readPackage(folder)
  await writeJson(join(directory, folder, 'package.json'), { name, version, private: true, type: 'module' })
  const files = await listFiles(join(root, folder))
  // Sources, and the files that they read, are in folders; the examples have no `src`.
  const isSource = (file: string) => (folder === 'examples' ? file.includes('/') : file.startsWith('src/'))
  for (const file of files.filter((file) => isSource(file) && isReleased(file))) {
    const path = posix.join(folder, file)
    const target = join(directory, path.replace(/\.ts$/, '.js'))
    await mkdir(dirname(target), { recursive: true })
    if (!/\.[jt]s$/.test(path)) await cp(join(root, path), target)
    else await writeFile(target, toJavaScript(await readFile(join(root, path), 'utf8'), path))
  }
}

/**
 * A source as JavaScript. `path` is its path from the root; other packages become paths, and `.ts` becomes
 * `.js`.
 */
export function toJavaScript(source: string, path: string): string {
  return stripTypeScriptTypes(source, { mode: 'strip' })
    .replaceAll(/'(@slipway\/[a-z/-]+)'/g, (text, name: string) => {
      const file = frontDoors.get(name)
      return file === undefined ? text : `'${posix.relative(posix.dirname(path), file)}'`
    })
    .replaceAll(/'((?:\.{1,2}|packages)\/[^'\s]*)\.ts'/g, "'$1.js'")
}

/** The dependencies of all packages except each other, each with its one range. */
function collectDependencies(): Record<string, string> {
  const all = new Map<string, string>()
  for (const folder of packageFolders) {
    for (const [library, range] of Object.entries(readPackage(folder).dependencies)) {
      if (library.startsWith('@slipway/')) continue
      const other = all.get(library)
      if (other !== undefined && other !== range)
        throw new Error(`${library} has two ranges: ${other} and ${range}`)
      all.set(library, range)
    }
  }
  return Object.fromEntries([...all].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
