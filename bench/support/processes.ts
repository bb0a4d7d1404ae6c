import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { must } from '@slipway/protocol'

/** All children of this process; they end with it. */
const children = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** A server in its own process, stopped on disposal. */
export interface Server extends AsyncDisposable {
  readonly pid: number
  readonly port: number
  /** CPU time so far of all its threads, in steps of a hundredth of a second. */
  cpuSeconds(): number
}

/** Starts a program with the Node of this process; its first line is its address. */
export async function startServer(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const { firstLine, ...program } = await startProgram(args, env)
  return { ...program, port: Number(new URL(firstLine).port) }
}

/** A server that is not Node: its process ends with this one. */
export function adoptProcess(child: ChildProcess, port: number): Server {
  void trackChild(child)
  const pid = must(child.pid, 'process id')
  return {
    pid,
    port,
    cpuSeconds: () => cpuSeconds(pid),
    [Symbol.asyncDispose]: () => endProcess(child),
  }
}

/** A program in its own process, and its first line of output. */
export interface Program extends Omit<Server, 'port'> {
  readonly firstLine: string
}

/** Starts a program with the Node of this process and waits for its first line. */
export async function startProgram(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Program> {
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, SLIPWAY_LOG_LEVEL: 'warn', ...env },
  })
  const exited = trackChild(child)
  const lines = createInterface({ input: child.stdout })
  const [firstLine] = (await Promise.race([once(lines, 'line'), exited])) as [string]
  const pid = must(child.pid, 'process id')
  return {
    pid,
    firstLine,
    cpuSeconds: () => cpuSeconds(pid),
    [Symbol.asyncDispose]: () => endProcess(child),
  }
}

/** A helper process that handles one request at a time. */
export interface HelperProcess<Question, Answer> extends AsyncDisposable {
  ask(question: Question): Promise<Answer>
}

/** Starts a helper that replies to each message with one message. */
export function startHelper<Question extends object, Answer>(file: string): HelperProcess<Question, Answer> {
  const child = fork(new URL(file, import.meta.url), { serialization: 'advanced' })
  const exited = trackChild(child)
  return {
    async ask(question) {
      const answered = once(child, 'message')
      child.send(question)
      const [answer] = (await Promise.race([answered, exited])) as [{ value: Answer } | { error: unknown }]
      if ('error' in answer) throw new Error(`${file} has failed`, { cause: answer.error })
      return answer.value
    },
    [Symbol.asyncDispose]: () => endProcess(child),
  }
}

/** The helper's side: replies to each message of the parent, with an Error too, and ends with the parent. */
export function serveParent<Question>(answer: (question: Question) => Promise<unknown>): void {
  process.on('message', (question: Question) => {
    answer(question).then(
      (value) => process.send?.({ value }),
      (error: unknown) => process.send?.({ error }),
    )
  })
  process.on('disconnect', () => process.exit())
}

/** Resident memory of a process in MB (10^6 bytes). */
export function residentMb(pid: number): number {
  return memoryMb(pid, 'VmRSS')
}

/** The part of it that is its own: not the pages of programs and files, which processes share. */
export function ownMb(pid: number): number {
  return memoryMb(pid, 'RssAnon')
}

function memoryMb(pid: number, member: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kB = new RegExp(`^${member}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]
  return (Number(must(kB, member)) * 1024) / 1e6
}

/** User and system time of all threads; the kernel counts in hundredths of a second. */
function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** Ends the child with this process; returns a promise that rejects when the child ends. */
function trackChild(child: ChildProcess): Promise<never> {
  children.add(child)
  const exited = once(child, 'exit').then(([code, signal]): never => {
    children.delete(child)
    throw new Error(`${child.spawnargs.slice(1).join(' ')} has ended: ${code ?? signal}`)
  })
  exited.catch(() => {})
  return exited
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 10_000)
  await ended
  clearTimeout(timer)
}
