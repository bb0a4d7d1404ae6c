import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { readConfig } from '../context/config.ts'
import { noConfigFile } from '../context/config-file.ts'
import { fileSettings } from '../context/file-settings.ts'
import { buildProgram } from './program.ts'

const { slipway } = buildProgram(readConfig({}, noConfigFile('')), { code: 0 }, new AbortController().signal)

function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(allCommands)]
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

const commands = allCommands(slipway)

test.each(commands.map((command) => [pathOf(command), command] as const))(
  'the help of %s names the flags of all commands, and what each argument and flag means',
  (_, command) => {
    const help = command.helpInformation()
    for (const flag of ['--json', '--output-format', '--context', '--url']) expect(help).toContain(flag)
    expect(command.description()).not.toBe('')
    for (const { description, flags } of command.options) expect(description, flags).not.toBe('')
    for (const argument of command.registeredArguments)
      expect(argument.description, argument.name()).not.toBe('')
  },
)

test('no flag means two things in a group of commands', () => {
  for (const command of commands) {
    const own = command.options.flatMap(({ short, long }) => [short, long]).filter(Boolean)
    expect(own, pathOf(command)).toHaveLength(new Set(own).size)
  }
})

test('the help of the configuration names each setting of the file', () => {
  const config = slipway.commands.find((command) => command.name() === 'config')
  const help: string[] = []
  config?.configureOutput({ writeOut: (text) => help.push(text) }).outputHelp()
  const shown = [...help.join('').matchAll(/^ {2}(\w+\.\w+), [A-Z_]+/gm)].map(([, key]) => key)
  expect(shown).toEqual([...fileSettings.keys()])
})

test('no command gives a flag of all commands another meaning', () => {
  const ofAll = slipway.options.flatMap(({ short, long }) => [short, long])
  const taken = commands
    .filter((command) => command !== slipway)
    .flatMap((command) => {
      const flags = command.options.flatMap(({ short, long }) => [short, long])
      return flags.filter((flag) => flag && ofAll.includes(flag)).map((flag) => `${pathOf(command)} ${flag}`)
    })
  expect(taken).toEqual([])
})
