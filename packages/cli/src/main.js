#!/usr/bin/env node
// The default, because an old Node does not have the name that is used below.
import module from 'node:module'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 12)) {
  process.stderr.write(
    `Slipway needs Node 24.12 or newer; this is ${process.version}.\n` +
      'Run it through npm in the clone, which brings its own Node: "npx slipway ..." or "npm run dev".\n',
  )
  process.exitCode = 1
} else {
  module.enableCompileCache()
  const { runCli } = await import('./program/program.ts')
  process.exitCode = await runCli(process.argv.slice(2))
}
