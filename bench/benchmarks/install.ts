import { spawn } from 'node:child_process'
import { lstat, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { bareStart, measureBareStart } from '../floors/starts.ts'
import { type BenchContext, getJson } from '../support/fixtures.ts'
import { type Server, startProgram } from '../support/processes.ts'
import { atMost, Floor, information, median, type ResultRow, withinBudget } from '../support/result-table.ts'

const root = resolve(import.meta.dirname, '../..')

/** A program of the client, of 12 lines. */
const program = `import { Client, follow } from '@slipway/client'
const client = new Client({ url: 'http://127.0.0.1:8000' })
const llm = { model: 'scripted/demo' }
const { id } = await client.call('createConversation', {
  body: { agent: { llm }, workspace: { working_dir: '.' }, initial_message: { content: [{ type: 'text', text: 'Hello' }] } },
})
for await (const { position, event } of follow(client, id, { until: 'idle' })) {
  console.log(position, event.kind)
}
const query = { kind: 'MessageEvent', limit: 20 }
const { items } = await client.call('searchEvents', { params: { conversation_id: id }, query })
console.log(items.length, await client.call('countConversations'))
`

/**
 * The released packages, packed from the working tree and installed by npm into empty folders: the size of the
 * command without fetched components, the time of `--version` beside a bare Node, that to a serving agent server
 * with a warm compile cache beside a bare server, and that of the compiler for a program of the client beside
 * an empty program.
 */
export async function install(bench: BenchContext): Promise<ResultRow[]> {
  const directory = await bench.directory()
  const [packages, app] = [join(directory, 'dist'), join(directory, 'app')]
  await run(process.execPath, [join(root, 'scripts/release.ts'), '--out', packages], root)
  await mkdir(app)
  await writeFile(join(app, 'package.json'), '{ "private": true }\n')
  const file = (await readdir(packages)).find((name) => /^slipway-\d/.test(name)) ?? ''
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']
  const compiler = await measureCompiler(bench, packages)
  const installMs = await run('npm', ['install', ...flags, join(packages, file)], app)
  const command = join(app, 'node_modules/slipway/packages/cli/src/main.js')
  const env = { NODE_COMPILE_CACHE: await bench.directory(), HOME: await bench.directory() }
  const rounds = bench.isQuick ? 1 : 11
  const version = () => run(process.execPath, [command, '--version'], app, env)
  const data = await bench.directory()
  const serve = () => measureServe(command, data, env)
  await version()
  await serve()
  const [versionMs, bareMs, serveMs, bareServeMs]: [number[], number[], number[], number[]] = [[], [], [], []]
  for (let round = 0; round < rounds; round++) {
    versionMs.push(await version())
    bareMs.push(await run(process.execPath, ['-e', '0'], app, env))
    serveMs.push(await serve())
    bareServeMs.push(await measureBareStart())
  }
  return [
    withinBudget('installed command without components', 'bytes on disk', await diskBytes(app), 60e6),
    information('its installation by npm', 's', installMs / 1000),
    atMost('slipway --version, installed', 'ms', median(versionMs), Floor.of('`node -e 0`', bareMs), 3),
    atMost('slipway serve, installed, to its first answer', 'ms', median(serveMs), bareStart(bareServeMs), 6),
    atMost('tsc of 12 lines with the client package', 'ms', median(compiler.ms), compiler.floor, 3),
  ]
}

/** Runs of the compiler, with nothing but the client installed, and with an empty program in turn. */
async function measureCompiler(bench: BenchContext, packages: string) {
  const app = await bench.directory()
  await writeFile(join(app, 'package.json'), '{ "private": true, "type": "module" }\n')
  await writeFile(join(app, 'program.ts'), program)
  await writeFile(join(app, 'empty.ts'), 'export {}\n')
  const file = (await readdir(packages)).find((name) => name.startsWith('slipway-client-')) ?? ''
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(packages, file)], app)
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--target', 'esnext', '--module', 'nodenext']
  const args = [...options, '--lib', 'esnext,dom,dom.iterable,dom.asynciterable', '--types', '']
  const compile = (name: string) => run(join(root, 'node_modules/.bin/tsc'), [...args, name], app)
  const ms: number[] = []
  const bareMs: number[] = []
  for (let round = 0; round < (bench.isQuick ? 1 : 5); round++) {
    ms.push(await compile('program.ts'))
    bareMs.push(await compile('empty.ts'))
  }
  return { ms, floor: Floor.of('the same compiler with an empty program', bareMs) }
}

async function measureServe(command: string, data: string, env: Record<string, string>): Promise<number> {
  const startedAt = performance.now()
  const args = [command, '--json', 'serve', '--port', '0', '--no-key', '--data', data]
  const { firstLine, ...program } = await startProgram(args, env)
  await using server: Server = { ...program, port: Number(new URL(JSON.parse(firstLine).url).port) }
  await getJson(server, '/ready')
  return performance.now() - startedAt
}

/** Runs a program to its end; returns its duration in ms. */
async function run(
  program: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<number> {
  const startedAt = performance.now()
  const child = spawn(program, args, { cwd, env: { ...process.env, ...env }, stdio: 'ignore' })
  await new Promise<void>((done, reject) => {
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0 ? done() : reject(new Error(`${program} ${args.join(' ')} ended with ${code}`)),
    )
  })
  return performance.now() - startedAt
}

/** What the files below a directory take on the disk. */
async function diskBytes(directory: string): Promise<number> {
  let bytes = 0
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    bytes += (await lstat(join(entry.parentPath, entry.name))).blocks * 512
  return bytes
}
