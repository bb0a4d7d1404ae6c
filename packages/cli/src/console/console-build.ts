import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { errorCode, exists } from '@slipway/shared/fs'

const packages = resolve(import.meta.dirname, '../../..')
/** The console is bundled from these; a change of any makes another build. */
const sources = ['console', 'client/src', 'protocol/src', 'shared/src']
const unusedDays = 7

interface BuildOptions {
  /** Of the console and the packages that it uses; `packages` of the clone unless given. */
  readonly packagesDirectory?: string
  /** Where builds are kept, each below the digest of its sources. */
  readonly cacheDirectory?: string
  /** Called before a build, which takes some seconds. */
  onBuild?(): void
  /** Ends a build that runs. */
  readonly signal?: AbortSignal
}

/**
 * The directory of the built console: `dist` of a released package, in a clone the build of its sources,
 * which is made once and kept. Undefined where there is no console. Rejects with a readable Error when the
 * build fails. Servers that start at once may both build; the first to finish counts.
 */
export async function prepareConsole(options: BuildOptions = {}): Promise<string | undefined> {
  const { packagesDirectory = packages, onBuild, signal } = options
  const directory = join(packagesDirectory, 'console')
  const cache = options.cacheDirectory ?? resolve(packagesDirectory, '../node_modules/.cache/slipway-console')
  if (!(await exists(join(directory, 'vite.config.ts')))) {
    const dist = join(directory, 'dist')
    return (await exists(join(dist, 'index.html'))) ? dist : undefined
  }
  const build = join(cache, await digestSources(packagesDirectory))
  if (await exists(join(build, 'index.html'))) {
    const now = new Date()
    await utimes(build, now, now).catch(() => {})
    return build
  }
  onBuild?.()
  const draft = `${build}.${process.pid}`
  try {
    await buildConsole(directory, draft, signal)
    await rename(draft, build).catch((error: unknown) => {
      if (!['ENOTEMPTY', 'EEXIST', 'EPERM'].includes(errorCode(error) ?? '')) throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  await removeUnused(cache)
  return build
}

const viteMissing = 'Vite is not installed; "npm ci" without --omit=dev installs it'

/** Why there can be no console, undefined when there can: a clone builds it with a library of its tests. */
export function whyNoConsole(packagesDirectory = packages): string | undefined {
  const directory = join(packagesDirectory, 'console')
  const isClone = existsSync(join(directory, 'vite.config.ts'))
  return isClone && findVite(directory) === undefined ? viteMissing : undefined
}

function findVite(directory: string): string | undefined {
  try {
    const require = createRequire(join(directory, 'package.json'))
    return join(require.resolve('vite/package.json'), '../bin/vite.js')
  } catch {
    return undefined
  }
}

/**
 * Builds the console of a directory with Vite into another, with compressed files beside those that shrink.
 */
export async function buildConsole(directory: string, out: string, signal?: AbortSignal): Promise<void> {
  const vite = findVite(directory)
  if (vite === undefined) throw new Error(viteMissing)
  await mkdir(out, { recursive: true })
  const args = [vite, 'build', '--outDir', out, '--emptyOutDir', '--logLevel', 'error']
  const child = spawn(process.execPath, args, {
    cwd: directory,
    // Otherwise Vite takes the caller's, and bundles the development version of React under a test runner.
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(signal === undefined ? {} : { signal }),
  })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk))
  await new Promise<void>((done, fail) => {
    child.on('error', fail)
    child.on('close', (code) =>
      code === 0
        ? done()
        : fail(new Error(`vite build ended with ${code}: ${Buffer.concat(output).toString().trim()}`)),
    )
  })
  await compressFiles(out)
}

/** Writes `.br` and `.gz` beside each file that becomes smaller by them. */
async function compressFiles(directory: string): Promise<void> {
  for (const path of await listFiles(directory)) {
    if (!/\.(js|css|svg|json|map|wasm)$/.test(path)) continue
    const bytes = await readFile(path)
    const brotli = await promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } })
    if (brotli.length < bytes.length) await writeFile(`${path}.br`, brotli)
    const zipped = await promisify(gzip)(bytes, { level: 9 })
    if (zipped.length < bytes.length) await writeFile(`${path}.gz`, zipped)
  }
}

/** Names and contents of all sources and of the lock file. */
async function digestSources(directory: string): Promise<string> {
  const lists = await Promise.all(sources.map((name) => listFiles(join(directory, name))))
  const digest = createHash('sha256')
  for (const path of [...lists.flat().toSorted(), resolve(directory, '../package-lock.json')]) {
    if (/\.test\.tsx?$|[\\/](node_modules|dist|testing)[\\/]/.test(path.slice(directory.length))) continue
    digest.update(`${path.slice(directory.length)}\0`).update(await readFile(path).catch(() => ''))
  }
  return digest.digest('hex').slice(0, 32)
}

async function listFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

/** Removes builds that no server has used for some days. */
async function removeUnused(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    const { mtimeMs = Date.now() } = (await stat(join(cache, name)).catch(() => undefined)) ?? {}
    if (Date.now() - mtimeMs > unusedDays * 86_400_000)
      await rm(join(cache, name), { recursive: true, force: true })
  }
}
