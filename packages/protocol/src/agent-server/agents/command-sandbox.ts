import * as z from 'zod'
import { strictComponent, withDefault } from '../../core/schemas.ts'

export const commandSandboxMode = z.enum(['off', 'workspace-write', 'read-only'])

/** Where commands of terminals run: with all rights of the server, or behind bubblewrap. */
export const commandSandbox = strictComponent('CommandSandbox', {
  mode: commandSandboxMode.meta({
    description: 'What commands and file tools may change: everything, only the workspace, or nothing.',
  }),
  network: withDefault(z.boolean(), false).meta({ description: 'Whether commands reach the network.' }),
})
export type CommandSandbox = z.output<typeof commandSandbox>
