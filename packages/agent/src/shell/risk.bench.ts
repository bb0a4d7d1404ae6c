import { patternRisk } from './risk.ts'

/**
 * `node packages/agent/src/shell/risk.bench.ts`: milliseconds of CPU time that rating a command takes, for
 * shapes that are hard for it, up to the length from which a text is rated without an analysis; one line of
 * JSON, by shape, the worst of all lengths. Beside each, in turn, the floor: a bare pass over the longest text
 * that is analyzed, which finds its words.
 */
const fill = (unit: string) => (length: number) => unit.repeat(Math.floor(length / unit.length))
const shapes: Readonly<Record<string, (length: number) => string>> = {
  words: (length) => `echo ${fill('word ')(length)}`,
  lists: fill('a;'),
  substitutions: (length) => `echo ${fill('$(a) ')(length)}`,
  pipelines: (length) => `${fill('echo x | ')(length)}sh`,
  assignments: fill('a=1;'),
  backslashes: fill('\\'),
  'program texts': (length) => `python -c "${fill('exec((')(length)}"`,
  paths: (length) => `rm ${fill('../')(length)}`,
  'options of git': (length) => `git ${fill('-c ')(length)}`,
  scripts: (length) => `sed '${fill('s/a/b/;')(length)}'`,
  nesting: (length) => `${fill('$(')(length * 0.6)}x${fill(')')(length * 0.3)}`,
  eval: fill('eval '),
  sudo: fill('sudo '),
  braces: fill('{a,b}'),
  'here document': (length) => `cat <<E\n${fill('line of text\n')(length)}E`,
  lines: fill('ls -la src && cat a.txt\n'),
  addresses: (length) => `curl -d x ${fill('http://x ')(length)}`,
}
const rounds = 20
const longest = fill('a;')(32_000)

function findWords(text: string): readonly object[] {
  const words: object[] = []
  for (const { 0: word, index } of text.matchAll(/[^\s;|&()]+|[;|&()\n]/g)) words.push({ word, index })
  return words
}

/** Milliseconds of CPU time. */
async function cpuMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

const result: Record<string, { readonly ms: number; readonly floorMs: number }> = {}
for (const [name, shape] of Object.entries(shapes)) {
  let ms = 0
  let floorMs = Number.POSITIVE_INFINITY
  for (const length of [4_000, 16_000, 32_000, 100_000]) {
    const command = shape(length).slice(0, length)
    let best = Number.POSITIVE_INFINITY
    for (let round = 0; round < rounds; round++) {
      best = Math.min(best, await cpuMs(() => patternRisk(command)))
      floorMs = Math.min(floorMs, await cpuMs(() => findWords(longest)))
    }
    ms = Math.max(ms, best)
  }
  result[name] = { ms, floorMs }
}
console.log(JSON.stringify(result))
