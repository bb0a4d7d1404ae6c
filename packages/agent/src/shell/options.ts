import { unknownText } from './words.ts'

/**
 * Options of harmless programs that run a program, load code or change settings are too many to list. So
 * these programs list the options and sub-commands that are harmless; any other one is an unknown program.
 */
const knownOptions: Readonly<Record<string, RegExp>> = {
  sort: /^(?:-[bcCdfghiMmnRrsuVz]+\d*|-[kotST].*|-[bcCdfghiMmnRrsuVz]*[kt]\S*|--(?:batch-size|buffer-size|check|debug|dictionary-order|field-separator|files0-from|general-numeric-sort|help|human-numeric-sort|ignore-case|ignore-leading-blanks|ignore-nonprinting|key|merge|month-sort|numeric-sort|output|parallel|random-sort|random-source|reverse|sort|stable|temporary-directory|unique|version|version-sort|zero-terminated)(?:=.*)?)$/,
  less: /^(?:-[NSRFXiIMmnsegEGJwQqKfdcC]+|-\d+|-[xbjhyz]\d*|\+G|\+\d+|\+\/.*|--(?:help|version|LINE-NUMBERS|chop-long-lines|RAW-CONTROL-CHARS|quit-if-one-screen|no-init))$/,
  more: /^(?:-\w+|\+\d+|\+\/.*)$/,
  awk: /^(?:-[Fvf].*|--(?:field-separator|assign|version|help|posix|re-interval|csv)(?:=.*)?|-)$/,
  hash: /^-[rldt]+$/,
  wait: /^-[nf]+$/,
  ctags: /^-R$/,
}

/** The first word that is no option, with what leads a program elsewhere when another one is named. */
const knownSubcommands: Readonly<Record<string, RegExp>> = {
  git: /^(?:add|am|annotate|apply|archive|bisect|blame|branch|bundle|cat-file|check-attr|check-ignore|check-mailmap|check-ref-format|checkout|checkout-index|cherry|cherry-pick|clean|clone|column|commit|commit-tree|config|count-objects|describe|diff|diff-files|diff-index|diff-tree|fetch|for-each-ref|format-patch|fsck|gc|grep|hash-object|help|init|lfs|log|ls-files|ls-remote|ls-tree|mailinfo|maintenance|merge|merge-base|merge-file|merge-tree|mktree|mv|name-rev|notes|pack-refs|patch-id|prune|pull|push|range-diff|read-tree|rebase|reflog|remote|repack|rerere|reset|restore|rev-list|rev-parse|revert|rm|send-email|shortlog|show|show-branch|show-ref|sparse-checkout|stash|status|stripspace|submodule|switch|symbolic-ref|tag|update-index|update-ref|var|verify-commit|verify-tag|version|whatchanged|worktree|write-tree|filter-branch|filter-repo)$/,
  openssl:
    /^(?:asn1parse|base64|ciphers|crl|dgst|dhparam|ec|ecparam|enc|errstr|genpkey|genrsa|help|list|md5|nseq|passwd|pkcs12|pkcs7|pkcs8|pkey|pkeyparam|prime|rand|req|rsa|sha1|sha256|sha384|sha512|speed|verify|version|x509)$/,
  cargo:
    /^(?:\+\w[\w.-]*|add|b|bench|build|c|check|clean|clippy|d|doc|fetch|fix|fmt|generate-lockfile|help|init|install|locate-project|metadata|new|nextest|package|pkgid|publish|r|read-manifest|remove|report|rm|run|rustc|rustdoc|search|t|test|tree|uninstall|update|verify-project|version|yank)$/,
  go: /^(?:build|clean|doc|env|fmt|generate|get|help|install|list|mod|run|test|tool|version|vet|work)$/,
}

/**
 * Options and arguments that load code or change settings of these programs or sub-commands, wherever they
 * stand.
 */
