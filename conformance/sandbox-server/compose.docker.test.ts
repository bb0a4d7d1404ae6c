import { execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import Docker from 'dockerode'
import { expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { type TestEngine, testEngine } from '../support/sandbox-server/container-engine.ts'
import type { SandboxInfo } from '../support/sandbox-server/server.ts'
import { waitFor } from '../support/sandbox-server/user.ts'

const root = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)
const engine = testEngine('SLIPWAY_TEST_DOCKER_SOCKET')
const { SLIPWAY_TEST_COMPOSE: composeProgram = '' } = process.env
const postgresImage = 'slipway.invalid/postgres:1'
const serverImage = 'slipway-sandbox-server'

/** `deploy/compose.yaml` with Docker Compose, its own engine and ports. */
class ComposeProject implements AsyncDisposable {
  readonly key = `sk-${randomBytes(12).toString('hex')}`
  readonly #name = `slipway-${randomBytes(4).toString('hex')}`
  readonly #directory: string
  readonly #env: Record<string, string>

  private constructor(directory: string, env: Record<string, string>) {
    this.#directory = directory
    this.#env = env
  }

  static async open({ socketPath, image }: TestEngine, ports: readonly [number, number]) {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-compose-'))
    const project = new ComposeProject(directory, {
      DOCKER_HOST: `unix://${socketPath}`,
      HOME: directory,
      PATH: process.env.PATH ?? '',
    })
    const settings = {
      POSTGRES_PASSWORD: randomBytes(12).toString('hex'),
      SLIPWAY_SECRET_KEY: randomBytes(12).toString('hex'),
      SLIPWAY_API_KEY: project.key,
      DOCKER_GID: String((await stat(socketPath)).gid),
      POSTGRES_IMAGE: postgresImage,
      POSTGRES_PORT: String(await freePort()),
      SLIPWAY_SANDBOX_IMAGE: image,
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
    await writeFile(join(directory, '.env'), lines.join(''))
    // The ports are those of the host, and the engine of the tests has a socket elsewhere.
    const service = (port: number) => ({
      command: ['--host', '127.0.0.1', '--port', String(port), '--data', '/data'],
      volumes: [`${socketPath}:/var/run/docker.sock`],
      healthcheck: {
        test: [
          'CMD',
          'node',
          '-e',
          `fetch('http://127.0.0.1:${port}/alive').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))`,
        ],
      },
    })
    const services = { slipway: service(ports[0]), 'slipway-second': service(ports[1]) }
    await writeFile(join(directory, 'override.json'), JSON.stringify({ services }))
    return project
  }

  async compose(...args: string[]): Promise<string> {
    const files = ['-f', join(root, 'deploy/compose.yaml'), '-f', join(this.#directory, 'override.json')]
    const where = ['--project-name', this.#name, '--env-file', join(this.#directory, '.env')]
    const { stdout } = await run(composeProgram, [...where, ...files, ...args], { env: this.#env })
    return stdout
  }

  async [Symbol.asyncDispose]() {
    await this.compose('--profile', 'second', 'down', '--volumes', '--timeout', '10')
    await rm(this.#directory, { recursive: true })
  }
}

/** Loads what a host would pull: the images of PostgreSQL and of the server. */
async function loadImages({ socketPath }: TestEngine, docker: Docker): Promise<void> {
  const has = async (name: string) =>
    await docker
      .getImage(name)
      .inspect()
      .then(
        () => true,
        () => false,
      )
  if (!(await has(postgresImage))) {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-image-'))
    const file = join(directory, 'postgres.tar')
    execFileSync('sh', ['-c', `"$0" > "$1"`, join(root, '.ci/postgres-image'), file])
    const [repo, tag] = postgresImage.split(':')
    const changes = ['ENTRYPOINT ["/docker-entrypoint.sh"]', 'USER 999', 'ENV PATH=/usr/bin']
    const stream = await docker.importImage(file, { repo, tag, changes })
    await new Promise<void>((done, fail) =>
      docker.modem.followProgress(stream, (error) => (error ? fail(error) : done())),
    )
    await rm(directory, { recursive: true })
  }
  if (await has(serverImage)) return
  const build = ['deploy/build.ts', '--server', 'sandbox-server', '--base', 'slipway-base']
  await run(process.execPath, [...build, '--engine-socket', socketPath], { cwd: root })
}

const whyNot =
  engine === undefined
    ? 'SLIPWAY_TEST_DOCKER_SOCKET is not set; `.ci/engines npx vitest run <file>` starts an engine and sets it'
    : composeProgram === ''
      ? 'SLIPWAY_TEST_COMPOSE is not set; `.ci/docker-compose` prints the path of a program for it'
      : undefined

if (engine === undefined || whyNot !== undefined) {
  test.skip(`compose: ${whyNot}`, () => {})
} else {
  test('the Compose file runs sandboxes on a host with PostgreSQL, and is upgraded without a pause', {
    timeout: 600_000,
  }, async () => {
    const docker = new Docker({ host: '', protocol: 'http', socketPath: engine.socketPath })
    await loadImages(engine, docker)
    const ports = [await freePort(), await freePort()] as const
    await using project = await ComposeProject.open(engine, ports)
    const call = async (port: number, method: string, path: string) => {
      const headers = { authorization: `Bearer ${project.key}` }
      return await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })
    }
    const find = async (port: number, id: string) => {
      const response = await call(port, 'GET', `/api/v1/sandboxes?id=${id}`)
      return ((await response.json()) as (SandboxInfo | null)[])[0] ?? undefined
    }
    await project.compose('up', '--detach', '--wait')
    expect((await fetch(`http://127.0.0.1:${ports[0]}/alive`)).status).toBe(200)

    const started = (await (await call(ports[0], 'POST', '/api/v1/sandboxes')).json()) as SandboxInfo
    const running = await waitFor('the sandbox runs', async () => {
      const found = await find(ports[0], started.id)
      expect(found?.status, found?.status_detail ?? '').not.toBe('ERROR')
      return found?.status === 'RUNNING' ? found : undefined
    })
    const agent = running.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url ?? ''
    const sessionKey = running.session_api_key ?? ''
    const echo = await fetch(`${agent}/api/bash/execute_bash_command`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-api-key': sessionKey },
      body: JSON.stringify({ command: 'echo from the sandbox' }),
    })
    expect(await echo.json()).toMatchObject({ stdout: 'from the sandbox\n', exit_code: 0 })

    // The upgrade: a second server, then the first one stops and starts again.
    await project.compose('--profile', 'second', 'up', '--detach', '--wait')
    await project.compose('stop', 'slipway')
    expect((await find(ports[1], started.id))?.status).toBe('RUNNING')
    await expect(fetch(`http://127.0.0.1:${ports[0]}/alive`)).rejects.toThrow()
    await project.compose('start', 'slipway')
    const again = await waitFor('the first server answers again', () =>
      find(ports[0], started.id).catch(() => undefined),
    )
    expect(again.status).toBe('RUNNING')
    expect((await call(ports[1], 'DELETE', `/api/v1/sandboxes/${started.id}`)).ok).toBe(true)
    await waitFor('its container is gone', async () => {
      const containers = await docker.listContainers({ all: true })
      return containers.some(({ Names }) => Names.some((name) => name.includes(started.id)))
        ? undefined
        : true
    })
  })
}
