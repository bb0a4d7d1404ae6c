import type { SecurityRisk } from '@slipway/protocol'
import { isDisk, isOutside, isSystem, isUnknownWhole, isWhole } from './paths.ts'
import type { Call } from './script.ts'

type Rule = (call: Call) => SecurityRisk

const installers =
  /^(?:i|install|add|ci|update|upgrade|up|get|sync|remove|uninstall|rm|purge|autoremove|dlx|create|exec|x|publish|link|global|tool|dist-upgrade|full-upgrade|-S\w*|-R\w*|-U\w*)$/
const remoteGit = /^(?:clone|fetch|pull|ls-remote|remote|submodule|lfs|send-email)$/
const losingGit: readonly RegExp[] = [
  /^reset .*--hard/,
  /^clean .*-\w*[fdx]/,
  /^(?:checkout|restore) (?:.* )?(?:--|\.)(?: |$)/,
  /^restore /,
  /^branch .*-(?:D|-delete)/,
  /^tag .*-d/,
  /^stash (?:drop|clear)/,
  /^(?:rebase|rm|filter-branch|filter-repo|update-ref|gc|prune|worktree remove)(?: |$)/,
  /^reflog (?:expire|delete)/,
  /^commit .*--amend/,
  /^config .*(?:--global|--system)/,
]
const destructiveSql =
  /\b(?:drop\s+(?:database|schema|table|user)|truncate\s+(?:table\s+)?\w|delete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb|dropDatabase)/i
