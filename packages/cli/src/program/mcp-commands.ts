import type { Command } from 'commander'
import type { Config } from '../context/config.ts'
import { listFlag } from './flags.ts'
import type { ConversationDeps } from './server-selection.ts'

interface AddFlags {
  readonly address?: string
  readonly env?: readonly string[]
  readonly tokenEnv?: string
  readonly test: boolean
}

/** The commands for the MCP servers in the settings of an agent server. */
export function addMcpCommands(
  slipway: Command,
  { env }: Config,
  { context, agentServer }: ConversationDeps,
): void {
  const load = () => import('../commands/settings/mcp.ts')
  const group = slipway
    .command('mcp')
    .description('manage the MCP servers that "run" and sessions give to agents; serve as one')
  group
    .command('ls', { isDefault: true })
    .description('list the MCP servers; secrets are not shown')
    .action(async () => (await load()).listMcpCommand(context()))
  group
    .command('add')
    .description('add an MCP server, tested: slipway mcp add NAME -- COMMAND ARGUMENTS')
    .argument('<name>', 'name of the MCP server')
    .argument('[command...]', 'program and arguments on the machine of the agent server, after --')
    .option('--address <url>', 'address of an MCP server that runs elsewhere, instead of a program')
    .option('--env <name>', 'give it this variable of your environment, or NAME=VALUE; repeatable', listFlag)
    .option('--token-env <name>', 'variable of your environment with the bearer token for --address')
    .option('--no-test', 'do not test it first')
    .action(async (name: string, program: string[], flags: AddFlags, command: Command) => {
      const isRemote = flags.address !== undefined
      if (isRemote === program.length > 0)
        command.error('Name a command after --, or an address with --address.')
      if (isRemote ? flags.env !== undefined : flags.tokenEnv !== undefined)
        command.error('--env goes with a command, --token-env with --address.')
      await (await load()).addMcpCommand(context(), name, {
        ...{ command: program, url: flags.address, variables: flags.env ?? [], isTested: flags.test, env },
        tokenVariable: flags.tokenEnv,
      })
    })
  group
    .command('rm')
    .description('remove an MCP server from the settings')
    .argument('<name>', 'name of the MCP server')
    .action(async (name: string) => (await load()).removeMcpCommand(context(), name))
  group
    .command('test')
    .description('start an MCP server of the settings and list its tools')
    .argument('<name>', 'name of the MCP server')
    .action(async (name: string) => (await load()).testMcpCommand(context(), name))
  group
    .command('serve')
    .description('serve the conversations of the server to MCP clients that start programs, by stdio')
    .action(async () => {
      const { serveMcpCommand } = await import('../commands/mcp/serve.ts')
      const { url, key, signal } = agentServer()
      await serveMcpCommand({ url, key }, signal)
    })
}
