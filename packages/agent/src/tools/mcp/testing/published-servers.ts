import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const installMs = 540_000

/** Servers of npm: packages with their versions. */
const npmPackages = [
  '@modelcontextprotocol/server-filesystem@2026.8.31',
  '@modelcontextprotocol/server-memory@2026.8.31',
  '@modelcontextprotocol/server-everything@2026.8.31',
  '@modelcontextprotocol/server-sequential-thinking@2026.8.31',
  '@playwright/mcp@0.0.83',
  '@eslint/mcp@0.3.13',
  'mcp-server-code-runner@0.1.8',
  '@agent-infra/mcp-server-filesystem@1.2.29',
  '@agent-infra/mcp-server-commands@1.2.18',
  '@accesslint/mcp@0.11.1',
  '@allpepper/memory-bank-mcp@0.2.2',
  '@angiejones/mcp-selenium@0.2.3',
]
/** Servers of PyPI, in two environments: with the second major version of the SDK, and with the first. */
const pythonPackages = {
  new: [
    'mcp-server-time==2026.10.19',
    'mcp-server-git==2026.10.19',
    'mcp-server-fetch==2026.10.24',
    'excel-mcp-server==2.2.2',
    'markitdown-mcp==0.0.1a8',
  ],
  old: ['mcp<2', 'mcp-server-sqlite==2025.4.25', 'mcp-server-calculator==0.2.0', 'mcp-text-editor==1.0.2'],
} as const

export interface PublishedServers {
  /** The script of an npm package, to run with Node. */
  script(name: string): Promise<string>
  /** The program of a Python package. */
  program(environment: 'new' | 'old', name: string): string
}

/** Installs the servers into the cache, once for each set of versions; a text says why they are missing. */
export async function installPublishedServers(): Promise<PublishedServers | string> {
  const { SLIPWAY_CI_CACHE, XDG_CACHE_HOME } = process.env
  const cache = SLIPWAY_CI_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'slipway-ci')
  const versions = JSON.stringify([npmPackages, pythonPackages])
  const place = join(cache, 'mcp-servers', createHash('sha256').update(versions).digest('hex').slice(0, 16))
  if (!existsSync(place) && process.env.SLIPWAY_NIGHTLY !== '1')
    return 'The servers are not installed; SLIPWAY_NIGHTLY=1 installs them.'
  if (!existsSync(place)) {
    await mkdir(join(cache, 'mcp-servers'), { recursive: true })
    const draft = await mkdtemp(join(cache, 'mcp-servers', 'draft-'))
    try {
      await installNpm(draft)
      await installPython(draft, place)
      await rename(draft, place)
    } catch (error) {
      await rm(draft, { recursive: true, force: true })
      const [reason] = String(error).split('\n')
      return `The servers could not be installed from npm and PyPI: ${reason}`
    }
  }
  return {
    script: async (name) => {
      const directory = join(place, 'node_modules', name)
      const { bin } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'))
      return join(directory, typeof bin === 'string' ? bin : String(Object.values(bin)[0]))
    },
    program: (environment, name) => join(place, environment, 'bin', name),
  }
}

async function installNpm(directory: string): Promise<void> {
  await writeFile(join(directory, 'package.json'), '{"private":true}')
  const options = ['--ignore-scripts', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, ...npmPackages], { cwd: directory, timeout: installMs })
}

/** The programs name their interpreter by its path, so environments are made where they stay. */
async function installPython(draft: string, place: string): Promise<void> {
  const python = await findPython()
  const uv = join(draft, 'uv')
  await run(python, ['-m', 'venv', uv], { timeout: installMs })
  const pip = [join(uv, 'bin/python'), ['-m', 'pip', 'install', '--quiet', 'uv==0.13.9']] as const
  await run(...pip, { timeout: installMs })
  for (const [name, packages] of Object.entries(pythonPackages)) {
    const environment = join(draft, name)
    await run(join(uv, 'bin/uv'), ['venv', '--quiet', '--relocatable', '--python', python, environment])
    const target = ['--native-tls', '--python', join(environment, 'bin/python')]
    await run(join(uv, 'bin/uv'), ['pip', 'install', '--quiet', ...target, ...packages], {
      timeout: installMs,
    })
  }
  if (existsSync(place)) throw new Error('another run has installed them')
}

async function findPython(): Promise<string> {
  const check = 'import sys, venv; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))'
  const versions = join(homedir(), '.pyenv/versions')
  const own = (await readdir(versions).catch(() => [])).filter((name) => /^3\.1[23]\./.test(name))
  const names = [
    ...['python3.13', 'python3.12', 'python3'],
    ...own.map((name) => join(versions, name, 'bin/python')),
  ]
  for (const name of names) {
    const isFit = await run(name, ['-c', check]).then(
      () => true,
      () => false,
    )
    if (isFit) return name
  }
  throw new Error('no Python 3.12 or 3.13 is installed')
}