const destructiveCode =
  /rm\s+-\w*[rf]\w*\s+["']?(?:\/|~|\$HOME)(?:["'*\s;)]|$)|(?:rmtree|rmSync|rm_rf|remove_tree)\s*\(\s*["'](?:\/|~|\/(?:etc|usr|home|root|var|bin|boot))["'/]|(?:exec|eval)\s*\([\s\S]*(?:b64decode|base64|fromCharCode|decompress|urlopen|requests\.get|atob)|\/dev\/(?:sd|nvme|mem)|pty\.spawn|socket[\s\S]*dup2/i
const reachingCode =
  /\b(?:rmtree|unlink|rmdir|rmSync|removedirs|os\.remove|system|subprocess|child_process|execSync|spawn|popen|urlopen|urllib|requests|http\.client|socket|fetch|axios|fs\.rm|qx)\b|https?:\/\//i

const always =
  (risk: SecurityRisk): Rule =>
  () =>
    risk
const low = always('LOW')
const medium = always('MEDIUM')
const high = always('HIGH')

/** Programs that talk to other machines. */
const network = new Set(
  'curl wget aria2c fetch http https xh lynx w3m links nc ncat netcat socat telnet ftp lftp tftp ssh scp sftp rsync rclone sshfs mosh gh glab aws gcloud gsutil az doctl heroku flyctl vercel netlify mail sendmail mutt ngrok cloudflared'.split(
    ' ',
  ),
)

/** Programs that run a program text. */
export const interpreters =
  /^(?:(?:ba|da|z|k|a|fi|c|tc|rba)?sh|pypy\d?|python[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|tsx|php[\d.]*|lua[\d.]*|luajit|osascript|pwsh|tclsh|expect|Rscript)$/

/** Programs that turn what nobody can read into something else. */
const decoders =
  /^(?:base(?:32|58|64)|basenc|xxd|openssl|gpg|uudecode|rev|tr|gunzip|zcat|bzcat|xzcat|unxz|bunzip2)$/

export function isNetwork({ name }: Call): boolean {
  return network.has(name)
}

export function isDecoder({ name }: Call): boolean {
  return decoders.test(name)
}

/** What a program does by itself, whatever surrounds it; LOW for programs that nobody has heard of. */
export function programRisk(call: Call): SecurityRisk {
  const own = rules.get(call.name) ?? rules.get(call.name.replace(/[\d.]+$/, ''))
  if (own !== undefined) return own(call)
  if (call.name.startsWith('mkfs')) return 'HIGH'
  return interpreters.test(call.name) ? code(call) : 'LOW'
}

/** Deletes a directory that must not be lost: also a rule of its own. */
export function isCatastrophe(call: Call): boolean {
  const { name, args } = call
  const targets = args.filter((arg) => !arg.startsWith('-'))
  if (name === 'rm' || name === 'shred' || name === 'srm')
    return (
      args.includes('--no-preserve-root') ||
      (isRecursive(args) && targets.some((path) => isWhole(path) || isUnknownWhole(path)))
    )
  if (name === 'find') return isDeletingFind(call) && isWhole(roots(args)) && !/^\.?$/.test(roots(args))
  if (name === 'mv')
    return (
      targets.slice(0, -1).some((path) => isWhole(path) && path !== '*' && path !== '.') ||
      targets.at(-1) === '/dev/null'
    )
  if (name === 'rsync') return args.some((arg) => arg.startsWith('--del')) && isWhole(targets.at(-1) ?? '')
  return false
}

/** Writes a disk or the memory past the file system: also a rule of its own. */
export function isRawDisk({ name, args, writes }: Call): boolean {
  if (writes.some(isDisk) || name.startsWith('mkfs')) return true
  if (name === 'dd') return args.some((arg) => arg.startsWith('of=') && isDisk(arg.slice(3)))
  if (
    /^(?:wipefs|blkdiscard|sgdisk|sfdisk|fdisk|cfdisk|parted|badblocks|hdparm|nvme|cryptsetup|mkswap|pvremove|vgremove|lvremove)$/.test(
      name,
    )
  )
    return !args.some((arg) => /^(?:-l|--list|-p|print|--help|--version|status|luksDump|-I|list)$/.test(arg))
  return (
    /^(?:tee|cp|mv|install|shred|truncate|cat)$/.test(name) &&
    args.some((arg) => isDisk(arg)) &&
    name !== 'cat'
  )
}

function isRecursive(args: readonly string[]): boolean {
  return args.some((arg) => /^-[a-zA-Z]*[rR]/.test(arg) || arg.startsWith('--r'))
}

function roots(args: readonly string[]): string {
  return args[0] !== undefined && !args[0].startsWith('-') ? args[0] : ''
}

function isDeletingFind({ args }: Call): boolean {
  return (
    args.includes('-delete') ||
    args.some(
      (arg, at) => /^-(?:exec|ok)/.test(arg) && /(?:^|\/)(?:rm|shred|unlink|dd)$/.test(args[at + 1] ?? ''),
    )
  )
}

/** For programs that write the files they name. */
const writing: Rule = ({ args }) => {
  const paths = args.filter((arg) => !arg.startsWith('-'))
  const target = paths.at(-1) ?? ''
  if (isSystem(target)) return 'HIGH'
  return isOutside(target) ? 'MEDIUM' : 'LOW'
}

const git: Rule = ({ args }) => {
  // Options in front of the sub-command are none of its own.
  let at = 0
  while (args[at]?.startsWith('-')) at += /^-[cC]$/.test(args[at] ?? '') ? 2 : 1
  const rest = args.slice(at)
  const [command = ''] = rest
  if (command === 'push') {
    const isForced = rest.some((arg) =>
      /^(?:--force(?:-with-lease|-if-includes)?(?:=.*)?|-[a-z]*f[a-z]*|--mirror|--delete|-d|--prune|[+:].+)$/.test(
        arg,
      ),
    )
    return isForced ? 'HIGH' : 'MEDIUM'
  }
  const line = rest.join(' ')
  if (
    args
      .slice(0, at)
      .some((arg) => /^core\.(?:sshCommand|fsmonitor|pager|hooksPath)=|^alias\.[^=]*=!/.test(arg))
  )
    return 'HIGH'
  if (command === 'remote' && /^remote(?: -v| --verbose| show| get-url.*)?$/.test(line)) return 'LOW'
  if (remoteGit.test(command) || losingGit.some((pattern) => pattern.test(line))) return 'MEDIUM'
  return 'LOW'
}

const installing: Rule = ({ args }) => (args.some((arg) => installers.test(arg)) ? 'MEDIUM' : 'LOW')

const kill: Rule = ({ args }) => {
  if (args.length === 1 && /^(?:-l|-L|--list|-0)$/.test(args[0] ?? '')) return 'LOW'
  const pids = args.filter((arg, at) => at > 0 || !arg.startsWith('-'))
  return pids.includes('-1') || pids.includes('1') ? 'HIGH' : 'MEDIUM'
}

const chmod: Rule = ({ args }) => {
  const [mode = '', ...paths] = args.filter((arg) => !/^-(?:[RvcfHLP]+|-.*)$/.test(arg))
  const isWide = /^0?[0-7]?777$|^(?:a|o|ugo)?\+?=?rwx$|^0{1,4}$/.test(mode)
  const isSetId = /^[2-7][0-7]{3}$/.test(mode) || /s/.test(mode)
  if (isSetId || paths.some((path) => isSystem(path))) return 'HIGH'
  if (isRecursive(args) && paths.some((path) => isWhole(path) && path !== '.')) return 'HIGH'
  return isWide || isRecursive(args) || paths.some(isOutside) ? 'MEDIUM' : 'LOW'
}

const chown: Rule = ({ args }) =>
  args.some((arg) => isSystem(arg) || (isRecursive(args) && isWhole(arg) && arg !== '.')) ? 'HIGH' : 'MEDIUM'

const docker: Rule = ({ args }) => {
  const line = args.join(' ')
  if (
    /--privileged|--pid[= ]host|--cap-add|--security-opt|docker\.sock|(?:-v|--volume|--mount)[= ](?:\S*=)?\/(?::|etc|root|home:)/.test(
      line,
    )
  )
    return 'HIGH'
  if (/\bprune\b.*(?:-a|--all|--volumes)|volume rm|system prune/.test(line)) return 'HIGH'
  return /^(?:ps|images|logs|inspect|version|info|stats|top|port|diff|history|compose (?:ps|logs|config))\b/.test(
    line,
  )
    ? 'LOW'
    : 'MEDIUM'
}

const cloud: Rule = ({ name, args }) => {
  const line = args.join(' ')
  if (/\b(?:destroy|delete|delete-\S+|terminate-\S+|rb|purge|uninstall|drain|wipe)\b/.test(line))
    return 'HIGH'
  if (/\brm\b/.test(line) && /recursive|-r\b/.test(line)) return 'HIGH'
  if (name === 'terraform' && /-auto-approve/.test(line)) return 'HIGH'
  return /^(?:version|--version|help|--help|fmt|validate|config (?:view|get-contexts|current-context))\b/.test(
    line,
  )
    ? 'LOW'
    : 'MEDIUM'
}

const sql: Rule = ({ args, input }) =>
  destructiveSql.test(`${args.join(' ')} ${input ?? ''}`) ? 'HIGH' : 'LOW'

const service: Rule = ({ args }) => {
  const line = args.join(' ')
  if (/\b(?:poweroff|reboot|halt|kexec|rescue|emergency|isolate|suspend|hibernate)\b/.test(line))
    return 'HIGH'
  if (
    /\b(?:stop|disable|mask|kill)\b.*(?:firewall|ufw|apparmor|auditd|selinux|fail2ban|iptables|nftables|ssh|rsyslog|falco|clamav)/.test(
      line,
    )
  )
    return 'HIGH'
  return /^(?:--user )?(?:status|is-active|is-enabled|list-\S+|show|cat)\b/.test(line) ? 'LOW' : 'MEDIUM'
}

/** Listens for a shell, or gives one. */
const netcat: Rule = ({ args }) =>
  args.some((arg) => /^(?:-[a-zA-Z]*[ec]|--exec|--sh-exec)$/.test(arg) || /^(?:exec|system):/i.test(arg))
    ? 'HIGH'
    : 'MEDIUM'

const web: Rule = ({ args, writes }) => {
  const urls = args.filter(
    (arg, at) =>
      !arg.startsWith('-') &&
      !/^-[oHdXuAbcem]$|^--(?:output|header|data\S*|request|user)$/.test(args[at - 1] ?? ''),
  )
  const isLocal = (url: string) =>
    /^(?:https?:\/\/)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\])(?:[:/?]|$)/.test(url)
  const outputs = args.filter((_, at) => /^(?:-[oO]|--output(?:-document)?)$/.test(args[at - 1] ?? ''))
  if ([...outputs, ...writes].some(isSystem)) return 'HIGH'
  return urls.length > 0 && urls.every(isLocal) ? 'LOW' : 'MEDIUM'
}

