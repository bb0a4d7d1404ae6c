#!/usr/bin/env node
// The default, because an old Node does not have the names that are used below.
import childProcess from 'node:child_process'
import module from 'node:module'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 12)) runWithOtherNode()
else {
  module.enableCompileCache()
  const { runCli } = await import('./program/program.ts')
  process.exitCode = await runCli(process.argv.slice(2))
}

/** Starts the Node that is installed beside this package, if one is; says what to install otherwise. */
function runWithOtherNode() {
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const file = process.platform === 'win32' ? 'node.exe' : 'node'
  let path
  try {
    path = module.createRequire(import.meta.url).resolve(`node-${platform}-${process.arch}/bin/${file}`)
  } catch {
    const advice = 'install Node 24, for example from https://nodejs.org or with "nvm install 24".'
    process.stderr.write(`Slipway needs Node 24.12 or newer and this is ${process.version}: ${advice}\n`)
    process.exitCode = 1
    return
  }
  const child = childProcess.spawn(path, process.argv.slice(1), { stdio: 'inherit' })
  // Ctrl-C of a terminal reaches both; other senders know this process alone.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  child.on('error', (error) => {
    process.stderr.write(`slipway: ${path} cannot be started: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('exit', (code) => {
    process.exitCode = code ?? 1
  })
}
