import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'

const root = resolve(import.meta.dirname, '../..')

/** The folder with nginx and caddy; undefined where they cannot be had. */
export const proxyPrograms =
  spawnSync(join(root, '.ci/proxies'), { encoding: 'utf8' }).stdout.trim() || undefined

export type ProxyProgram = 'nginx' | 'caddy'

/** A proxy with the block of a page of the documentation, on a separate port and path. */
export interface DocumentedProxy extends AsyncDisposable {
  /** With the path. */
  readonly url: string
}

interface DocumentedProxyOptions {
  readonly program: ProxyProgram
  /** The page: `docs/sandboxes.md`. Its first block in the language of the program is used. */
  readonly page: string
  /** The path in the block, `/slipway`, and the one to be used. */
  readonly documentedPath: string
  readonly path: string
  /** Silence after which it cuts a connection. */
  readonly cutSeconds: number
}

/** `start` gets the address of the proxy and resolves with that of the server behind it. */
export async function openDocumentedProxy(
  options: DocumentedProxyOptions,
  start: (url: string) => Promise<string>,
): Promise<DocumentedProxy> {
  const { program, path } = options
  const port = await freePort()
  const url = `http://127.0.0.1:${port}${path}`
  const target = await start(url)
  const directory = mkdtempSync(join(tmpdir(), 'slipway-proxy-'))
  const file = join(directory, 'config')
  writeFileSync(
    file,
    (program === 'nginx' ? nginxConfig : caddyConfig)({ ...options, port, target, directory }),
  )
  const args =
    program === 'nginx' ? ['-c', file, '-e', 'stderr'] : ['run', '--config', file, '--adapter', 'caddyfile']
  const child = spawn(join(proxyPrograms ?? '', program), args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory },
  })
  await untilAnswers(url, child)
  return {
    url,
    async [Symbol.asyncDispose]() {
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      await exit
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

interface Place extends DocumentedProxyOptions {
  readonly port: number
  readonly target: string
  readonly directory: string
}

function nginxConfig(place: Place): string {
  const { port, directory, cutSeconds } = place
  const block = documentedBlock(place, 'nginx')
    .replace(/listen 443 ssl;/, `listen 127.0.0.1:${port};`)
    .replace(/proxy_read_timeout [^;]+;/, `proxy_read_timeout ${cutSeconds}s;`)
  const map = `map $http_upgrade $connection_upgrade { default upgrade; '' close; }`
  const server = block.includes('listen')
    ? block
    : `${map}\nserver { listen 127.0.0.1:${port}; server_name example.org;\n${block}}`
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => {
    mkdirSync(join(directory, name))
    return `${name}_temp_path ${join(directory, name)};`
  })
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `${user} daemon off; pid ${join(directory, 'pid')}; worker_processes 1; events {}
http { access_log off; ${folders.join(' ')}
${server}
}`
}

function caddyConfig(place: Place): string {
  const { port, cutSeconds } = place
  const cut = `transport http {\nread_timeout ${cutSeconds}s\nwrite_timeout ${cutSeconds}s\n}`
  const block = documentedBlock(place, 'caddyfile')
    .replace('example.org {', `http://127.0.0.1:${port} {`)
    .replace('flush_interval -1', (line) => `${line}\n${cut}`)
  return `{\nadmin off\nauto_https off\n}\n${block}`
}

/** The block as it is in the documentation, with the address of the server and another path. */
function documentedBlock({ page, documentedPath, path, target }: Place, language: string): string {
  const text = readFileSync(join(root, page), 'utf8')
  const block = new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``).exec(text)?.[1]
  if (block === undefined) throw new Error(`${page} has no block of ${language}`)
  const replaced = block
    .replaceAll(`${documentedPath}/`, `${path}/`)
    .replace(/127\.0\.0\.1:\d+/, new URL(target).host)
  if (!replaced.includes(`${path}/`) || !replaced.includes(new URL(target).host))
    throw new Error(`${page}: the block of ${language} has another path or address`)
  return replaced
}

async function untilAnswers(url: string, child: ChildProcess): Promise<void> {
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      output += chunk
    })
  for (let tries = 0; tries < 200; tries++) {
    if (child.exitCode !== null) throw new Error(`The proxy ended: ${output}`)
    if (await fetch(`${url}/alive`).catch(() => undefined)) return
    await sleep(50)
  }
  child.kill()
  throw new Error(`The proxy does not answer: ${output}`)
}
