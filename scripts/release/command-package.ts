import { chmod, cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { listFiles, readPackage, root, writeJson } from './files.ts'

const bin = 'packages/cli/src/main.js'

/**
 * Fills a directory with the package `slipway`: the sources of all packages where they are in the clone, with the types blanked
 * out (so lines and columns of a stack stay those of the source), and what they read besides. Libraries stay dependencies, with
 * the ranges of our packages.
 */
export async function createCommandPackage(directory: string, version: string): Promise<void> {
  const names = (await readdir(join(root, 'packages'))).toSorted()
  for (const name of names) await copyPackage(directory, name)
  await writeJson(join(directory, 'package.json'), {
    name: 'slipway',
    version,
    description: 'The agent server whose log you can trust.',
    license: 'MIT',
    type: 'module',
    bin: { slipway: bin },
    files: ['packages'],
    engines: { node: '>=24.12' },
    dependencies: await collectDependencies(names),
  })
  await chmod(join(directory, bin), 0o755)
  for (const file of ['LICENSE', 'README.md', 'CHANGELOG.md'])
    await cp(join(root, file), join(directory, file))
}

async function copyPackage(directory: string, name: string): Promise<void> {
  const own = join('packages', name)
  await mkdir(join(directory, own), { recursive: true })
  const { version } = await readPackage(name)
  await writeJson(join(directory, own, 'package.json'), {
    name: `@slipway/${name}`,
    version,
    private: true,
    type: 'module',
  })
  const files = await listFiles(join(root, own))
  for (const path of files.filter((file) => /^(src|sample)\//.test(file) && isReleased(file))) {
    const target = join(directory, own, path.replace(/\.ts$/, '.js'))
    await mkdir(dirname(target), { recursive: true })
    if (!path.endsWith('.ts')) await cp(join(root, own, path), target)
    else
      await writeFile(
        target,
        toJavaScript(await readFile(join(root, own, path), 'utf8'), posix.join(own, path)),
      )
  }
}

const isReleased = (path: string) =>
  !/\.(test|contract|bench)\.ts$|-arbitrary\.ts$|\/make-sample\.ts$/.test(path)

/** A source as JavaScript. `path`: where it lies from the root; other packages become paths, and `.ts` becomes `.js`. */
export function toJavaScript(source: string, path: string): string {
  const up = posix.relative(posix.dirname(path), 'packages')
  return stripTypeScriptTypes(source, { mode: 'strip' })
    .replaceAll(/'@slipway\/([a-z-]+)(?:\/([a-z-]+))?'/g, (_, name: string, entry = 'index') => {
      return `'${up}/${name}/src/${entry}.js'`
    })
    .replaceAll(/'((?:\.{1,2}|packages)\/[^'\s]*)\.ts'/g, "'$1.js'")
}

/** What all packages need besides each other, each with its one range. */
async function collectDependencies(names: readonly string[]): Promise<Record<string, string>> {
  const all = new Map<string, string>()
  for (const name of names) {
    for (const [library, range] of Object.entries((await readPackage(name)).dependencies)) {
      if (library.startsWith('@slipway/')) continue
      const other = all.get(library)
      if (other !== undefined && other !== range)
        throw new Error(`${library} is wanted as ${other} and ${range}`)
      all.set(library, range)
    }
  }
  return Object.fromEntries([...all].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
