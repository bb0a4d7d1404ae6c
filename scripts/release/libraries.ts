import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'
import { listFiles, root } from './files.ts'

/**
 * Libraries that stay their own packages: they bring machine code for one platform, or are fetched when
 * something needs them (`playwright-core`).
 */
export const separateLibraries: ReadonlySet<string> = new Set([
  '@lydell/node-pty',
  '@vscode/ripgrep',
  'koffi',
  'playwright-core',
  'sharp',
])

/** Modules that a bundled library asks for and does without. */
export const absentModules = ['pg-native', 'bufferutil', 'utf-8-validate', 'cpu-features', 'supports-color']

/** For names of CommonJS, which an ES module has not: `ssh2` of `dockerode` reads one as it is loaded. */
export const commonJsNames = { __dirname: 'import.meta.dirname', __filename: 'import.meta.filename' }

/** The directory of the bundled libraries in the package. */
export const librariesDirectory = 'libraries'

/** Swagger UI is files for a browser: they are copied. */
const swaggerManifest = '@fastify/swagger-ui/package.json'

const importPattern =
  /(\bfrom |\bimport\(|\bimport |\.resolve\((?='@fastify\/swagger-ui))'((?:@[a-z\d-]+\/)?[a-z][\w./-]*)'/g

/** The package of a module: `@ai-sdk/openai`, `prom-client` of `prom-client/lib/gauge.js`. */
export function packageName(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

/** The modules of libraries that a JavaScript source imports, separate libraries excepted. */
export function libraryImports(source: string): string[] {
  const names = [...source.matchAll(importPattern)].map(([, , name = '']) => name)
  return names.filter(
    (name) => !isBuiltin(name) && !name.startsWith('@slipway/') && !separateLibraries.has(packageName(name)),
  )
}

/** The file of a library's module, from the root of the package. */
export function libraryFile(specifier: string): string {
  if (specifier === swaggerManifest) return `${librariesDirectory}/swagger-ui/package.json`
  return `${librariesDirectory}/${specifier.replace(/^@/, '').replaceAll('/', '-').replace(/\.js$/, '')}.js`
}

/** A source whose imports of libraries are paths, as `pathOf` answers them. */
export function replaceLibraryImports(source: string, pathOf: (file: string) => string): string {
  const bundled = new Set(libraryImports(source))
  return source.replaceAll(importPattern, (text, before: string, name: string) =>
    bundled.has(name) ? `${before}'${pathOf(libraryFile(name))}'` : text,
  )
}

/**
 * Writes each module of a library as one file, with chunks for what several share, into `libraries/` of a
 * directory, and the licences of everything inside into `LICENSES-libraries.txt`.
 */
export async function bundleLibraries(directory: string, specifiers: readonly string[]): Promise<void> {
  const modules = specifiers.filter((name) => name !== swaggerManifest)
  const entries = new Map<string, string>()
  for (const name of modules) entries.set(`library:${name}.mjs`, await entrySource(name))
  const build = await rolldown({
    input: Object.fromEntries(modules.map((name) => [entryName(name), `library:${name}.mjs`])),
    cwd: root,
    platform: 'node',
    logLevel: 'silent',
    transform: { define: commonJsNames },
    external: [...separateLibraries, ...absentModules],
    plugins: [
      {
        name: 'library-entries',
        resolveId: async function (id, importer) {
          if (entries.has(id)) return id
          if (importer === undefined || !entries.has(importer)) return undefined
          return await this.resolve(id, join(root, 'packages/cli/src/main.js'), { skipSelf: true })
        },
        load: (id) => entries.get(id),
      },
    ],
  })
  const { output } = await build.write({
    dir: join(directory, librariesDirectory),
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
  })
  await build.close()
  const names = new Set<string>()
  for (const chunk of output) {
    if (chunk.type !== 'chunk') continue
    for (const id of chunk.moduleIds) {
      const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id.replaceAll(sep, '/')) ?? []
      const [path = ''] = id.split(/node_modules\/(?!.*node_modules\/)/)
      if (name !== undefined) names.add(relative(root, join(path, 'node_modules', name)))
    }
  }
  if (specifiers.includes(swaggerManifest)) {
    await copySwaggerUi(join(directory, librariesDirectory, 'swagger-ui'))
    names.add('node_modules/@fastify/swagger-ui')
  }
  await writeFile(join(directory, 'LICENSES-libraries.txt'), await licences([...names].toSorted()))
}

function entryName(specifier: string): string {
  return libraryFile(specifier).slice(librariesDirectory.length + 1, -'.js'.length)
}

/** A module that exports what Node shows of another one, also of CommonJS. */
async function entrySource(specifier: string): Promise<string> {
  const loaded: Record<string, unknown> = await import(await resolveFromRoot(specifier))
  const names = Object.keys(loaded).filter((name) => name !== 'default' && /^[A-Za-z_$][\w$]*$/.test(name))
  const isCommonJs = 'module.exports' in loaded
  const from = JSON.stringify(specifier)
  if (!isCommonJs)
    return `export * from ${from}\n${'default' in loaded ? `export { default } from ${from}\n` : ''}`
  return `import library from ${from}\nexport default library\nexport const { ${names.join(', ')} } = library\n`
}

async function resolveFromRoot(specifier: string): Promise<string> {
  return import.meta.resolve(specifier, pathToFileURL(join(root, 'package.json')).href)
}

/** The page loads the bundle, which has its libraries, and not the build without them. */
async function copySwaggerUi(directory: string): Promise<void> {
  const source = join(root, 'node_modules/@fastify/swagger-ui')
  await mkdir(directory, { recursive: true })
  await cp(join(source, 'static'), join(directory, 'static'), {
    recursive: true,
    filter: (path) => !path.endsWith('.map') && !path.endsWith('/swagger-ui.js'),
  })
  const { name, version, license } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8'))
  await writeFile(join(directory, 'package.json'), `${JSON.stringify({ name, version, license })}\n`)
}

/** Name, version and licence text of each package of a list of directories. */
async function licences(directories: readonly string[]): Promise<string> {
  const parts = ['The libraries in this package, with their licences.\n']
  for (const directory of directories) {
    const { name, version, license } = JSON.parse(
      await readFile(join(root, directory, 'package.json'), 'utf8'),
    )
    if (name === undefined) throw new Error(`${directory} is no package`)
    const files = (await listFiles(join(root, directory))).filter((file) =>
      /^(licen[cs]e|copying|notice)[^/]*$/i.test(file),
    )
    const texts = await Promise.all(files.map((file) => readFile(join(root, directory, file), 'utf8')))
    parts.push(`${'-'.repeat(80)}\n${name} ${version}, ${license ?? 'see below'}\n\n${texts.join('\n')}`)
  }
  return parts.join('\n')
}
