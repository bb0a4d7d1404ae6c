import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { OwnMapServer } from '../map-server.ts'

const identity = ['-c', 'user.name=map', '-c', 'user.email=map@localhost', '-c', 'commit.gpgsign=false']

/** A repository on this machine, which servers use as a source over `file://`. */
export class GitSource {
  readonly directory: string

  private constructor(directory: string) {
    this.directory = directory
  }

  static async create(files: Readonly<Record<string, string | Buffer>>): Promise<GitSource> {
    const source = new GitSource(await realpath(await mkdtemp(join(tmpdir(), 'slipway-map-source-'))))
    await source.#git('init', '-q', '-b', 'main')
    await source.commit(files)
    return source
  }

  get url(): string {
    return `file://${this.directory}`
  }

  /** Writes files and returns the id of the commit. */
  async commit(files: Readonly<Record<string, string | Buffer>>): Promise<string> {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(this.directory, name)), { recursive: true })
      await writeFile(join(this.directory, name), text)
    }
    await this.#git('add', '-A')
    await this.#git(...identity, 'commit', '-qm', 'files')
    return await this.#git('rev-parse', 'HEAD')
  }

  async #git(...args: readonly string[]): Promise<string> {
    return (await promisify(execFile)('git', ['-C', this.directory, ...args])).stdout.trim()
  }
}

/** The text of a SKILL.md. */
export function skillText(name: string, more = '', body = `Body of ${name}.`): string {
  return `---\nname: ${name}\ndescription: Skill ${name}.\n${more}---\n\n${body}\n`
}

/** The files of a plugin with a skill, a command and a hook, below a folder. */
export function pluginFiles(name: string, at = name, version = '0.1.0'): Record<string, string> {
  const hook = { type: 'command', command: `echo hook-of-${name}` }
  return {
    [`${at}/.plugin/plugin.json`]: JSON.stringify({ name, version, description: `Plugin ${name}.` }),
    [`${at}/skills/${name}-skill/SKILL.md`]: skillText(`${name}-skill`),
    [`${at}/commands/hello.md`]: '---\ndescription: Says hello.\n---\nSay hello.\n',
    [`${at}/hooks/hooks.json`]: JSON.stringify({
      hooks: { UserPromptSubmit: [{ matcher: '*', hooks: [hook] }] },
    }),
  }
}

/** A server for which the repository is one of github.com: git of its user finds it on this machine. */
export async function openWithGitHub(source: GitSource): Promise<OwnMapServer> {
  const server = await OwnMapServer.open({ key: 'map-key-2' })
  const address = 'https://github.com/map-owner/map-repo'
  const rule = `[url "${source.url}"]\n\tinsteadOf = ${address}.git\n\tinsteadOf = ${address}\n`
  await server.upload(`${server.home}/.gitconfig`, rule)
  return server
}
