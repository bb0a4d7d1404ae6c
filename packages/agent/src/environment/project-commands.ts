import { join } from 'node:path'
import { isRecord, parseJson } from '@slipway/shared/json'
import { readSmallFile } from '../skills/small-file.ts'

const maxFileBytes = 256 * 1024
const maxCommands = 8
/** Names of scripts and targets that are shown; a file may have any others. */
const wanted = ['test', 'check', 'build', 'lint', 'typecheck']
/** The program for the scripts of a package, by the lock file that it writes. */
const scriptRunners: Readonly<Record<string, string>> = {
  'pnpm-lock.yaml': 'pnpm run',
  'yarn.lock': 'yarn run',
  'bun.lock': 'bun run',
  'bun.lockb': 'bun run',
}
const usualCommands: Readonly<Record<string, readonly string[]>> = {
  'Cargo.toml': ['cargo test', 'cargo build'],
  'go.mod': ['go test ./...', 'go build ./...'],
  'pom.xml': ['mvn test'],
  gradlew: ['./gradlew test', './gradlew build'],
  'mix.exs': ['mix test'],
  Rakefile: ['rake test'],
  'CMakeLists.txt': ['cmake'],
  'pytest.ini': ['pytest'],
  'tox.ini': ['tox'],
}

/**
 * Commands that test and build the project in a directory, by the files at its top. They are words of this
 * module: no text of a file is in them.
 */
export async function projectCommands(directory: string, names: ReadonlySet<string>): Promise<string[]> {
  const read = async (name: string) => {
    if (!names.has(name)) return ''
    const file = await readSmallFile(join(directory, name), { maxBytes: maxFileBytes, within: directory })
    return file === undefined || 'issue' in file || file.isTruncated ? '' : file.text
  }
  const [manifest, makefile, pyproject] = await Promise.all(
    ['package.json', 'Makefile', 'pyproject.toml'].map(read),
  )
  const runner = Object.entries(scriptRunners).find(([lock]) => names.has(lock))?.[1] ?? 'npm run'
  const scripts = packageScripts(manifest ?? '')
  const targets = new Set([...(makefile ?? '').matchAll(/^([\w-]+)\s*:(?!=)/gm)].map(([, target]) => target))
  const commands = [
    ...wanted.filter((name) => scripts.has(name)).map((name) => `${runner} ${name}`),
    ...wanted.filter((name) => targets.has(name)).map((name) => `make ${name}`),
    ...(/^\[tool\.pytest\b/m.test(pyproject ?? '') ? ['pytest'] : []),
    ...Object.entries(usualCommands).flatMap(([file, usual]) => (names.has(file) ? usual : [])),
  ]
  return [...new Set(commands)].slice(0, maxCommands)
}

function packageScripts(text: string): ReadonlySet<string> {
  const manifest = parseJson(text)
  return new Set(isRecord(manifest) && isRecord(manifest.scripts) ? Object.keys(manifest.scripts) : [])
}
