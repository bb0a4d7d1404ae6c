/**
 * The risk of one call of a program, by its name and words.
 *
 * Problem: the user is asked about a command by its risk. Too many questions are answered without a look; a
 * missing one loses data. There is no list of all programs, and an everyday program has an option that runs
 * another one.
 *
 * Idea: a table of rules by name. Each rule sees the words of the call (`script.ts` has parsed them) and
 * never a file. What is harmless is listed; what is not listed is doubtful. `risk.ts` rates whole commands by
 * the greatest risk of their calls.
 *
 * Invariants:
 * - An unknown program is never LOW: `programRisk` has no risk for it, and `callRisk` of `risk.ts` then says
 *   MEDIUM. So does a known one with an option or sub-command that is not listed (`hasUnknownOption`).
 * - An option that runs a program is HIGH, whatever the program (`runningOptions`).
 * - Where several patterns match, the greatest risk counts (`byPattern`).
 * - A name stands in the table once: a later entry of the Map would win without a word.
 * - Names are looked up as own members (`Object.hasOwn`) and without a version: `python3.12` is `python`.
 * - A wrapper without a rule is LOW, because `script.ts` makes a call of what it starts.
 * - Patterns take linear time, because models write the text: two patterns in a row instead of one with a gap
 *   (`destructiveSequences`).
 *
 * If you change this: `risk.test.ts` has the commands that are decided, and `unknown-risk.test.ts` counts the
 * questions about everyday and recorded ones. It is not a security boundary: a started program can do
 * anything. The risk is stored in the ActionEvent, so another rule changes new actions alone.
 *
 * Decision page: docs/decisions/0007-risk-on-the-event.md
 */

import { compareRisk, type SecurityRisk } from '@slipway/protocol'
import { hasUnknownOption, subcommandIndex } from './options.ts'
import { isCatastrophicTarget, isDiskDevice, isOutsideDirectory, isSystemPath, mayBeRoot } from './paths.ts'
import type { ShellCall } from './script.ts'
import { sedScriptRisk } from './sed.ts'
import { findPaths, isWrapper } from './wrappers.ts'

type Rule = (call: ShellCall) => SecurityRisk

export function maxRisk(a: SecurityRisk, b: SecurityRisk): SecurityRisk {
  return compareRisk(a, b) > 0 ? a : b
}

const installSubcommands =
  /^(?:i|install|add|ci|update|upgrade|up|get|sync|remove|uninstall|rm|purge|autoremove|dlx|create|exec|x|publish|link|global|tool|dist-upgrade|full-upgrade|-S\w*|-R\w*|-U\w*)$/
const remoteGitCommands = /^(?:clone|fetch|pull|ls-remote|remote|submodule|lfs|send-email)$/
const destructiveGit =
  /^(?:reset .*--hard|clean .*-\w*[fdx]|(?:checkout|restore) (?:.* )?(?:--|\.)(?: |$)|restore |branch .*-(?:D|-delete)|tag .*-d|stash (?:drop|clear)|(?:rebase|rm|filter-branch|filter-repo|update-ref|gc|prune|worktree remove)(?: |$)|reflog (?:expire|delete)|commit .*--amend|config .*(?:--global|--system)|bisect run|(?:diff|log|show) .*--(?:ext-diff|textconv))/
const forcedPush =
  /^(?:--force(?:-with-lease|-if-includes)?(?:=.*)?|-(?=[a-z]*f)[a-z]+|--mirror|--delete|-d|--prune|[+:].+)$/
const hijackingGitKey =
  /^(?:core\.(?:sshCommand|fsmonitor|pager|editor|hooksPath|gitProxy|askPass)|sequence\.editor|pager\.\w+|diff\.external|(?:diff|merge|filter)\.[^=]*\.(?:command|textconv|driver|clean|smudge|process)|(?:diff|merge)tool\.[^=]*cmd|credential\.[^=]*helper|gpg\.[^=]*program|include\.path)$/i
