import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** The published web client that the tests drive, unmodified. */
export const webPackage = {
  name: '@openhands/agent-canvas',
  version: '1.20.0',
  integrity:
    'sha512-uq28bmdMapsDN0ltp5ZHYm9xfuk7cHktNkd0NY38w/UTq25wJTqSKSPya+2+ky0+HpGX2vmn0uF3mHuNCoOb2w==',
} as const

const cache = resolve(import.meta.dirname, '../../node_modules/.cache/slipway')

/**
 * The folder of the unpacked web client: the one that `SLIPWAY_WEB_CLIENT` names, or the package, downloaded
 * once with npm and checked against its hash. Otherwise the reason why there is none. Its dependencies are
 * not installed; the build is complete.
 */
export async function findWebClient(): Promise<{ readonly directory: string } | { readonly reason: string }> {
  const override = process.env.SLIPWAY_WEB_CLIENT
  if (override !== undefined) return { directory: override }
  const directory = join(cache, `${webPackage.name.replace(/\W+/g, '-')}-${webPackage.version}`)
  try {
    await access(join(directory, 'build', 'index.html'))
    return { directory }
  } catch {
    return await downloadInto(directory)
  }
}

async function downloadInto(directory: string): Promise<{ directory: string } | { reason: string }> {
  await mkdir(cache, { recursive: true })
  const work = await mkdtemp(join(cache, 'fetch-'))
  try {
    const spec = `${webPackage.name}@${webPackage.version}`
    const packed = await run('npm', ['pack', spec, '--pack-destination', work, '--silent'])
    const file = (await readdir(work)).find((name) => name.endsWith('.tgz'))
    if (packed !== 0 || file === undefined) return { reason: `npm could not fetch ${spec}` }
    const path = join(work, file)
    const integrity = `sha512-${hash('sha512', await readFile(path), 'base64')}`
    if (integrity !== webPackage.integrity) return { reason: `${spec} is not what was tried: ${integrity}` }
    if ((await run('tar', ['-xzf', path, '-C', work])) !== 0) return { reason: `${spec} was not unpacked` }
    await rm(directory, { recursive: true, force: true })
    await rename(join(work, 'package'), directory)
    return { directory }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function run(command: string, args: readonly string[]): Promise<number | null> {
  const child = spawn(command, args, { stdio: 'ignore' })
  const [code] = await once(child, 'exit').catch(() => [null])
  return code
}
