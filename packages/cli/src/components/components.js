// JavaScript, because it runs under every Node that can start the command: `components add node` replaces
// an old one.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The root of the installed package. The library of the browser tools is in its own `node_modules`. */
const root = fileURLToPath(new URL('../../../../', import.meta.url))

/** Of the user: an upgrade replaces the package, and has to find Node before anything of it can run. */
export function userComponents() {
  const { XDG_DATA_HOME: data = '', HOME: home } = process.env
  const parent = isAbsolute(data) ? data : join(home || homedir(), '.local', 'share')
  return join(parent, 'slipway-components')
}

const details = {
  browser: 'the library of the browser tools, about 14 MB; Chromium itself is installed by you',
  node: 'the Node that Slipway is tested with, about 120 MB, for machines whose own is too old',
}

/** The components for this platform; empty in a clone, where `npm ci` installs everything. */
export function listComponents() {
  const locked = readLocked()
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const packages = { browser: 'playwright-core', node: `node-${platform}-${process.arch}` }
  return Object.entries(packages).flatMap(([name, packageName]) => {
    const entry = locked[packageName]
    if (entry === undefined) return []
    const inPackage = join(root, 'node_modules', packageName)
    const places =
      name === 'node' ? [join(userComponents(), 'node_modules', packageName), inPackage] : [inPackage]
    const found = places
      .map((directory) => ({ directory, installedVersion: readVersion(directory) }))
      .filter(({ installedVersion }) => installedVersion !== undefined)
    const installed = found.find(({ installedVersion }) => installedVersion === entry.version) ?? found[0]
    return [
      {
        ...{ name, packageName, ...entry, details: details[name] },
        ...{ directory: places[0], places, installedVersion: installed?.installedVersion },
        isInstalled: installed !== undefined,
      },
    ]
  })
}

/** The program of an installed component `node`; undefined without one. Versions before wrote it to the package. */
export function findNode() {
  const isWindows = process.platform === 'win32'
  const packageName = `node-${isWindows ? 'win' : process.platform}-${process.arch}`
  return [userComponents(), root]
    .map((place) => join(place, 'node_modules', packageName, 'bin', isWindows ? 'node.exe' : 'node'))
    .find((path) => existsSync(path))
}

function readVersion(directory) {
  try {
    return JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')).version
  } catch {
    return undefined
  }
}

function readLocked() {
  try {
    return JSON.parse(readFileSync(new URL('components.json', import.meta.url), 'utf8'))
  } catch {
    return {}
  }
}

/** The component of a name; throws an error that lists the names when there is none. */
export function findComponent(name) {
  const components = listComponents()
  const found = components.find((component) => component.name === name)
  if (found !== undefined) return found
  if (components.length === 0) throw new Error('A clone has no components: "npm ci" installs everything.')
  throw new Error(
    `There is no component ${name} for this machine; there are ${components.map((one) => one.name).join(', ')}.`,
  )
}

/** Installs a component by npm, in exactly the version that this release was tested with, or throws. */
export async function addComponent(name) {
  const component = findComponent(name)
  if (component.installedVersion === component.version) return component
  const { packageName, version, integrity, directory } = component
  let temporary
  try {
    await mkdir(dirname(directory), { recursive: true, mode: 0o700 })
    // Beside it: a rename moves no files.
    temporary = await mkdtemp(join(dirname(directory), '.component-'))
  } catch (error) {
    throw new Error(
      `${dirname(directory)} cannot be written (${error.code}): run "slipway components add ${name}" as the user who installed Slipway.`,
    )
  }
  try {
    await writeFile(join(temporary, 'package.json'), '{ "private": true }\n')
    await runNpm(temporary, [
      'install',
      ...[
        '--ignore-scripts',
        '--no-audit',
        '--no-fund',
        '--location=project',
        '--global=false',
        '--save-exact',
      ],
      `${packageName}@${version}`,
    ])
    const lock = JSON.parse(await readFile(join(temporary, 'package-lock.json'), 'utf8'))
    const key = `node_modules/${packageName}`
    if (lock.packages[key].integrity !== integrity)
      throw new Error(
        `${packageName} ${version} is not what this release was tested with: it is not installed.`,
      )
    // Needed by compilers only.
    for (const part of ['include', 'share']) {
      if (name === 'node') await rm(join(temporary, key, part), { recursive: true, force: true })
    }
    // A program that runs keeps its file.
    await rm(directory, { recursive: true, force: true })
    await rename(join(temporary, key), directory)
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
  return { ...component, installedVersion: version, isInstalled: true }
}

/** Removes a component. */
export async function removeComponent(name) {
  const component = findComponent(name)
  for (const place of component.places) await rm(place, { recursive: true, force: true })
  return component
}

function runNpm(directory, args) {
  const isWindows = process.platform === 'win32'
  return new Promise((resolve, reject) => {
    const options = { cwd: directory, shell: isWindows, stdio: ['ignore', 'pipe', 'pipe'] }
    const child = spawn(isWindows ? 'npm.cmd' : 'npm', args, options)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    child.on('error', (error) =>
      reject(error.code === 'ENOENT' ? new Error('npm was not found: it fetches components.') : error),
    )
    child.on('close', (code) => {
      const lines = output
        .trim()
        .split('\n')
        .filter((line) => !/complete log|^npm error\s*$/.test(line))
      if (code === 0) resolve()
      else
        reject(
          new Error(
            `npm could not fetch it: ${lines
              .slice(-3)
              .join(' ')
              .replace(/npm error /g, '')}`,
          ),
        )
    })
  })
}