const unknownArguments: Readonly<Record<string, RegExp>> = {
  openssl: /^-(?:engine|provider|provider-path|propquery|config|pre|post|loader|keyform|inform)$/,
  cargo: /^(?:--config(?:=.*)?|-Z.*|-C(?:linker=.*)?)$/,
  'go env': /^--?[wu](?:=.*)?$/,
  go: /^(?:--?(?:exec|toolexec|modfile|overlay|pkgdir|vettool)(?:=.*)?|[^-].*@.*)$/,
  gcc: /^(?:-wrapper|-fplugin.*|-specs.*|-B.*|@.*)$/,
  clang: /^(?:-fplugin.*|-fpass-plugin.*|-Xclang|-load|-B.*|@.*)$/,
  rustc: /^(?:-Clinker.*|linker=.*|-Z.*)$/,
  java: /^-(?:javaagent|agentlib|agentpath|XX:On).*$/,
  javac: /^(?:-J.*|-processor.*|-Xplugin.*)$/,
  gradle: /^(?:-I|--init-script.*)$/,
  make: /^\w+=.*[;|&`$(].*$/,
  dc: /!/,
  compgen: /^-[CF]/,
  date: /^(?:-[uR]*s.*|--s.*)$/,
  hostname: /^(?:[^-].*|-F|--file)$/,
}

const sameProgram: Readonly<Record<string, string>> = {
  ...{ gawk: 'awk', mawk: 'awk', nawk: 'awk', 'g++': 'gcc', cc: 'gcc', 'c++': 'gcc', 'clang++': 'clang' },
  ...{ gmake: 'make', gradlew: 'gradle' },
}

/** Whether a call of a known program has an option or a sub-command that is not known to be harmless. */
export function hasUnknownOption(program: string, args: readonly string[]): boolean {
  const name = sameProgram[program] ?? program
  const subcommand = args[subcommandIndex(name, args)]
  const end = args.indexOf('--')
  const before = end === -1 ? args : args.slice(0, end)
  // The rest is of the program that cargo starts, unless that is a compiler.
  const own = name === 'cargo' && !/^(?:clippy|rustc|rustdoc)$/.test(subcommand ?? '') ? before : args
  const unknown = [find(unknownArguments, name), find(unknownArguments, `${name} ${subcommand}`)]
  if (own.some((arg) => unknown.some((pattern) => pattern?.test(arg)))) return true
  const options = find(knownOptions, name)
  const isOption = (arg: string) => arg.length > 1 && /^[-+]/.test(arg) && !arg.includes(unknownText)
  if (options !== undefined && before.some((arg) => isOption(arg) && !options.test(arg))) return true
  return subcommand !== undefined && find(knownSubcommands, name)?.test(subcommand) === false
}

/** Options before the sub-command whose value is the next argument. */
const leadingOptions: Readonly<Record<string, RegExp>> = {
  git: /^(?:-[cC]|--(?:git-dir|work-tree|namespace|config-env|attr-source|super-prefix|shallow-file))$/,
  go: /^--?C$/,
}

/** Where the sub-command stands in the arguments of a program; their number without one. */
export function subcommandIndex(name: string, args: readonly string[]): number {
  const option = find(leadingOptions, name)
  let at = 0
  while (args[at]?.startsWith('-')) {
    if (args[at] === '--version' || args[at] === '--help') return args.length
    at += option?.test(args[at] ?? '') ? 2 : 1
  }
  return name === 'cargo' && args[at]?.startsWith('+') ? at + 1 : at
}

/** Options that name a file to write; the value is attached, or the next argument. */
const outputOptions: Readonly<Record<string, RegExp>> = {
  sort: /^(?:-[bcCdfghiMmnRrsuVz]*o|--o\w*=?)(.*)$/,
  shuf: /^(?:-[erz]*o|--o\w*=?)(.*)$/,
  tree: /^-o()$/,
  iconv: /^(?:-o|--o\w*=?)(.*)$/,
  gcc: /^-o(.*)$/,
  clang: /^-o(.*)$/,
  rustc: /^-o(.*)$/,
  ld: /^-o(.*)$/,
  go: /^-o=?(.*)$/,
  strip: /^-o(.*)$/,
  openssl: /^-(?:out|keyout|writerand)()$/,
  gpg: /^(?:-\w*o|--output=?)(.*)$/,
  pandoc: /^(?:-o|--output=?)(.*)$/,
  xmllint: /^(?:-o|--output)()$/,
  dot: /^-o(.*)$/,
  git: /^(?:-o|--output(?:-directory)?=?)(.*)$/,
}

/** The files that a program writes because of its arguments. */
export function outputFiles(program: string, args: readonly string[]): readonly string[] {
  const name = sameProgram[program] ?? program
  const paths = args.filter((arg) => arg === '-' || !arg.startsWith('-'))
  if (name === 'uniq' || name === 'xxd') return paths.slice(1)
  const option = find(outputOptions, name)
  // Others have an option of that name with another meaning.
  if (
    option === undefined ||
    (name === 'git' &&
      !/^(?:diff|log|show|archive|format-patch)/.test(args[subcommandIndex(name, args)] ?? ''))
  )
    return []
  return args.flatMap((arg, at) => {
    const [, value] = option.exec(arg) ?? []
    return value === undefined ? [] : [value === '' ? (args[at + 1] ?? '') : value]
  })
}

function find<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
