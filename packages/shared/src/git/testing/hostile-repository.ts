import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const { PATH = '' } = process.env
/** Programs that git gives a file and reads one from. */
const converters = /^(?:clean|smudge|textconv)/
const hooks = [
  'post-checkout',
  'pre-commit',
  'post-commit',
  'post-index-change',
  'reference-transaction',
].concat('pre-auto-gc', 'post-applypatch', 'fsmonitor-watchman')

/**
 * Arguments of git, without any precaution, that run a program of each kind. Some fail with their programs.
 */
export const carelessCalls = [
  'diff',
  'diff -- sub',
  'diff -- a.clean a.diff',
  'diff --no-ext-diff -- a.clean',
  'log -1',
  'fetch',
  'worktree add ../x',
  '-c filter.outer-two.process= worktree add ../y',
]
/** Marks of these kinds. */
export const carelessMarks = [
  'fsmonitor',
  'clean',
  'process',
  'textconv',
  'diff-external',
  'gpg',
  'ext',
  'smudge',
  'hook-post-checkout',
]
  .map((name) => `outer-${name}`)
  .concat('submodule-clean', 'submodule-process')

/**
 * A repository whose configuration, attributes, hooks and submodule name programs, each of which leaves a
 * mark; all files look changed to git. `bare` in it is a repository hidden in its files.
 */
export class HostileRepository implements Disposable {
  readonly #folder: string
  readonly root: string
  readonly bare: string
  readonly #marks: string
  /** Variables for git; its configuration has a filter of the user, `lfs`. */
  readonly env: Readonly<Record<'PATH' | 'HOME' | 'GIT_CEILING_DIRECTORIES' | 'GIT_CONFIG_NOSYSTEM', string>>

