import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { spawnCli } from '../../support/cli.ts'
import { WireClient } from '../../support/wire-client.ts'

/** `slipway serve` with a configuration file; needs no key. */
export class ConfiguredServer extends WireClient implements AsyncDisposable {
  readonly #directory: string
  #process: ReturnType<typeof spawnCli> | undefined

  private constructor(directory: string) {
    super('', undefined)
    this.#directory = directory
  }

  /**
   * Rejects with what the command printed when it ends.
   *
   * @param settings - lines of the table `agent_server`
   */
  static async open(settings: string): Promise<ConfiguredServer> {
    const server = new ConfiguredServer(await mkdtemp(join(tmpdir(), 'slipway-map-')))
    try {
      await writeFile(join(server.#directory, 'config.toml'), `[agent_server]\n${settings}\n`)
      await server.restart()
      return server
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
  }

  async restart(env: Readonly<Record<string, string>> = {}, args: readonly string[] = []): Promise<void> {
    await this.#stop()
    const data = ['--data', join(this.#directory, 'data')]
    const options = ['--port', '0', '--no-key', '--no-console']
    const child = spawnCli(['--json', ...args, 'serve', ...options, ...data], {
      HOME: this.#directory,
      SLIPWAY_CONFIG: join(this.#directory, 'config.toml'),
      SLIPWAY_LOG_LEVEL: 'error',
      ...env,
    })
    this.#process = child
    const errors = text(child.stderr)
    const line = await Promise.race([
      once(createInterface({ input: child.stdout }), 'line'),
      once(child, 'exit'),
    ])
    if (typeof line[0] !== 'string') throw new Error(`the server ended: ${await errors}`)
    this.url = JSON.parse(line[0]).url
  }

  /** What `/server_info` says about the address of applications. */
  async ingressUrl(): Promise<unknown> {
    const info = await this.requestOrThrow<{ app_backend_ingress_url: unknown }>('GET', '/server_info')
    return info.app_backend_ingress_url
  }

  async #stop(): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGTERM')
    await exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
    await rm(this.#directory, { recursive: true, force: true })
  }
}
