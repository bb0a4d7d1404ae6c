import { mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { createClientPackage } from './release/client-package.ts'
import { createCommandPackage } from './release/command-package.ts'
import { readPackage, runProgram } from './release/files.ts'

/**
 * `npm run release -- [--out dist]`: creates `slipway-<version>.tgz`, the command with both servers, and
 * `slipway-client-<version>.tgz`, the client in one file. Both are plain JavaScript, because Node refuses
 * TypeScript below `node_modules`; nothing is published. Prints the paths of the two files, one a line.
 */
const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } })
const out = resolve(values.out)
const stage = join(out, 'stage')
await rm(stage, { recursive: true, force: true })
try {
  for (const [name, lay] of [
    ['slipway', createCommandPackage],
    ['slipway-client', createClientPackage],
  ] as const) {
    const directory = join(stage, name)
    await mkdir(directory, { recursive: true })
    const { version } = readPackage('packages/cli')
    await lay(directory, version)
    await runProgram('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', out], directory)
    console.log(join(out, `${name}-${version}.tgz`))
  }
} finally {
  await rm(stage, { recursive: true, force: true })
}
