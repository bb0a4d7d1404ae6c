import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

/** A Git host on loopback: repositories at `/{owner}/{name}.git` by the smart HTTP protocol. */
export interface GitHost extends AsyncDisposable {
  readonly url: string
  /**
   * Creates a repository with one commit of these files on each branch. Files that end in `.sh` are
   * executable.
   */
  addRepository(
    name: string,
    files: Readonly<Record<string, string>>,
    branches?: readonly string[],
  ): Promise<void>
  /** Lines `METHOD path user:password` of every request. */
  readonly requests: readonly string[]
}

/** `login`: the `user:password` that may read. */
export async function openGitHost(options: { readonly login?: string } = {}): Promise<GitHost> {
  const root = await mkdtemp(join(tmpdir(), 'slipway-git-'))
  const requests: string[] = []
  const children = new Set<ChildProcess>()
  const server = createServer((raw, res) => {
    const login = Buffer.from((raw.headers.authorization ?? '').replace(/^Basic /i, ''), 'base64').toString()
    requests.push(`${raw.method} ${raw.url} ${login}`)
    if (options.login !== undefined && login !== options.login) {
      // The reply repeats the credentials, as some hosts do.
      res.writeHead(401, { 'www-authenticate': 'Basic realm="git"' })
      return void res.end(`Not you: ${raw.headers.authorization ?? 'nobody'} ${login}`)
    }
    serveGitRequest(root, raw, res, children)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    addRepository: (name, files, branches = ['main']) => createRepository(root, name, files, branches),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      for (const child of children) child.kill('SIGKILL')
      await rm(root, { recursive: true, force: true })
    },
  }
}

async function createRepository(
  root: string,
  name: string,
  files: Readonly<Record<string, string>>,
  branches: readonly string[],
): Promise<void> {
  const work = await mkdtemp(join(root, 'work-'))
  const env = { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' }
  const git = async (...args: string[]) => await promisify(execFile)('git', args, { cwd: work, env })
  await git('init', '--quiet', '--initial-branch', String(branches[0]))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(work, path)), { recursive: true })
    await writeFile(join(work, path), text)
    if (path.endsWith('.sh')) await chmod(join(work, path), 0o755)
  }
  for (const branch of branches) {
    if (branch !== branches[0]) await git('checkout', '--quiet', '-b', branch)
    await writeFile(join(work, 'BRANCH'), branch)
    await git('add', '-A')
    await git('-c', 'user.name=T', '-c', 'user.email=t@example.org', 'commit', '--quiet', '-m', branch)
  }
  await git('checkout', '--quiet', String(branches[0]))
  await git('clone', '--quiet', '--bare', work, join(root, `${name}.git`))
  await rm(work, { recursive: true })
}

/** Handles one request with git's own CGI program. */
function serveGitRequest(
  root: string,
  raw: IncomingMessage,
  res: ServerResponse,
  children: Set<ChildProcess>,
): void {
  const url = new URL(String(raw.url), 'http://x')
  const child = spawn('git', ['http-backend'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: raw.method,
      CONTENT_TYPE: raw.headers['content-type'],
      HTTP_CONTENT_ENCODING: raw.headers['content-encoding'],
      GIT_PROTOCOL: String(raw.headers['git-protocol'] ?? ''),
    },
  })
  children.add(child)
  child.once('close', () => children.delete(child))
  child.stdin.on('error', () => {})
  raw.pipe(child.stdin)
  let head = Buffer.alloc(0)
  child.stdout.on('data', (chunk: Buffer) => {
    if (res.headersSent) return void res.write(chunk)
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end === -1) return
    const headers = head
      .toString('latin1', 0, end)
      .split('\r\n')
      .map((line) => line.split(': '))
    const status = headers.find(([name]) => name === 'Status')?.[1]
    res.writeHead(
      status === undefined ? 200 : Number.parseInt(status, 10),
      Object.fromEntries(headers.filter(([name]) => name !== 'Status')),
    )
    res.write(head.subarray(end + 4))
  })
  child.once('close', () => {
    if (!res.headersSent) res.writeHead(500)
    res.end()
  })
}
