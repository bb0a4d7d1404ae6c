import { Readable, Writable } from 'node:stream'
import { runCli } from '../program/program.ts'
import type { HostedCommand, HostedResult } from './command-process.ts'

// A process that runs commands one after the other, each with its own working directory, environment and
// streams: a command in a separate process loads its modules again, which takes most of its time.

/** What the program of the command adds to the process, which ends after a command. */
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

process.on('message', (command: HostedCommand) => void run(command))
process.on('disconnect', () => process.exit())

async function run({ args, cwd, env, input }: HostedCommand): Promise<void> {
  process.chdir(cwd)
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  replace('stdin', Readable.from(input.length === 0 ? [] : [Buffer.from(input)], { objectMode: false }))
  replace('stdout', collect(stdout))
  replace('stderr', collect(stderr))
  const code = await runCli(args)
  for (const signal of signals) process.removeAllListeners(signal)
  // It is no process of the folder any more.
  process.chdir('/')
  const result: HostedResult = { stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr), code }
  process.send?.(result)
}

function replace(name: 'stdin' | 'stdout' | 'stderr', value: Readable | Writable): void {
  Object.defineProperty(process, name, { value, configurable: true })
}

function collect(chunks: Buffer[]): Writable {
  return new Writable({
    write(chunk, _, done) {
      chunks.push(Buffer.from(chunk))
      done()
    },
  })
}
