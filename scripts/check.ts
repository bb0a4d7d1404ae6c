import { spawn } from 'node:child_process'

/** Everything that `npm run check` looks at, in order; the first failure stops it. */
const steps = [
  ['types', 'tsc'],
  ['lint and format', 'biome check --error-on-warnings'],
  ['import borders', 'node scripts/check-imports.ts'],
  ['OpenAPI up to date', 'node scripts/print-openapi.ts --check'],
  ['wire hash', 'vitest run packages/protocol/src/openapi/wire-hash.test.ts'],
] as const

for (const [name, command] of steps) {
  const startedAt = performance.now()
  const code = await run(command)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`)
  if (code !== 0) process.exit(1)
}

function run(command: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
    const output: Buffer[] = []
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => output.push(chunk))
    child.on('error', reject)
    child.on('close', (code) => {
      if (code !== 0) process.stdout.write(Buffer.concat(output))
      resolve(code ?? 1)
    })
  })
}
