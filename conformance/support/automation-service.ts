import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { pythonEnv } from './python.ts'

/** The published scheduler, unmodified, with its data in a temporary folder. */
export class AutomationService implements AsyncDisposable {
  /** Without the path `/api/automation`. */
  readonly url: string
  readonly #port: number
  #stop: () => Promise<void> = async () => {}
  #output = ''

  private constructor(port: number) {
    this.#port = port
    this.url = `http://127.0.0.1:${port}`
  }

  /** Where it will be: the server that it asks is started with this address. */
  static async reserve(): Promise<AutomationService> {
    return new AutomationService(await freePort())
  }

  async start(python: string, server: { readonly url: string; readonly serviceKey: string }): Promise<void> {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-automation-'))
    const args = ['-m', 'uvicorn', 'openhands.automation.app:app', '--host', '127.0.0.1']
    const child = spawn(python, [...args, '--port', String(this.#port)], {
      cwd: directory,
      env: {
        ...pythonEnv(python, directory),
        AUTOMATION_DB_URL: `sqlite+aiosqlite:///${directory}/automations.db`,
        AUTOMATION_OPENHANDS_API_BASE_URL: server.url,
        AUTOMATION_SERVICE_KEY: server.serviceKey,
        AUTOMATION_BASE_URL: this.url,
        AUTOMATION_SERVER_PORT: String(this.#port),
        AUTOMATION_SCHEDULER_INTERVAL_SECONDS: '1',
        AUTOMATION_DISPATCHER_INTERVAL_SECONDS: '1',
        AUTOMATION_SANDBOX_POLL_INTERVAL: '1',
        LOCAL_STORAGE_PATH: join(directory, 'storage'),
      },
    })
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        this.#output += chunk
      })
    this.#stop = async () => {
      const isRunning = child.exitCode === null && child.signalCode === null
      if (isRunning && child.kill()) await once(child, 'exit')
      await rm(directory, { recursive: true, force: true })
    }
  }

  output(): string {
    return this.#output
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
  }
}
