import { join, resolve } from 'node:path'

const { SLIPWAY_TEST_PROGRAMS: bundled } = process.env

/**
 * The root of the programs that tests start: the working tree, or its copy with bundled programs, which
 * `npm run test:all` makes (`scripts/test/bundle-programs.ts`).
 */
export const programRoot = bundled || resolve(import.meta.dirname, '../../../../..')

/** The command `slipway`. */
export const commandMain = join(programRoot, 'packages/cli/src/main.js')

/** The agent server alone. */
export const agentServerMain = join(programRoot, 'packages/agent-server/src/main.js')

/** The sandbox server alone. */
export const sandboxServerMain = join(programRoot, 'packages/sandbox-server/src/main.js')

/** A program of tests, by its path from the root: the TypeScript of the working tree, or its bundle. */
export function bundledProgram(path: string): string {
  return join(programRoot, bundled ? path.replace(/\.ts$/, '.js') : path)
}
