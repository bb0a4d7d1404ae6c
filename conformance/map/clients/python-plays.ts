import { join } from 'node:path'
import { startAgentServer } from '../../support/agent-server.ts'
import { freePort } from '../../support/free-port.ts'
import { commandReply, finishReply, type MapServer, toolReply } from '../map-server.ts'
import { openPythonPrograms, type Play } from './python-programs.ts'

type Found = Readonly<Record<string, unknown>>

export type PythonPlays = ReturnType<typeof openPythonPlays>

/** Programs with their models; what several cases read runs once. */
export function openPythonPlays(server: MapServer) {
  const { needs, root, run } = openPythonPrograms(server)
  const result = async <T = Found>(program: string, play: Play = {}) => (await run<T>(program, play)).result
  return {
    needs,
    root,
    run,
    /** One of the functions of `details.py`. */
    detail: async <T = unknown>(name: string, play: Play = {}) =>
      await run<T>('details', { ...play, settings: { ...play.settings, case: name } }),
    converse: once(async () => {
      const replies = (directory: string) => [
        toolReply('file_editor', {
          command: 'create',
          path: join(directory, 'hello.txt'),
          file_text: 'Hello\n',
        }),
        toolReply('task_tracker', {
          command: 'plan',
          task_list: [{ title: 'Greet', notes: '', status: 'done' }],
        }),
        finishReply('Too early.'),
        commandReply('touch mended.txt'),
        finishReply(),
        // The side question is asked with the tools of the agent.
        { text: 'An aside.' },
      ]
      const aside = { text: 'Words of a model' }
      return (await run<Found>('converse', (directory) => ({ replies: replies(directory), aside }))).result
    }),
    files: once(async () => await run<Found>('files')),
    streamed: once(async () => await result('streamed', { replies: [{ text: 'One reply in two pieces.' }] })),
    forked: once(async () => {
      const replies = [commandReply('echo source'), finishReply(), commandReply('echo fork'), finishReply()]
      return await result('forked', { replies })
    }),
    paused: once(async () => {
      const replies = [
        ...[commandReply('sleep 2; echo one'), commandReply('echo two'), finishReply()],
        ...[commandReply('sleep 300'), finishReply()],
      ]
      return await result<{ paused: string; kinds: string[] }>('paused', { replies })
    }),
    clientTools: once(async () => {
      const replies = [toolReply('show_banner', { text: 'Welcome' }), finishReply()]
      return await result('client_tools', { replies })
    }),
    confirmed: once(async () => {
      const replies = [commandReply('touch first.txt'), commandReply('touch second.txt'), finishReply()]
      return await result<Found & { before: string[]; after: string[] }>('confirmed', { replies })
    }),
    secretValues: once(async () => {
      const names = ['PLAIN_TOKEN', 'STATIC_TOKEN', 'CALLED_TOKEN', 'STORED_TOKEN']
      const replies = [
        ...names.map((name) => commandReply(`echo "${name} has \${#${name}} characters: $${name}"`)),
        finishReply(),
      ]
      return await result<Found & { observations: string[] }>('secret_values', { replies })
    }),
    savedSettings: once(async () => await run<Found>('saved_settings', { replies: [finishReply('Four.')] })),
    reconnected: once(async () => {
      await using own = await RestartableServer.open(join(root(), 'killed'), root())
      return await result<{ kinds: string[]; twice: number; status: string }>('reconnected', {
        replies: [commandReply('sleep 8; echo slept'), finishReply()],
        endpoint: own.endpoint,
        answer: async (question) => await (question === 'kill' ? own.stop('SIGKILL') : own.start()),
      })
    }),
  }
}

/** A server that comes back at the same port. */
export class RestartableServer implements AsyncDisposable {
  readonly endpoint: { readonly url: string; readonly key: string }
  readonly start: () => Promise<void>
  #stop: (signal?: NodeJS.Signals) => Promise<unknown> = async () => {}

  private constructor(data: string, home: string, port: number) {
    const key = 'map-key-1'
    this.endpoint = { url: `http://127.0.0.1:${port}`, key }
    const env = { SLIPWAY_SESSION_API_KEY: key, SLIPWAY_NO_KEY: '', SLIPWAY_WIRE: 'current', HOME: home }
    this.start = async () => {
      const server = await startAgentServer(data, env, ['--port', String(port)])
      this.#stop = server.stop
    }
  }

  static async open(data: string, home: string): Promise<RestartableServer> {
    const server = new RestartableServer(data, home, await freePort())
    await server.start()
    return server
  }

  async stop(signal?: NodeJS.Signals): Promise<void> {
    await this.#stop(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop('SIGKILL')
  }
}

/** The first caller runs it; the others read its result. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined
  return () => {
    result ??= work()
    return result
  }
}
