import { execFileSync } from 'node:child_process'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
const maxSubject = 71
const pattern = /^[a-z]+(?:\([\w./, -]+\))?!?: (?<first>[a-z][\w-]*)(?![\w-])/
/** Words that begin a sentence about what is, not an order. */
const noOrder = new Set(
  'a all an and another any both each every it its more most no no one none not nothing one only other same some that the their there these they this those three two what when where which who'.split(
    ' ',
  ),
)
/** Orders that look like a third person, a past tense or a participle. */
const orders =
  /(?:ss|us|alias|canvas|bias)$|^(?:bring|embed|exceed|feed|need|ping|proceed|seed|shed|speed|spring|string|succeed|wed)$/

/** What is wrong with the subject of a commit. */
export function subjectProblem(subject: string): string | undefined {
  if (subject.length > maxSubject) return `has ${subject.length} characters; at most ${maxSubject}`
  const first = pattern.exec(subject)?.groups?.first
  if (first === undefined) return 'is not `type(scope): what`, with what in lower case'
  if (noOrder.has(first) || (/(?:s|ed|ing)$/.test(first) && !orders.test(first)))
    return `is no order: "${first}"; write what the commit does, as "reject", "read", "move"`
  return undefined
}

/** The commit after which subjects are checked: a release, or the first version of this check. */
function findStart(): string | undefined {
  const releases = [
    git('describe', '--tags', '--abbrev=0'),
    git('log', '-1', '--format=%H', '-G"version":', '--', 'package.json'),
    git('log', '-1', '--format=%H', '--diff-filter=A', '--', 'scripts/check-commits.ts'),
  ].filter((commit) => commit !== undefined && commit !== '')
  // The latest: the one after which the fewest commits came.
  const [latest] = releases
    .map((commit) => ({ commit, count: Number(git('rev-list', '--count', `${commit}..HEAD`)) }))
    .toSorted((a, b) => a.count - b.count)
  return latest?.commit
}

function git(...args: readonly string[]): string | undefined {
  try {
    return execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return undefined
  }
}

if (import.meta.main) {
  const isWhole = git('rev-parse', '--is-shallow-repository') === 'false'
  const start = isWhole ? findStart() : undefined
  const lines =
    start === undefined ? undefined : git('log', '--no-merges', '--format=%h %s', `${start}..HEAD`)
  const commits = lines?.split('\n').filter((line) => line !== '')
  console.log(
    commits === undefined
      ? 'There is no history here: commit subjects are not checked.'
      : `${commits.length} commits since ${start?.slice(0, 12)}`,
  )
  for (const line of commits ?? []) {
    const [hash = '', ...words] = line.split(' ')
    const problem = subjectProblem(words.join(' '))
    if (problem === undefined) continue
    console.error(`${hash} "${words.join(' ')}" ${problem}`)
    process.exitCode = 1
  }
}