const hijackingGit =
  /^(?:grep .*(?:-O\w|--open-files)|difftool .*(?:-x|--extcmd)|(?:clone|fetch|pull|ls-remote|archive) .*(?:--upload-pack|--exec|ext::))/
const destructiveSql =
  /\b(?:drop\s+(?:database|schema|table|user)|truncate\s+(?:table\s+)?\w|delete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb|dropDatabase)/i
const destructiveCode =
  /rm\s+-(?=\w*[rf])\w+\s+["']?(?:\/|~|\$HOME)(?:["'*\s;)]|$)|(?:rmtree|rmSync|rm_rf|remove_tree)\s*\(\s*["'](?:\/|~|\/(?:etc|usr|home|root|var|bin|boot))["'/]|\/dev\/(?:sd|nvme|mem)|pty\.spawn/i
/** Destructive in this order. Two patterns, because one with a gap takes quadratic time. */
const destructiveSequences = [
  [/(?:exec|eval)\s*\(/i, /b64decode|base64|fromCharCode|decompress|urlopen|requests\.get|atob/i],
  [/socket/i, /dup2/i],
] as const
const reachingCode =
  /\b(?:rmtree|unlink|rmdir|rmSync|removedirs|os\.remove|system|subprocess|child_process|execSync|spawn|popen|urlopen|urllib|requests|http\.client|socket|fetch|axios|fs\.rm|qx)\b|https?:\/\//i

/** The agent server's own routes and files, in code. */
const serverCode = /\/api\/(?:conversations|settings|bash)\b|confirmation_policy|secret\.key|\.slipway\b/
/** Its routes in a URL, also encoded. */
const serverRoute =
  /\/api\/(?:(?:conversations|settings|bash|file|profiles|agent-profiles|workspaces|llm|mcp)\b|\w*%)/
/** Options of everyday programs that run a program. */
const runningOptions: Readonly<Record<string, RegExp>> = {
  sort: /^--comp/,
  split: /^--f/,
  rg: /^--pre(?:=|$)/,
  make: /^(?:--ev|SHELL=)/,
  go: /^--?(?:tool)?exec(?:=|$)/,
  zip: /^(?:-\w*TT|--unzip-c)/,
  ssh: /Command=/i,
  scp: /Command=/i,
  sftp: /Command=/i,
  man: /^-\w*[PH]|^--pager/,
  env: /^(?:-\w*S|--split)/,
}

interface Patterns {
  readonly high?: RegExp
  readonly medium?: RegExp
  readonly low?: RegExp
}

/** The greatest risk whose pattern matches, else `otherwise`. `texts`: what a pattern is matched with. */
function byPattern(
  texts: (call: ShellCall) => readonly string[],
  { high, medium, low }: Patterns,
  otherwise: SecurityRisk,
): Rule {
  return (call) => {
    const matches = (pattern: RegExp | undefined) =>
      pattern !== undefined && texts(call).some((text) => pattern.test(text))
    return matches(high) ? 'HIGH' : matches(medium) ? 'MEDIUM' : matches(low) ? 'LOW' : otherwise
  }
}

/** By the arguments, each alone. */
const byArgument = (patterns: Patterns, otherwise: SecurityRisk = 'LOW') =>
  byPattern(({ args }) => args, patterns, otherwise)

/** By all arguments as one text. */
const byCommandLine = (patterns: Patterns, otherwise: SecurityRisk = 'MEDIUM') =>
  byPattern(({ args }) => [args.join(' ')], patterns, otherwise)

/** Programs that use the network. */
const networkPrograms = new Set(
  'curl wget aria2c fetch http https xh lynx w3m links nc ncat netcat socat telnet ftp lftp tftp ssh scp sftp rsync rclone sshfs mosh gh glab aws gcloud gsutil az doctl heroku flyctl vercel netlify mail sendmail mutt ngrok cloudflared'.split(
    ' ',
  ),
)

/** Interpreters of program texts. */
export const interpreterPrograms =
  /^(?:(?:ba|da|z|k|a|fi|c|tc|rba)?sh|pypy\d?|python[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|tsx|php[\d.]*|lua[\d.]*|luajit|osascript|pwsh|tclsh|expect|Rscript)$/

/**
 * Programs and builtins without their own risk: tools for texts and files, then builtins, then builds.
 */
const harmlessPrograms =
  'echo printf cat ls pwd cd test [ true false : C-c C-d C-z less more man head tail wc sort uniq cut paste tr nl tac rev fold fmt pr column comm join diff cmp sdiff diffstat grep egrep fgrep rg ag tree stat file du df basename dirname realpath readlink seq yes sleep date cal uptime uname whoami id groups hostname nproc arch tty ps top free lsof pgrep pidof ss netstat which whereis whatis locate type hash md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base32 base64 basenc xxd od hexdump strings openssl gpg gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd unzstd lz4 zip jq yq xmllint bc dc expr factor shuf split csplit tsort numfmt expand unexpand iconv dos2unix mktemp mkfifo sync tput clear reset env printenv uudecode export unset set shopt declare typeset local readonly read mapfile readarray let eval source . alias unalias trap wait jobs fg bg disown break continue return exit shift getopts umask ulimit pushd popd dirs times compgen logout watch script make gmake cmake ninja meson pkg-config ldd gcc g++ cc c++ clang clang++ clang-format clang-tidy ld ar nm objdump readelf size strip rustc rustfmt clippy-driver gofmt goimports golangci-lint golint javac java jar mvn mvnw gradle gradlew ant kotlinc scalac sbt swift swiftc tsc ts-node vitest jest mocha ava playwright cypress eslint biome prettier stylelint oxlint webpack rollup vite esbuild swc next turbo nx lerna pytest tox nox mypy pyright ruff black isort flake8 pylint coverage rspec rake rubocop rails phpunit phpstan ctest cppcheck shellcheck shfmt hadolint yamllint markdownlint pre-commit protoc buf rustdoc javadoc pdflatex pandoc dot convert identify ffprobe'

const diskPrograms =
  'wipefs blkdiscard sgdisk sfdisk fdisk cfdisk parted badblocks hdparm cryptsetup mkswap pvremove vgremove lvremove'

/** Programs that decode unreadable data. */
const decoderPrograms =
  /^(?:base(?:32|58|64)|basenc|xxd|openssl|gpg|uudecode|rev|tr|gunzip|zcat|bzcat|xzcat|unxz|bunzip2)$/

export function isNetwork({ name }: ShellCall): boolean {
  return networkPrograms.has(name)
}

export function isDecoder({ name }: ShellCall): boolean {
  return decoderPrograms.test(name)
}

/** The risk of a program on its own; undefined for unknown programs. */
export function programRisk(call: ShellCall): SecurityRisk | undefined {
  const option = Object.hasOwn(runningOptions, call.name) ? runningOptions[call.name] : undefined
  if (option !== undefined && call.args.some((arg) => option.test(arg))) return 'HIGH'
  // As an unknown program.
  if (hasUnknownOption(call.name, call.args)) return maxRisk('MEDIUM', knownProgramRisk(call) ?? 'LOW')
  return knownProgramRisk(call)
}

function knownProgramRisk(call: ShellCall): SecurityRisk | undefined {
  const rule = rules.get(call.name) ?? rules.get(call.name.replace(/[\d.]+$/, ''))
  if (rule !== undefined) return rule(call)
  if (call.name.startsWith('mkfs')) return 'HIGH'
  if (interpreterPrograms.test(call.name)) return codeRisk(call)
  return isWrapper(call.name) ? 'LOW' : undefined
}

/** Whether it deletes a directory that must not be deleted as a whole. */
export function isCatastrophe(call: ShellCall): boolean {
  const { name, args } = call
  const targets = args.filter((arg) => !arg.startsWith('-'))
  if (name === 'rm' || name === 'shred' || name === 'srm')
    return (
      args.includes('--no-preserve-root') ||
      (isRecursive(args) && targets.some((path) => isCatastrophicTarget(path) || mayBeRoot(path)))
    )
  if (name === 'find')
    return isDeletingFind(call) && findPaths(args).some((path) => isCatastrophicTarget(path) && path !== '.')
  if (name === 'mv')
    return (
      targets.slice(0, -1).some((path) => isCatastrophicTarget(path) && path !== '*' && path !== '.') ||
      targets.at(-1) === '/dev/null'
    )
  if (name === 'rsync')
    return args.some((arg) => arg.startsWith('--del')) && isCatastrophicTarget(targets.at(-1) ?? '')
  return false
}

/** Whether it writes to a disk or memory device directly. */
export function writesRawDisk({ name, args, writes }: ShellCall): boolean {
  if (writes.some(isDiskDevice) || name.startsWith('mkfs')) return true
  if (name === 'dd') return args.some((arg) => arg.startsWith('of=') && isDiskDevice(arg.slice(3)))
  if (name === 'nvme' || diskPrograms.split(' ').includes(name))
    return !args.some((arg) => /^(?:-l|--list|-p|print|--help|--version|status|luksDump|-I|list)$/.test(arg))
  return /^(?:tee|cp|mv|install|shred|truncate)$/.test(name) && args.some(isDiskDevice)
}

function isRecursive(args: readonly string[]): boolean {
  return args.some((arg) => /^-[a-zA-Z]*[rR]/.test(arg) || arg.startsWith('--r'))
}

/** Deletes a directory without asking, whatever it holds. */
function isForcedRecursive(args: readonly string[]): boolean {
  return isRecursive(args) && args.some((arg) => /^-[a-zA-Z]*f/.test(arg) || /^--f/.test(arg))
}

function isDeletingFind({ args }: ShellCall): boolean {
  const isDeletion = (arg: string, at: number) =>
    /^-(?:exec|ok)/.test(arg) && /(?:^|\/)(?:rm|shred|unlink|dd)$/.test(args[at + 1] ?? '')
  return args.includes('-delete') || args.some(isDeletion)
}

/** The files that `find` writes its output to. */
const findOutputRisk: Rule = ({ args }) => {
  const files = args.filter((_, at) => /^-f(?:print|ls)/.test(args[at - 1] ?? ''))
  return files.some(isSystemPath) ? 'HIGH' : files.length > 0 ? 'MEDIUM' : 'LOW'
}

/** Its input as the program text of an interpreter, or in it. */
const xargsRisk: Rule = ({ args }) => {
  const program = args.findIndex((arg) => interpreterPrograms.test(arg.replace(/^.*\//, '')))
  const option = args.findIndex((arg, at) => at > program && /^-[a-zA-Z]*[ceE]$/.test(arg))
  if (program === -1 || option === -1) return 'LOW'
  const replace = args.slice(0, program).map((arg, at) => (arg === '-I' ? (args[at + 1] ?? '') : arg))
  const marks = replace.flatMap((arg) => /^(?:-I|-i|--replace=)?(.+)$/.exec(arg)?.[1] ?? [])
  const code = args[option + 1]?.trim()
  if (code === undefined || ['{}', ...marks].some((mark) => code.startsWith(mark))) return 'HIGH'
  return code.includes('{}') ? 'MEDIUM' : 'LOW'
}

const archiveRisk: Rule = ({ name, args }) => {
  const isRunning = (arg: string, at: number) => {
    const [, attached] = /^(?:-[a-zA-Z]*I|--us[a-z-]*=?)(.*)$/.exec(arg) ?? []
    const isOldStyle = at === 0 && /^[a-zA-Z]*I[a-zA-Z]*$/.test(arg)
    const program = attached === undefined || attached === '' ? args[at + 1] : attached
    if (attached === undefined && !isOldStyle)
      return /^(?:-\w*[FP]$|--(?:to-c|checkpoint-a|info-s|new-vol|rsh))/.test(arg)
    return !/^(?:zstd|pigz|pbzip2|pixz|gzip|bzip2|xz|lz4|lzip|plzip)(?: -\w+)*$/.test(program ?? '')
  }
  if (args.some(isSystemPath) || (name.endsWith('tar') && args.some(isRunning))) return 'HIGH'
  const folders = args.flatMap((arg, at) => {
    const attached = /^(?:-[a-zA-Z]*[CdDo]|--dir[a-z]*=)([/~.].*)$/.exec(arg)?.[1]
    return attached ?? (/^(?:-[a-zA-Z]*[CdD]|--dir[a-z]*)$/.test(args[at - 1] ?? '') ? arg : [])
  })
  if (folders.some((path) => isCatastrophicTarget(path) && !/^\.{1,2}$/.test(path))) return 'HIGH'
  return folders.some(isOutsideDirectory) ? 'MEDIUM' : 'LOW'
}

/** For programs that write the file of their last argument. */
const fileWriterRisk: Rule = ({ args }) => {
  const paths = args.filter((arg) => !arg.startsWith('-'))
  const target = paths.at(-1) ?? ''
  if (isSystemPath(target)) return 'HIGH'
  return isOutsideDirectory(target) ? 'MEDIUM' : 'LOW'
}

const gitRisk: Rule = ({ args }) => {
  const index = subcommandIndex('git', args)
  const rest = args.slice(index)
  const [command = ''] = rest
  if (command === 'push') return rest.some((arg) => forcedPush.test(arg)) ? 'HIGH' : 'MEDIUM'
  const commandLine = rest.join(' ')
  if (args.slice(0, index).some(isHijackingGitSetting) || hijackingGit.test(commandLine)) return 'HIGH'
  if (command === 'config' && rest.some((key, at) => isHijackingGitSetting(`${key}=${rest[at + 1] ?? ''}`)))
    return 'HIGH'
  if (command === 'remote' && /^remote(?: -v| --verbose| show| get-url.*)?$/.test(commandLine)) return 'LOW'
  if (remoteGitCommands.test(command) || destructiveGit.test(commandLine)) return 'MEDIUM'
  return 'LOW'
}

/** Whether `key=value` makes git run the caller's program. */
function isHijackingGitSetting(setting: string): boolean {
  const [, key = '', value = ''] = /^(?:--config-env=)?([^=]*)=(.*)$/s.exec(setting) ?? []
  if (key === '--exec-path' || (/^alias\./i.test(key) && value.startsWith('!'))) return true
  return hijackingGitKey.test(key) && !/^(?:|cat|true|false|:)$/.test(value)
}

const killRisk: Rule = ({ args }) => {
  if (args.length === 1 && /^(?:-l|-L|--list|-0)$/.test(args[0] ?? '')) return 'LOW'
  const pids = args.filter((arg, at) => at > 0 || !arg.startsWith('-'))
  return pids.includes('-1') || pids.includes('1') ? 'HIGH' : 'MEDIUM'
}

const chmodRisk: Rule = ({ args }) => {
  const [mode = '', ...paths] = args.filter((arg) => !/^-(?:[RvcfHLP]+|-.*)$/.test(arg))
  const isWorldWritable = /^0?[0-7]?777$|^(?:a|o|ugo)?\+?=?rwx$|^0{1,4}$/.test(mode)
  const isSetId = /^[2-7][0-7]{3}$/.test(mode) || /s/.test(mode)
  if (isSetId || paths.some((path) => isSystemPath(path))) return 'HIGH'
  if (isRecursive(args) && paths.some((path) => isCatastrophicTarget(path) && path !== '.')) return 'HIGH'
  return isWorldWritable || isRecursive(args) || paths.some(isOutsideDirectory) ? 'MEDIUM' : 'LOW'
}

const chownRisk: Rule = ({ args }) =>
  args.some((arg) => isSystemPath(arg) || (isRecursive(args) && isCatastrophicTarget(arg) && arg !== '.'))
    ? 'HIGH'
    : 'MEDIUM'

const dockerRisk = byCommandLine({
  high: /--privileged|--pid[= ]host|--cap-add|--security-opt|docker\.sock|(?:(?:-v|--volume)[= ]|\b(?:source|src)=)\/(?::|,|etc|root|home:)|^(?=.*\bprune\b).*(?:-a|--all|--volumes)|volume rm|system prune/,
  low: /^(?:ps|images|logs|inspect|version|info|stats|top|port|diff|history|compose (?:ps|logs|config))\b/,
})

const cloudRisk: Rule = (call) => {
  const commandLine = call.args.join(' ')
  if (/\brm\b/.test(commandLine) && /recursive|-r\b/.test(commandLine)) return 'HIGH'
  if (call.name === 'terraform' && /-auto-approve/.test(commandLine)) return 'HIGH'
  return cloudCommandRisk(call)
}
const cloudCommandRisk = byCommandLine({
  high: /\b(?:destroy|delete|delete-\S+|terminate-\S+|rb|purge|uninstall|drain|wipe)\b/,
  low: /^(?:version|--version|help|--help|fmt|validate|config (?:view|get-contexts|current-context))\b/,
})

const serviceRisk = byCommandLine({
  high: /\b(?:poweroff|reboot|halt|kexec|rescue|emergency|isolate|suspend|hibernate)\b|^(?=.*\b(?:stop|disable|mask|kill)\b).*(?:firewall|ufw|apparmor|auditd|selinux|fail2ban|iptables|nftables|ssh|rsyslog|falco|clamav)/,
  low: /^(?:--user )?(?:status|is-active|is-enabled|list-\S+|show|cat)\b/,
})

const localUrl = /^(?:https?:\/\/)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\])(?:[:/?]|$)/

/** Whether a URL may name this machine, also by another notation of its address. */
function mayBeLoopback(url: string): boolean {
  if (localUrl.test(url) || /^https?:\/\/[^/]*[{[]/.test(url)) return true
  const text = /^\w+:\/\//.test(url) ? url : `http://${url}`
  const host = URL.canParse(text) ? new URL(text).hostname : ''
  return /^(?:(?:.*\.)?localhost\.?|127\..*|0\.0\.0\.0|\[::1?\]|\[::ffff:7f.*\])$/.test(host)
}

/** Whether a client sends more than a GET. */
function sendsData({ name, args }: ShellCall): boolean {
  if (/^https?$|^xh$/.test(name)) return args.some((arg) => /^(?:POST|PUT|PATCH|DELETE)$|^\w+:?=/.test(arg))
  if (name !== 'curl') return args.some((arg) => /^--(?:method|post|body)/.test(arg))
  return args.some((arg, at) =>
    /^(?:-[a-zA-Z]*X|--request)$/.test(args[at - 1] ?? '')
      ? !/^(?:GET|HEAD|OPTIONS)$/i.test(arg)
      : /^(?:-[a-zA-Z]*(?:[dFT]|X(?!GET$|HEAD$|$))|--(?:data|json|form|upload|request=(?!GET$|HEAD$)))/.test(
          arg,
        ),
  )
}

const httpClientRisk: Rule = (call) => {
  const { args, writes } = call
  const urls = args.filter(
    (arg, at) =>
      !arg.startsWith('-') &&
      !/^-[oHdXuAbcem]$|^--(?:output|header|data\S*|request|user)$/.test(args[at - 1] ?? ''),
  )
  const targets = [...urls, ...args.filter((arg) => arg.startsWith('--url=')).map((arg) => arg.slice(6))]
  const isSending = sendsData(call)
  const isServer = (url: string) =>
    mayBeLoopback(url) ? isSending || serverRoute.test(url) : /confirmation_policy/.test(url)
  if (targets.some(isServer) || args.some((arg) => /^--(?:unix-socket|connect-to|resolve)/.test(arg)))
    return 'HIGH'
  const outputs = args.filter((_, at) => /^(?:-[oO]|--output(?:-document)?)$/.test(args[at - 1] ?? ''))
  if ([...outputs, ...writes].some(isSystemPath)) return 'HIGH'
  return urls.length > 0 && urls.every((url) => localUrl.test(url)) ? 'LOW' : 'MEDIUM'
}

/** The risk of a program text in the arguments or the input. */
const codeRisk: Rule = ({ args, input }) => {
  const texts = args.filter((_, at) =>
    /^(?:-[a-zA-Z]*[cerpE]|--eval|--print|--execute)$/.test(args[at - 1] ?? ''),
  )
  return textRisk([...texts, input ?? ''].join('\n'))
}

const awkRisk: Rule = ({ args }) => {
  const text = args.join('\n')
  if (textRisk(text) === 'HIGH') return 'HIGH'
  return /\bsystem\s*\(|\|\s*getline|\|\s*"/.test(text) ? 'MEDIUM' : 'LOW'
}

function textRisk(text: string): SecurityRisk {
  const isSequence = ([first, second]: readonly [RegExp, RegExp]) => {
    const found = first.exec(text)
    return found !== null && second.test(text.slice(found.index + found[0].length))
  }
  if (serverCode.test(text) || destructiveCode.test(text) || destructiveSequences.some(isSequence))
    return 'HIGH'
  return reachingCode.test(text) ? 'MEDIUM' : 'LOW'
}

/** By name, without a version suffix. */
const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...rulesFor('rm shred srm', (call) =>
    isCatastrophe(call) || call.args.some(isSystemPath) || isForcedRecursive(call.args) ? 'HIGH' : 'MEDIUM',
  ),
  ...rulesFor('rmdir unlink truncate trash', ({ args }) => (args.some(isSystemPath) ? 'HIGH' : 'MEDIUM')),
  ...rulesFor('find fd', (call) =>
    isCatastrophe(call) ? 'HIGH' : maxRisk(findOutputRisk(call), isDeletingFind(call) ? 'MEDIUM' : 'LOW'),
  ),
  ...rulesFor('xargs', xargsRisk),
  ...rulesFor('mv', (call) =>
    isCatastrophe(call) || call.args.some(isSystemPath) ? 'HIGH' : fileWriterRisk(call),
  ),
  ...rulesFor('cp ln install tee mkdir touch patch', fileWriterRisk),
  ...rulesFor('sed', (call) =>
    maxRisk(
      sedScriptRisk(call.args),
      call.args.some((arg) => /^-\w*i|^--in-place/.test(arg)) ? fileWriterRisk(call) : 'LOW',
    ),
  ),
  ...rulesFor('dd', (call) =>
    fileWriterRisk({
      ...call,
      args: call.args.filter((arg) => arg.startsWith('of=')).map((arg) => arg.slice(3)),
    }),
  ),
  ...rulesFor('tar bsdtar unzip 7z cpio', archiveRisk),
  ...rulesFor('chmod', chmodRisk),
  ...rulesFor('chown chgrp setfacl chattr', chownRisk),
  ...rulesFor('git', gitRisk),
  ...rulesFor(
    'sudo doas su pkexec runuser npx bunx uvx ping dig nslookup host traceroute whois nmap',
    'MEDIUM',
  ),
  ...rulesFor('kill pkill killall', killRisk),
  ...rulesFor(
    'apt apt-get aptitude dnf yum zypper apk pacman brew port snap flatpak pip pipx npm yarn pnpm bun gem cargo go uv poetry pdm conda mamba composer bundle cpan cpanm luarocks opam mix stack cabal nuget dotnet rustup nvm asdf choco winget',
    byArgument({ medium: installSubcommands }),
  ),
  ...rulesFor('dpkg rpm', byArgument({ medium: /^-(?:[iUFe]|-install|-erase|-purge|P|r)$/ })),
  ...rulesFor('curl wget aria2c fetch http https xh lynx w3m links', httpClientRisk),
  // HIGH when it provides a shell.
  ...rulesFor(
    'nc ncat netcat socat',
    byArgument(
      {
        high: /^(?:-[a-zA-Z]*[ec]|--exec|--sh-exec)$|^(?i:exec|system):|(?:^|:)(?:localhost|127\.[\d.]+)(?::|$)/,
      },
      'MEDIUM',
    ),
  ),
  ...rulesFor(
    'telnet ftp lftp tftp ssh scp sftp sshfs mosh mail sendmail mutt ngrok cloudflared ssh-copy-id',
    'MEDIUM',
  ),
  ...rulesFor('rsync', (call) =>
    isCatastrophe(call)
      ? 'HIGH'
      : call.args.some((arg) => /^[^/]+:|^rsync:/.test(arg))
        ? 'MEDIUM'
        : fileWriterRisk(call),
  ),
  ...rulesFor('docker podman nerdctl', dockerRisk),
  ...rulesFor(
    'kubectl helm terraform tofu aws gcloud gsutil az doctl heroku flyctl vercel netlify gh glab pulumi ansible ansible-playbook rclone',
    cloudRisk,
  ),
  ...rulesFor(
    'psql mysql mariadb sqlite3 mongo mongosh redis-cli clickhouse-client cqlsh',
    byPattern(({ args, input = '' }) => [`${args.join(' ')} ${input}`], { high: destructiveSql }, 'LOW'),
  ),
  ...rulesFor('systemctl service launchctl rc-service', serviceRisk),
  ...rulesFor('shutdown reboot halt poweroff kexec telinit killall5 dropdb dropuser security', 'HIGH'),
  ...rulesFor(
    'init',
    byPattern(({ args }) => args.slice(0, 1), { high: /^[06sS]$/ }, 'LOW'),
  ),
  ...rulesFor(
    'setenforce csrutil spctl visudo passwd chpasswd useradd adduser usermod userdel deluser groupadd groupmod gpasswd insmod rmmod modprobe setcap',
    'HIGH',
  ),
  ...rulesFor(
    'iptables ip6tables nft ufw firewall-cmd',
    byCommandLine({ low: /^(?:-t \w+ )?(?:-L|-S|--list|list|status|show)/ }, 'HIGH'),
  ),
  ...rulesFor('sysctl', byArgument({ high: /=|^-w$/ })),
  ...rulesFor('crontab', byArgument({ high: /^-r$/, low: /^-l$/ }, 'MEDIUM')),
  ...rulesFor('at batch mount umount swapoff losetup ip ifconfig route hostnamectl timedatectl', 'MEDIUM'),
  ...rulesFor('awk gawk mawk nawk', awkRisk),
  ...rulesFor('history', byArgument({ medium: /^-\w*[cw]/ })),
  ...rulesFor(diskPrograms, (call) => (writesRawDisk(call) ? 'HIGH' : 'LOW')),
  ...rulesFor('tmux screen entr flock parallel', 'MEDIUM'),
  ...rulesFor(
    'vi vim nvim view ex ed emacs emacsclient',
    byArgument({ high: /^(?:-[cesES]\w*|--(?:cmd|eval|batch|script|load)\b.*|\+\D.*)$/ }, 'MEDIUM'),
  ),
  ...rulesFor(
    'gdb lldb',
    byArgument({ high: /^(?:-{1,2}\w+=)?\s*(?:!|sh|py|pi|\||mak|source|call|platform|script)/ }, 'MEDIUM'),
  ),
  ...rulesFor(harmlessPrograms, 'LOW'),
])

function rulesFor(list: string, rule: Rule | SecurityRisk): [string, Rule][] {
  return list.split(' ').map((name) => [name, typeof rule === 'string' ? () => rule : rule])
}
