#!/usr/bin/env node
// The defaults, because an old Node does not have the names that are used below.
import childProcess from 'node:child_process'
import module from 'node:module'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const [first, ...others] = process.argv.slice(2)
// Answered without the program, which takes longer to load than to run.
if ((first === '--version' || first === '-v') && others.length === 0)
  console.log(module.createRequire(import.meta.url)('../package.json').version)
else if (major < 24 || (major === 24 && minor < 12)) await runWithOtherNode()
else {
  const { startCompileCache } = await import('@slipway/shared/compile-cache')
  startCompileCache()
  const { runCli } = await import('./program/program.ts')
  process.exitCode = await runCli(process.argv.slice(2))
}

/** Starts the Node of the component, or the one that is installed beside this package; without one fetches it when the user agrees. */
async function runWithOtherNode() {
  const path = (await findNode()) ?? (await fetchNode())
  if (path === undefined) {
    process.exitCode = 1
    return
  }
  const child = childProcess.spawn(path, process.argv.slice(1), { stdio: 'inherit' })
  // Ctrl-C of a terminal reaches both; other senders know this process alone.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  process.on('SIGHUP', () => child.kill('SIGHUP'))
  child.on('error', (error) => {
    process.stderr.write(`slipway: ${path} cannot be started: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('exit', (code) => {
    process.exitCode = code ?? 1
  })
}

async function findNode() {
  const component = (await import('./components/components.js')).findNode()
  if (component !== undefined) return component
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const file = process.platform === 'win32' ? 'node.exe' : 'node'
  try {
    return module.createRequire(import.meta.url).resolve(`node-${platform}-${process.arch}/bin/${file}`)
  } catch {
    return undefined
  }
}

/** Its path, or undefined with one line that says what to install. */
async function fetchNode() {
  const { addComponent, listComponents } = await import('./components/components.js')
  const component = listComponents().find(({ name }) => name === 'node')
  const problem = `Slipway needs Node 24.12 or newer and this is ${process.version}`
  const advice = 'install Node 24, for example from https://nodejs.org or with "nvm install 24".'
  if (component === undefined) {
    process.stderr.write(`${problem}: ${advice}\n`)
    return undefined
  }
  const isAsked = process.argv.slice(2).join(' ') === 'components add node'
  if (
    !isAsked &&
    !(await confirm(`${problem}. Fetch Node ${component.version} for it (about 120 MB)? [Y/n] `))
  ) {
    process.stderr.write(`${problem}: run "slipway components add node" (about 120 MB), or ${advice}\n`)
    return undefined
  }
  process.stderr.write(`Fetching Node ${component.version} ...\n`)
  try {
    await addComponent('node')
  } catch (error) {
    process.stderr.write(`slipway: ${error.message}\n${problem}: ${advice}\n`)
    return undefined
  }
  return await findNode()
}

/** Asks at a terminal; false without one. */
async function confirm(question) {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false
  const { createInterface } = await import('node:readline')
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await new Promise((resolve) => {
    lines.once('close', () => resolve('n'))
    lines.question(question, resolve)
  })
  lines.close()
  return /^\s*(y|yes)?\s*$/i.test(answer)
}
