import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { builtFolder } from './built-folder.ts'
import { registryUnreachable, runProgram } from './npm-packages.ts'

/**
 * The folder of the programs of a folder of `conformance/clients`, installed once for each set of versions
 * into the cache of CI. Returns a reason where npm reaches no registry.
 */
export async function installNpmTools(
  name: 'acp-tools' | 'mcp-tools' | 'openapi-tools',
): Promise<{ readonly directory: string } | string> {
  const manifest = resolve(import.meta.dirname, '../clients', name)
  const directory = builtFolder('npm', join(manifest, 'package-lock.json'))
  if (existsSync(directory)) return { directory }
  await mkdir(dirname(directory), { recursive: true })
  const installing = await mkdtemp(`${directory}-`)
  await cp(manifest, installing, { recursive: true })
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1']
  // Not `ci`, which refuses a lock without optional packages for other platforms that a registry lacks.
  const { code, output } = await runProgram('npm', ['install', ...flags], { cwd: installing })
  if (code === 0) await rename(installing, directory).catch(() => rm(installing, { recursive: true }))
  else await rm(installing, { recursive: true })
  if (code === 0) return { directory }
  if (!registryUnreachable.test(output)) throw new Error(`npm install ended with ${code}: ${output}`)
  return `npm could not install: ${registryUnreachable.exec(output)?.[0]}`
}