/** A program text on the command line or as the input. */
const code: Rule = ({ args, input }) => {
  const given = args.filter((_, at) =>
    /^(?:-[a-zA-Z]*[cerpE]|--eval|--print|--execute)$/.test(args[at - 1] ?? ''),
  )
  return textRisk([...given, input ?? ''].join('\n'))
}

const awk: Rule = ({ args }) => {
  const text = args.join('\n')
  if (textRisk(text) === 'HIGH') return 'HIGH'
  return /\bsystem\s*\(|\|\s*getline|\|\s*"/.test(text) ? 'MEDIUM' : 'LOW'
}

function textRisk(text: string): SecurityRisk {
  if (destructiveCode.test(text)) return 'HIGH'
  return reachingCode.test(text) ? 'MEDIUM' : 'LOW'
}

const firewall: Rule = ({ args }) => {
  const line = args.join(' ')
  return /^(?:-t \w+ )?(?:-L|-S|--list|list|status|show)/.test(line) ? 'LOW' : 'HIGH'
}

/** By name; a name with a version behind it is looked up without. */
const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...names('rm shred srm', (call) => (isCatastrophe(call) || call.args.some(isSystem) ? 'HIGH' : 'MEDIUM')),
  ...names('rmdir unlink truncate trash', ({ args }) => (args.some(isSystem) ? 'HIGH' : 'MEDIUM')),
  ...names('find fd', (call) => (isCatastrophe(call) ? 'HIGH' : isDeletingFind(call) ? 'MEDIUM' : 'LOW')),
  ...names('mv', (call) => (isCatastrophe(call) || call.args.some(isSystem) ? 'HIGH' : writing(call))),
  ...names('cp ln install tee mkdir touch patch', writing),
  ...names('sed', (call) =>
    call.args.some((arg) => /^-\w*i|^--in-place/.test(arg)) ? writing(call) : 'LOW',
  ),
  ...names('dd', (call) =>
    writing({ ...call, args: call.args.filter((arg) => arg.startsWith('of=')).map((arg) => arg.slice(3)) }),
  ),
  ...names('tar unzip 7z cpio', ({ args }) =>
    args.some((arg) => isSystem(arg) || /^-\w*P$|--to-command|checkpoint-action/.test(arg)) ? 'HIGH' : 'LOW',
  ),
  ...names('chmod', chmod),
  ...names('chown chgrp setfacl chattr', chown),
  ...names('git', git),
  ...names('sudo doas su pkexec runuser', medium),
  ...names('kill pkill killall', kill),
  ...names('killall5', high),
  ...names(
    'apt apt-get aptitude dnf yum zypper apk pacman brew port snap flatpak pip pipx npm yarn pnpm bun gem cargo go uv poetry pdm conda mamba composer bundle cpan cpanm luarocks opam mix stack cabal nuget dotnet rustup nvm asdf choco winget',
    installing,
  ),
  ...names('dpkg rpm', ({ args }) =>
    args.some((arg) => /^-(?:[iUFe]|-install|-erase|-purge|P|r)$/.test(arg)) ? 'MEDIUM' : 'LOW',
  ),
  ...names('npx bunx uvx', medium),
  ...names('curl wget aria2c fetch http https xh lynx w3m links', web),
  ...names('nc ncat netcat socat', netcat),
  ...names(
    'telnet ftp lftp tftp ssh scp sftp sshfs mosh mail sendmail mutt ngrok cloudflared ssh-copy-id',
    medium,
  ),
  ...names('rsync', (call) =>
    isCatastrophe(call)
      ? 'HIGH'
      : call.args.some((arg) => /^[^/]+:|^rsync:/.test(arg))
        ? 'MEDIUM'
        : writing(call),
  ),
  ...names('ping dig nslookup host traceroute whois nmap', medium),
  ...names('docker podman nerdctl', docker),
  ...names(
    'kubectl helm terraform tofu aws gcloud gsutil az doctl heroku flyctl vercel netlify gh glab pulumi ansible ansible-playbook rclone',
    cloud,
  ),
  ...names('psql mysql mariadb sqlite3 mongo mongosh redis-cli clickhouse-client cqlsh', sql),
  ...names('dropdb dropuser', high),
  ...names('systemctl service launchctl rc-service', service),
  ...names('shutdown reboot halt poweroff kexec telinit', high),
  ...names('init', ({ args }) => (/^[06sS]$/.test(args[0] ?? '') ? 'HIGH' : 'LOW')),
  ...names(
    'setenforce csrutil spctl visudo passwd chpasswd useradd adduser usermod userdel deluser groupadd groupmod gpasswd insmod rmmod modprobe setcap',
    high,
  ),
  ...names('iptables ip6tables nft ufw firewall-cmd', firewall),
  ...names('sysctl', ({ args }) => (args.some((arg) => arg.includes('=') || arg === '-w') ? 'HIGH' : 'LOW')),
  ...names('crontab', ({ args }) => (args.includes('-r') ? 'HIGH' : args.includes('-l') ? 'LOW' : 'MEDIUM')),
  ...names('at batch mount umount swapoff losetup ip ifconfig route hostnamectl timedatectl', medium),
  ...names('awk gawk mawk nawk', awk),
  ...names('history', ({ args }) => (args.some((arg) => /^-\w*[cw]/.test(arg)) ? 'MEDIUM' : 'LOW')),
  ...names('security', high),
  ...names(
    'wipefs blkdiscard sgdisk sfdisk fdisk cfdisk parted badblocks hdparm cryptsetup mkswap pvremove vgremove lvremove',
    (call) => (isRawDisk(call) ? 'HIGH' : 'LOW'),
  ),
  ...names('echo printf cat ls pwd cd test [ true false :', low),
])

function names(list: string, rule: Rule): [string, Rule][] {
  return list.split(' ').map((name) => [name, rule])
}
