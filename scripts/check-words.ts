import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')

/** Phrases that read as translated, and what to write instead (`CONTRIBUTING.md`, *English*). */
export const phrases: readonly { readonly phrase: RegExp; readonly instead: string }[] = [
  { phrase: /\b(?:go|goes|going|went) on\b/gi, instead: 'continue' },
  { phrase: /\b(?:has|have|had) none\b/gi, instead: 'name what is missing' },
  {
    phrase:
      /\bof (?:its|their) own\b(?! (?:accord|data|browser|instant|integration|namespace|settings|session|tenant|tools|parser|workspace|server|database|packages|address|machine|type|file|kind)\b)/gi,
    instead: 'its own X, or: a separate X',
  },
  { phrase: /\bby (?:itself|themselves)\b/gi, instead: 'automatically, on its own, alone' },
  { phrase: /(?<=[a-z,;.] )nobody(?= [a-z])/g, instead: 'no one, or: unused' },
  { phrase: /\b(?:is|are|was|were) not there\b/gi, instead: 'is missing, does not exist' },
  { phrase: /\bso many\b/gi, instead: 'at most N, or the name of the number' },
  { phrase: /(?<!const )(?<!\()\banew\b/gi, instead: 'again' },
  { phrase: /\bmend(?:s|ed|ing)?\b(?!\.txt)/gi, instead: 'fix, repair' },
  { phrase: /\bin vain\b/gi, instead: 'without success' },
]

const patterns = [
  'packages/*/{src,*.md}/**/*.{ts,tsx,js,md}',
  'packages/*/*.md',
  '{scripts,conformance,bench,fuzz,examples,deploy}/**/*.{ts,js,md}',
  'docs/**/*.md',
  '*.md',
]

interface Hit {
  /** From the root. */
  readonly file: string
  readonly line: number
  readonly phrase: string
  readonly instead: string
}

/** Every phrase of the list in a text. */
export function findPhrases(file: string, text: string): Hit[] {
  return text
    .split('\n')
    .flatMap((line, at) =>
      phrases.flatMap(({ phrase, instead }) =>
        [...line.matchAll(phrase)].map(([found]) => ({ file, line: at + 1, phrase: found, instead })),
      ),
    )
}

if (import.meta.main) {
  const isVerbose = process.argv.includes('--all')
  const files = globSync(patterns, { cwd: root, exclude: ['**/node_modules/**', 'CHANGELOG.md'] })
  const hits = files
    .filter((file) => !/check-words/.test(file))
    .flatMap((file) => findPhrases(file, readFileSync(join(root, file), 'utf8')))
  // The number only shrinks: lower it with each change that removes some.
  const most = 93
  const byFile = Object.entries(Object.groupBy(hits, ({ file }) => file)).toSorted(
    ([, one = []], [, other = []]) => other.length - one.length,
  )
  console.log(`${hits.length} phrases that read as translated in ${byFile.length} files, at most ${most}`)
  if (isVerbose)
    for (const { file, line, phrase, instead } of hits)
      console.log(`${file}:${line}: "${phrase}"; write: ${instead}`)
  else for (const [file, found = []] of byFile.slice(0, 5)) console.log(`  ${file}: ${found.length}`)
  if (hits.length > most) {
    console.error('Use the words of `npx node scripts/check-words.ts --all`.')
    process.exitCode = 1
  }
}
