import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { agentServerRoutes, sandboxServerRoutes } from '@slipway/protocol'
import { exportFormats } from '@slipway/protocol/client'
import type { Command } from 'commander'
import { readConfig } from '../packages/cli/src/context/config.ts'
import { noConfigFile } from '../packages/cli/src/context/config-file.ts'
import { visibleCommands } from '../packages/cli/src/program/completion.ts'
import { buildProgram } from '../packages/cli/src/program/program.ts'

/** Writes the pages of commands and operations of `docs/reference` from the code; `--check` compares. */
const directory = resolve(import.meta.dirname, '../docs/reference')

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const row = (...cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
const note = 'Printed by `npx node scripts/print-reference.ts` from the code; do not edit.'

const { slipway } = buildProgram(readConfig({}, noConfigFile('')), { code: 0 }, new AbortController().signal)
const pages = { 'cli.md': cliPage(), 'formats.md': formatsPage(), 'operations.md': operationsPage() }
for (const [name, text] of Object.entries(pages)) {
  const file = resolve(directory, name)
  if (!process.argv.includes('--check')) writeFileSync(file, text)
  else if (readFileSync(file, 'utf8') !== text) {
    console.error(`docs/reference/${name} is out of date: run \`npx node scripts/print-reference.ts\``)
    process.exitCode = 1
  }
}

function formatsPage(): string {
  const formats = exportFormats.map(({ name, extension, description }) =>
    row(`\`${name}\``, `.${extension}`, description),
  )
  return `# Formats

${note}

\`slipway export ID --format NAME\` and \`GET /api/conversations/{id}/export?format=NAME\`; \`--gzip\` and \`gzip=true\` compress each.

| format | file | what it is |
|---|---|---|
${formats.join('\n')}

\`slipway import FILE\` takes \`jsonl\`, plain or gzip, the \`archive\`, and the folder of an OpenHands conversation, by what they are. Unknown kinds
and members are refused and named; \`--keep-unknown\` (\`?unknown=keep\`) takes them.
`
}

function cliPage(): string {
  const commands = leaves(slipway)
  const index = commands.map((command) =>
    row(`[\`${pathOf(command)}\`](#${anchor(command)})`, summary(command)),
  )
  return `# Commands

${note} \`slipway COMMAND --help\` says the same.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 waits for a person, 4 unchanged but of an unknown signer (\`verify\`).

Every command takes these flags too:

${optionTable(slipway)}

| command | what it does |
|---|---|
${index.join('\n')}

${commands.map(commandSection).join('\n')}`
}

/** A command with subcommands is a group. */
function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : visibleCommands(command).flatMap(leaves)
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

function anchor(command: Command): string {
  return pathOf(command)
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
}

function summary(command: Command): string {
  return command.description()
}

function commandSection(command: Command): string {
  const args = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`
    return argument.required ? `<${name}>` : `[${name}]`
  })
  const described = command.registeredArguments.map((argument) =>
    row(`\`${argument.name()}\``, argument.description + choices(argument.argChoices)),
  )
  const table = described.length === 0 ? '' : `\n| argument | meaning |\n|---|---|\n${described.join('\n')}\n`
  const options = command.options.length === 0 ? '' : `\n${optionTable(command)}\n`
  return `## ${pathOf(command)}

${summary(command)[0]?.toUpperCase()}${summary(command).slice(1)}.

\`${[pathOf(command), ...args].join(' ')}\`
${table}${options}`
}

function optionTable(command: Command): string {
  const rows = command.options
    .filter(({ hidden }) => !hidden)
    .map(({ flags, description, argChoices, defaultValue, defaultValueDescription, negate }) => {
      const isShown = !negate && defaultValue !== undefined && defaultValue !== false && defaultValue !== true
      return row(
        `\`${flags}\``,
        description + choices(argChoices),
        isShown ? (defaultValueDescription ?? `\`${defaultValue}\``) : '',
      )
    })
  return ['| flag | meaning | default |', '|---|---|---|', ...rows].join('\n')
}

function choices(values: readonly string[] | undefined): string {
  return values === undefined ? '' : ` (${values.join(', ')})`
}

function operationsPage(): string {
  const section = (title: string, routes: typeof agentServerRoutes | typeof sandboxServerRoutes) => {
    const rows = Object.entries(routes).map(([name, { method, path, summary: text }]) =>
      row(`\`${name}\``, `\`${method.toUpperCase()} ${path}\``, text),
    )
    return `## ${title}\n\n| operation | route | what it does |\n|---|---|---|\n${rows.join('\n')}\n`
  }
  return `# Operations of the clients

${note}

\`client.call(OPERATION, { params, query, body })\` of [the client package](../guide/client.md) makes one request, typed. The same names
are the \`operationId\`s of the OpenAPI documents, which both servers show at \`/docs\`.

${section('Agent server: `Client`', agentServerRoutes)}
${section('Sandbox server: `SandboxServerClient`', sandboxServerRoutes)}`
}
