import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { registryUnreachable, runProgram } from './npm-packages.ts'

const manifest = resolve(import.meta.dirname, '../clients/openapi-tools')

/**
 * The folder of the programs of `conformance/clients/openapi-tools`, installed once for each set of versions
 * into the cache of CI. Returns a reason where npm reaches no registry.
 */
export async function installOpenapiTools(): Promise<{ readonly directory: string } | string> {
  const { SLIPWAY_CI_CACHE, XDG_CACHE_HOME } = process.env
  const cache = SLIPWAY_CI_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'slipway-ci')
  const version = hash('sha256', await readFile(join(manifest, 'package-lock.json'))).slice(0, 16)
  const directory = join(cache, 'npm', version)
  if (existsSync(directory)) return { directory }
  await mkdir(join(cache, 'npm'), { recursive: true })
  const installing = await mkdtemp(`${directory}-`)
  await cp(manifest, installing, { recursive: true })
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1']
  const { code, output } = await runProgram('npm', ['ci', ...flags], { cwd: installing })
  if (code === 0) await rename(installing, directory).catch(() => rm(installing, { recursive: true }))
  else await rm(installing, { recursive: true })
  if (code === 0) return { directory }
  if (!registryUnreachable.test(output)) throw new Error(`npm ci ended with ${code}: ${output}`)
  return `npm could not install: ${registryUnreachable.exec(output)?.[0]}`
}
