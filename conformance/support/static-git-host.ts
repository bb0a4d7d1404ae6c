import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * A host of Git repositories: `good/repo` can be cloned with the token; any other request is refused, and the
 * reply repeats everything that was sent.
 */
export class StaticGitHost implements AsyncDisposable {
  readonly url: string
  /** The decoded Authorization headers of its requests. */
  readonly logins: string[] = []
  readonly #server: Server
  readonly #root: string

  private constructor(gitServer: Server, root: string) {
    this.#server = gitServer
    this.#root = root
    this.url = `http://127.0.0.1:${(gitServer.address() as AddressInfo).port}` // it listens on a port
    gitServer.on('request', (request, response) => void this.#handle(request, response))
  }

  /** `folder`: where its repositories are created; `setup`: the setup script of `good/repo`. */
  static async open(folder: string, setup: string): Promise<StaticGitHost> {
    const root = join(folder, 'git')
    await makeRepository(join(root, 'good'), setup)
    const gitServer = createServer()
    await new Promise<void>((resolve) => gitServer.listen(0, '127.0.0.1', resolve))
    return new StaticGitHost(gitServer, root)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #handle({ url = '', headers }: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authorization } = headers
    if (authorization === undefined)
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
    const login = Buffer.from(authorization.replace('Basic ', ''), 'base64').toString()
    this.logins.push(login)
    const path = url.replace(/\?.*$/, '')
    if (!path.startsWith('/good/')) {
      const text = `${authorization}\n${login}\n${encodeURIComponent(login)}\n`
      return void response.writeHead(403, { 'content-type': 'text/plain' }).end(text)
    }
    const bytes = await readFile(join(this.#root, path)).catch(() => undefined)
    response.writeHead(bytes === undefined ? 404 : 200).end(bytes)
  }
}

/** A repository with a setup script, as static files. */
async function makeRepository(folder: string, setup: string): Promise<void> {
  const work = join(folder, 'work')
  await mkdir(join(work, '.openhands'), { recursive: true })
  await writeFile(join(work, '.openhands', 'setup.sh'), setup)
  const git = async (...args: string[]) => {
    const settings = ['-c', 'user.name=t', '-c', 'user.email=t@t', '-c', 'init.defaultBranch=main']
    await promisify(execFile)('git', [...settings, ...args], { cwd: work })
  }
  await git('init', '--quiet')
  await git('add', '-A')
  await git('commit', '--quiet', '-m', 'One')
  await git('clone', '--quiet', '--bare', work, join(folder, 'repo.git'))
  await git('-C', join(folder, 'repo.git'), 'update-server-info')
}
