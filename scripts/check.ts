import { spawn } from 'node:child_process'

/** The steps of `npm run check`, which run in parallel; the slowest first. */
const steps = [
  // One checker: each further one checks again most of the types that the files share.
  ['types', 'tsc --checkers 1'],
  ['lint and format', 'biome check --error-on-warnings'],
  ['wire hash', 'vitest run packages/protocol/src/openapi/wire-hash.test.ts'],
  ['OpenAPI up to date', 'node scripts/print-openapi.ts --check'],
  ['providers up to date', 'node scripts/print-providers.ts --check'],
  ['settings up to date', 'node scripts/print-settings.ts --check'],
  ['reference up to date', 'node scripts/print-reference.ts --check'],
  ['import borders', 'node scripts/check-imports.ts'],
  ['sizes', 'node scripts/check-sizes.ts'],
  ['commit subjects', 'node scripts/check-commits.ts'],
  ['waits of tests', 'node scripts/check-waits.ts'],
  ['words', 'node scripts/check-words.ts'],
] as const

/** Steps whose output is of use when they succeed, too. */
const printed: readonly string[] = ['sizes', 'commit subjects', 'words']

const startedAt = performance.now()
const codes = await Promise.all(
  steps.map(async ([name, command]) => {
    const { code, output } = await run(command)
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`)
    if (code !== 0 || printed.includes(name)) process.stdout.write(output)
    return code
  }),
)
process.exitCode = codes.every((code) => code === 0) ? 0 : 1

function run(command: string): Promise<{ code: number; output: Buffer }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
    const chunks: Buffer[] = []
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? 1, output: Buffer.concat(chunks) }))
  })
}
