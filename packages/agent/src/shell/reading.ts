import { hasUnknownOption, outputFiles, subcommandIndex } from './options.ts'
import { parseScript, type ShellCall } from './script.ts'
import { sedScriptRisk } from './sed.ts'
import { unknownText } from './words.ts'

/** Longer texts are not read. In UTF-16 units. */
const maxLength = 32 * 1024

/** Whether this call of a program, whose output goes nowhere else, only reads. */
type Reads = (args: readonly string[], call?: Pick<ShellCall, 'hasOpenGlob'>) => boolean

const always: Reads = () => true
/** Arguments that only the run knows, and names of files from a glob, may be options. */
const without =
  (pattern: RegExp): Reads =>
  (args, call) =>
    call?.hasOpenGlob !== true && !args.some((arg) => pattern.test(arg) || isOpen(arg))
const isOpen = (arg: string) => new RegExp(`^(?:-[^=]*)?${unknownText}`).test(arg)
const isPartlyUnknown = (arg: string) => arg.includes(unknownText)
/** They write their second file, so a word that may become several is refused. */
const oneFile: Reads = (args) => !args.some((arg) => isPartlyUnknown(arg) || /[*?[]/.test(arg))
/** Options that may be shortened: each of them is listed. */
const sedOption =
  /^(?:-[nErsuz]+|-[nErsuz]*e.*|-[nErsuz]*l\d*|--(?:quiet|silent|expression(?:=.*)?|regexp-extended|null-data|separate|unbuffered|zero-terminated|debug|posix|sandbox|follow-symlinks|line-length(?:=\d+)?|version|help)|-)$/s
const sed: Reads = (args, call) =>
  call?.hasOpenGlob !== true &&
  args.every((arg) => !isPartlyUnknown(arg) && (!arg.startsWith('-') || sedOption.test(arg))) &&
  sedScriptRisk(args) === 'LOW'
const onlyVersion: Reads = (args) => args.length === 1 && /^(?:-v|-V|--version)$/.test(args[0] ?? '')

/** Sub-commands of git that read with any options. */
const readingGit =
  /^(?:annotate|blame|cat-file|check-attr|check-ignore|cherry|count-objects|describe|diff|diff-files|diff-index|diff-tree|for-each-ref|grep|log|ls-files|ls-tree|merge-base|name-rev|range-diff|rev-list|rev-parse|shortlog|show|show-branch|show-ref|status|var|version|whatchanged)$/
/** The whole text of other sub-commands when they read. */
const readingGitText =
  /^(?:branch(?: (?:-a|-r|-v|-vv|--all|--remotes|--list|--show-current|--verbose))*|config (?:-l|--list|--get(?:-all|-regexp)?)(?: \S+)*|reflog(?: show)?|remote(?: -v| --verbose| get-url \S+)?|stash (?:list|show(?: \S+)*)|submodule status|tag(?: -l| --list)?|worktree list)$/
const git: Reads = (args, call) => {
  const index = subcommandIndex('git', args)
  const rest = args.slice(index)
  const [command = ''] = rest
  const isPlain = args
    .slice(0, index)
    .every((arg, at) => /^(?:-C|-P|--no-pager|--version)$/.test(arg) || args[at - 1] === '-C')
  const hasProgram = rest.some(
    (arg) => /^(?:-O|--op|--ext|--text|--outp|--fil)/.test(arg) || (command === 'grep' && /^-\w*O/.test(arg)),
  )
  if (!isPlain || hasProgram || rest.some(isOpen)) return false
  if (call?.hasOpenGlob === true && !rest.includes('--')) return false
  return rest.length === 0 || readingGit.test(command) || readingGitText.test(rest.join(' '))
}

/** By name. What is not listed may write. */
const readers: ReadonlyMap<string, Reads> = new Map([
  ...readersFor(
    ': [ [[ b2sum base32 basename cat cd cksum cmp column comm cut df diff dirname du echo egrep expand expr false fgrep fmt fold free grep groups head hexdump id join jq ls md5sum nl nproc od paste printenv printf ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat strings sum tac tail test tr true type uname unexpand uptime wc which whoami zcat zgrep',
    always,
  ),
  ...readersFor('sort', without(/^$/)),
  ...readersFor('uniq xxd', oneFile),
  // It sets the clock to a number; on macOS, `arch` starts a program.
  ['date', without(/^\d+(?:\.\d+)?$/)],
  ['arch', (args) => args.length === 0],
  ['tree', without(/^-[^-]*[oR]/)],
  ...readersFor(
    'node npm pnpm yarn python python3 go cargo rustc java javac ruby php perl gcc clang tsc deno bun',
    onlyVersion,
  ),
  // The programs that these start are calls of the text.
  ...readersFor('command nice timeout', always),
  // Its options write a file.
  ['time', ([first = '']) => !first.startsWith('-')],
  ['xargs', without(/^-(?:-process-slot-var|o$)/)],
  ['file', without(/^(?:-\w*C|--c)/)],
  ['fd', without(/^-\w*[xX]|^--exec/)],
  ['find', without(/^-(?:delete|fls|fprint|ok)/)],
  ['git', git],
  ['rg', without(/^--(?:pre$|pre=|hostname-bin)/)],
  ['sed', sed],
  [
    'awk',
    (args, call) =>
      !args.some(isPartlyUnknown) &&
      without(
        /^(?:-\w*[fiElo]|--(?:file|include|exec|load|dump|profile|pretty|debug))|[>|@]|\bsystem\b|\bgetline\b/,
      )(args, call) &&
      !hasUnknownOption('awk', args),
  ],
])

function readersFor(list: string, reads: Reads): [string, Reads][] {
  return list.split(' ').map((name) => [name, reads])
}

/**
 * Whether a shell text is known to read and to change nothing: each program that it calls is listed, comes
 * from the PATH, writes no file by options or redirection, and gets no variables. A text that cannot be read
 * may write. It is no security boundary: a function of the shell may have the name of a program.
 */
export async function isReadingCommand(command: string): Promise<boolean> {
  if (command.length > maxLength) return false
  const { calls, functions, hasErrors, isForkBomb, isTooDeep, isTooLong } = await parseScript(command)
  if (functions.size > 0 || hasErrors || isForkBomb || isTooDeep || isTooLong) return false
  return calls.every(isReading)
}

function isReading(call: ShellCall): boolean {
  const { name, folder, args, assignments, writes, reads } = call
  const isNowhere = (path: string) => path === '/dev/null'
  const readsArgs = readers.get(name)
  if (readsArgs === undefined || !/^(?:|(?:\/usr)?\/bin\/)$/.test(folder)) return false
  if (![...writes, ...outputFiles(name, args)].every(isNowhere)) return false
  if (reads.some((path) => path.startsWith('/dev/tcp/') || path.startsWith('/dev/udp/'))) return false
  const isLocale = (variable: string) => /^(?:LC_\w+|LANG|TZ|NO_COLOR)$/.test(variable)
  return [...assignments.keys()].every(isLocale) && !hasUnknownOption(name, args) && readsArgs(args, call)
}