  /** In a folder below `parent`. */
  constructor(parent = tmpdir()) {
    this.#folder = mkdtempSync(join(parent, 'sw-git-'))
    this.root = join(this.#folder, 'work')
    this.bare = join(this.root, 'bare')
    this.#marks = join(this.#folder, 'marks')
    const limits = { GIT_CEILING_DIRECTORIES: parent, GIT_CONFIG_NOSYSTEM: '1' }
    this.env = { PATH, HOME: this.#folder, ...limits }
    for (const path of [this.#marks, this.bare]) mkdirSync(path, { recursive: true })
    const global = [
      '[user]\n\tname = x\n\temail = x@example.test\n',
      '[init]\n\tdefaultBranch = main\n',
    ].concat(`[filter "lfs"]\n\tclean = "tr a-z A-Z"\n\tsmudge = "tr A-Z a-z"\n\trequired = true\n`)
    writeFileSync(join(this.#folder, '.gitconfig'), global.join(''))
    this.#fill(this.root, 'outer')
    this.#fill(join(this.root, 'sub'), 'submodule')
    writeFileSync(
      join(this.root, '.gitmodules'),
      '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n',
    )
    this.git('add', '-A')
    this.git('commit', '-qm', 'second')
    this.#sign()
    this.#push()
    this.git('init', '-q', '--bare', this.bare)
    this.#attack(this.bare, this.bare, 'bare')
    this.git('--git-dir', this.bare, 'config', 'core.bare', 'false')
    this.git('--git-dir', this.bare, 'config', 'core.worktree', this.bare)
    this.#attack(this.root, join(this.root, '.git'), 'outer')
    this.#attack(join(this.root, 'sub'), join(this.root, 'sub/.git'), 'submodule')
    this.touch()
  }

  /** Git without any precaution. */
  git(...args: string[]): string {
    return execFileSync('git', args, { cwd: this.root, env: this.env, stdio: ['ignore', 'pipe', 'pipe'] })
      .toString()
      .trim()
  }

  /** Changes all files without changing their sizes, so that git has to read them. */
  touch(): void {
    for (const folder of [this.root, join(this.root, 'sub')])
      for (const name of ['a.clean', 'a.process', 'a.diff', 'a.lfs']) {
        rmSync(join(folder, name), { force: true })
        writeFileSync(join(folder, name), 'b')
      }
  }

  /** The file that a program of this name leaves. */
  markPath(name: string): string {
    return join(this.#marks, name)
  }

  /** The programs that have run, as `place-name`. */
  get marks(): string[] {
    return readdirSync(this.#marks).sort()
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true })
  }

  #fill(root: string, name: string): void {
    mkdirSync(root, { recursive: true })
    execFileSync('git', ['init', '-q', root], { env: this.env })
    const attributes = [
      `*.clean filter=${name}-one diff=one`,
      `*.process filter=${name}-two`,
      '*.diff diff=two',
      '*.lfs filter=lfs',
    ]
    writeFileSync(join(root, '.gitattributes'), `${attributes.join(' merge=one\n')} merge=one\n`)
    for (const file of ['a.clean', 'a.process', 'a.diff', 'a.lfs']) writeFileSync(join(root, file), 'a')
    for (const args of [
      ['add', '-A'],
      ['commit', '-qm', name],
    ])
      execFileSync('git', args, { cwd: root, env: this.env })
  }

  /** A commit with a signature, which `log.showSignature` would have checked. */
  #sign(): void {
    const [, ...rest] = this.git('cat-file', 'commit', 'HEAD').split('\n\n')
    const head = this.git('cat-file', 'commit', 'HEAD').split('\n\n')[0]
    const signature = ' -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----'
    const text = `${head}\ngpgsig${signature}\n\n${rest.join('\n\n')}\n`
    const commit = execFileSync('git', ['hash-object', '-t', 'commit', '-w', '--stdin'], {
      cwd: this.root,
      env: this.env,
      input: text,
    })
    this.git('update-ref', 'HEAD', commit.toString().trim())
  }

  /**
   * The branch is that of a remote, so that changes which are not committed decide what it is compared with.
   */
  #push(): void {
    this.git('update-ref', 'refs/remotes/origin/main', 'HEAD')
    this.git('config', 'remote.origin.fetch', '+refs/heads/*:refs/remotes/origin/*')
    this.git('config', 'branch.main.remote', 'origin')
    this.git('config', 'branch.main.merge', 'refs/heads/main')
  }

  #attack(root: string, directory: string, place: string): void {
    const program = (name: string) => this.#program(`${place}-${name}`, converters.test(name))
    const settings: Record<string, string> = {
      [`filter.${place}-one.clean`]: program('clean'),
      [`filter.${place}-one.smudge`]: program('smudge'),
      [`filter.${place}-one.required`]: 'true',
      [`filter.${place}-two.process`]: program('process'),
      'diff.one.textconv': program('textconv'),
      'diff.two.command': program('diff-command'),
      'diff.external': program('diff-external'),
      'merge.one.driver': program('merge-driver'),
      'core.fsmonitor': program('fsmonitor'),
      'core.pager': program('pager'),
      'core.sshCommand': program('ssh'),
      'core.askPass': program('askpass'),
      'core.editor': program('editor'),
      'core.gitProxy': program('proxy'),
      'core.alternateRefsCommand': program('alternate-refs'),
      'credential.helper': program('credential'),
      'gpg.program': program('gpg'),
      'log.showSignature': 'true',
      'commit.gpgSign': 'true',
      'uploadpack.packObjectsHook': program('pack-objects'),
      'remote.origin.url': `ext::${program('ext')}`,
      'remote.origin.uploadpack': program('uploadpack'),
      'protocol.ext.allow': 'always',
      'alias.status': `!${program('alias')}`,
      'diff.ignoreSubmodules': 'none',
      'submodule.recurse': 'true',
      'status.submoduleSummary': 'true',
    }
    const included = join(directory, 'included')
    const text = Object.entries(settings).map(([name, value]) => sectionText(name, value))
    writeFileSync(included, text.join(''))
    const config = ['--git-dir', directory, 'config', 'include.path', included]
    execFileSync('git', config, { cwd: root, env: this.env })
    mkdirSync(join(directory, 'hooks'), { recursive: true })
    for (const hook of hooks) {
      const path = join(directory, 'hooks', hook)
      rmSync(path, { force: true })
      writeFileSync(path, `#!/bin/sh\n${this.#program(`${place}-hook-${hook}`, false)}\n`)
      chmodSync(path, 0o755)
    }
  }

  #program(name: string, isConverter: boolean): string {
    const path = join(this.#folder, name)
    const last = isConverter ? 'cat $1' : name.endsWith('-fsmonitor') ? 'exit 1' : 'exit 0'
    if (!existsSync(path)) writeFileSync(path, `#!/bin/sh\ntouch '${this.markPath(name)}'\n${last}\n`)
    chmodSync(path, 0o755)
    return path
  }
}

function sectionText(name: string, value: string): string {
  const [section = '', ...rest] = name.split('.')
  const key = rest.pop()
  const subsection = rest.length > 0 ? ` "${rest.join('.')}"` : ''
  return `[${section}${subsection}]\n\t${key} = "${value}"\n`
}
