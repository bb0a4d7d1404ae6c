import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Docker from 'dockerode'
import { createBuildContext, type ImageName, images, readVersion } from './context.ts'

/**
 * `npm run image -- [--server agent-server] [--tag slipway-agent-server] [--base <image>] [--engine-socket
 * <path>]...`: builds the image of a server through the API that Docker and Podman share, in each of the engines.
 */
const { values } = parseArgs({
  options: {
    server: { type: 'string', default: 'agent-server' },
    tag: { type: 'string' },
    base: { type: 'string', default: 'debian:bookworm-slim' },
    'engine-socket': { type: 'string', multiple: true, default: ['/var/run/docker.sock'] },
  },
})

if (!(values.server in images)) {
  console.error(`--server is one of ${Object.keys(images).join(', ')}; it is ${values.server}`)
  process.exit(2)
}
const server = values.server as ImageName // checked above
const tag = values.tag ?? `slipway-${server}`

const cpus: Readonly<Record<string, string>> = { amd64: 'x64', arm64: 'arm64' }

const engines = await Promise.all(values['engine-socket'].map(openEngine))
const directory = await mkdtemp(join(tmpdir(), 'slipway-image-'))
try {
  const staged = new Map<string, string>()
  for (const { docker, cpu } of engines) {
    const context = staged.get(cpu) ?? join(directory, cpu)
    if (!staged.has(cpu)) await createBuildContext(context, cpu, server)
    staged.set(cpu, context)
    await build(docker, context)
  }
} finally {
  await rm(directory, { recursive: true, force: true })
}

/** An engine that answers, and the CPU of its images; ends the program when there is none. */
async function openEngine(socketPath: string): Promise<{ docker: Docker; cpu: string }> {
  // An empty host: otherwise DOCKER_HOST of the environment would take precedence over the socket.
  const docker = new Docker({ host: '', protocol: 'http', socketPath })
  const answer = await docker.version().catch((error: Error) => error)
  const cpu = answer instanceof Error ? undefined : cpus[answer.Arch]
  if (cpu !== undefined) return { docker, cpu }
  const problem =
    answer instanceof Error
      ? `No container engine answers at ${socketPath} (${answer.message}).\n` +
        'Start Docker or Podman, or name its socket: npm run image -- --engine-socket PATH'
      : `There is no Node for an engine on ${answer.Arch}`
  console.error(problem)
  process.exit(1)
}

async function build(docker: Docker, context: string): Promise<void> {
  const stream = await docker.buildImage(
    { context, src: ['Dockerfile', 'app'] },
    {
      t: tag,
      buildargs: { BASE: values.base },
      labels: {
        'org.opencontainers.image.title': images[server].title,
        'org.opencontainers.image.version': await readVersion(),
      },
      forcerm: true,
    },
  )
  await new Promise<void>((resolve, reject) => {
    docker.modem.followProgress(
      stream,
      (error, output) => {
        const failure = error ?? output.find((line) => line.error !== undefined)?.error
        return failure ? reject(failure instanceof Error ? failure : new Error(String(failure))) : resolve()
      },
      (line) => process.stdout.write(line.stream ?? ''),
    )
  })
  const image = await docker.getImage(tag).inspect()
  console.log(`${tag} is ${image.Id}, ${Math.round(image.Size / 1e6)} MB`)
}
