import { runVitest } from './run-vitest.ts'
import { type LatePass, latePasses } from './suites.ts'

// `node scripts/test/late-passes.ts <folder> <pass,...> [Vitest's arguments]` runs late passes beside each
// other. The cluster goes as soon as its pass has ended: its programs use processor time while they wait.

const [folder = '', names = '', ...args] = process.argv.slice(2)
const isLatePass = (name: string): name is LatePass => name in latePasses
const passes = names.split(',').filter(isLatePass)
const results = await Promise.all(
  passes.map((name) => {
    const wrapper = name === 'cluster' ? ['.ci/cluster', 'run'] : []
    return runVitest({ name, projects: [name], workers: latePasses[name].workers, wrapper }, folder, args)
  }),
)
process.exitCode = results.every(Boolean) ? 0 : 1
