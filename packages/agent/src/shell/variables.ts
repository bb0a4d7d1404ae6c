import type { SecurityRisk } from '@slipway/protocol'
import { hijackVariables } from './hijack-variables.ts'
import type { ShellCall } from './script.ts'

/** Values of them that run no code of the caller. */
const harmlessValue = /^(?:|cat|less(?: -\w+)?|more|true|:|--max[-_]old[-_]space[-_]size=\d+)$/
/** Variables of everyday commands that only change output, language or the mode of a test run. */
const harmlessVariables =
  /^(?:IFS|NODE_ENV|RAILS_ENV|APP_ENV|CI|DEBUG|VERBOSE|PORT|HOST|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|LOG_LEVEL|RUST_LOG|RUST_BACKTRACE|RUST_TEST_THREADS|CARGO_TERM_COLOR|CARGO_INCREMENTAL|PYTHON(?:PATH|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|IOENCODING|UTF8)|DJANGO_SETTINGS_MODULE|FLASK_\w+|GOOS|GOARCH|CGO_ENABLED|GO111MODULE|JEST_\w+|VITEST\w*|TEST_\w+|DEBIAN_FRONTEND|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE))$/

/** The risk of the variables that a call sets; unknown ones count where they are set for a program. */
export function assignmentRisk({ name: program, args, assignments }: ShellCall): SecurityRisk {
  const setsForProgram = /^(?:env|sudo|doas)$/.test(program)
  const assigned = [...assignments, ...(setsForProgram ? args.flatMap(assignmentIn) : [])]
  const isHijack = ([name, value]: readonly [string, string]) =>
    hijackVariables.test(name) && !harmlessValue.test(value)
  if (assigned.some(isHijack)) return 'HIGH'
  if (/^(?::|export|declare|typeset|local|readonly)$/.test(program)) return 'LOW'
  const isKnown = ([name]: readonly [string, string]) =>
    harmlessVariables.test(name) || hijackVariables.test(name)
  return assigned.every(isKnown) ? 'LOW' : 'MEDIUM'
}

function assignmentIn(arg: string): [string, string][] {
  const [, name, value = ''] = /^(\w+)=(.*)$/s.exec(arg) ?? []
  return name === undefined ? [] : [[name, value]]
}
