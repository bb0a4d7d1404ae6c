import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
/** The packages of each image: a server and those that it imports. */
export const images = {
  'agent-server': {
    title: 'Slipway agent server',
    dockerfile: 'Dockerfile',
    packages: withDependencies('agent-server'),
  },
  'sandbox-server': {
    title: 'Slipway sandbox server',
    dockerfile: 'sandbox-server.Dockerfile',
    packages: withDependencies('sandbox-server'),
  },
} as const

export type ImageName = keyof typeof images

/** A package of ours with all of ours that it depends on. */
function withDependencies(name: string): readonly string[] {
  const { dependencies = {} } = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'))
  const own = Object.keys(dependencies).filter((one) => one.startsWith('@slipway/'))
  return [...new Set([...own.flatMap((one) => withDependencies(one.slice('@slipway/'.length))), name])]
}

/**
 * Fills a directory with everything that the Dockerfile copies. `npm ci` installs the libraries from the
 * lockfile and the configured registry, for the engine's architecture; the build itself downloads none.
 */
export async function createBuildContext(directory: string, cpu: string, image: ImageName): Promise<void> {
  const { packages, dockerfile } = images[image]
  const app = join(directory, 'app')
  await mkdir(join(app, 'examples'), { recursive: true })
  for (const file of ['package.json', 'package-lock.json', 'LICENSE'])
    await cp(join(root, file), join(app, file))
  // npm compares the lockfile with all workspaces, so all are present until it is done.
  const all = await readdir(join(root, 'packages'))
  for (const name of all) {
    await cp(join(root, 'packages', name, 'package.json'), join(app, 'packages', name, 'package.json'))
  }
  await cp(join(root, 'examples/package.json'), join(app, 'examples/package.json'))
  await run(app, 'npm', [
    'ci',
    '--omit=dev',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--include-workspace-root',
    `--workspace=packages/${image}`,
    '--os=linux',
    '--libc=glibc',
    `--cpu=${cpu}`,
  ])
  await removeUnused(app, all, packages)
  for (const name of packages) {
    const from = join(root, 'packages', name, 'src')
    await cp(from, join(app, 'packages', name, 'src'), { recursive: true, filter: isReleased })
  }
  await cp(join(root, 'deploy', dockerfile), join(directory, 'Dockerfile'))
}

export const isReleased = (path: string) => !/\.(test|contract|bench)\.ts$|\/testing$/.test(path)

/** Removes the other workspaces with their links, and the parts of Node that only compilers need. */
async function removeUnused(app: string, all: readonly string[], packages: readonly string[]): Promise<void> {
  // An optional peer of the control plane, which npm installs for every workspace.
  if (!packages.includes('sandbox-server'))
    await rm(join(app, 'node_modules/@kubernetes'), { recursive: true, force: true })
  for (const name of all.filter((name) => !packages.includes(name))) {
    await rm(join(app, 'packages', name), { recursive: true })
    await rm(join(app, 'node_modules/@slipway', name), { force: true })
  }
  await rm(join(app, 'examples'), { recursive: true })
  await rm(join(app, 'node_modules/@slipway/examples'), { force: true })
  const modules = join(app, 'node_modules')
  for (const name of (await readdir(modules)).filter((name) => name.startsWith('node-linux-'))) {
    for (const part of ['include', 'share']) {
      await rm(join(modules, name, part), { recursive: true, force: true })
    }
  }
}

/** The version in the image's label. */
export async function readVersion(): Promise<string> {
  const text = await readFile(join(root, 'packages/agent-server/package.json'), 'utf8')
  return String(JSON.parse(text).version)
}

function run(directory: string, program: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: directory, stdio: ['ignore', 'inherit', 'inherit'] })
    child.on('error', reject)
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ${args[0]} ended with ${code}`)),
    )
  })
}
