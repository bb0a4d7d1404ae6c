import type { Finding } from '@slipway/agent-server/maintenance'
import { userDataDirectory } from '@slipway/shared/process'
import { errorText } from '@slipway/shared/text'
import { askServer, findHolder, findPrivateServer } from '../context/private-server.ts'
import { differingVariables } from '../context/shell-variables.ts'

type Env = Readonly<Record<string, string | undefined>>

const area = 'server'
const stopIt = 'slipway stop ends it; the next command starts it again.'

/** Who uses the private data directory, whether it answers, and what it has of the shell that started it. */
export async function examinePrivateServer(env: Env): Promise<Finding[]> {
  const holder = await findHolder(env)
  if (holder === undefined) return [{ area, level: 'ok', message: 'the private server does not run' }]
  const who = `pid ${holder.pid}`
  if (!holder.isServer) {
    const message = `${who} uses the private data directory: ${holder.command}`
    return [{ area, level: 'warning', message, next: 'Wait until it has ended.' }]
  }
  const failed = (message: string): Finding[] => [{ area, level: 'error', message, next: stopIt }]
  let server: Awaited<ReturnType<typeof findPrivateServer>>
  try {
    server = await findPrivateServer(env)
  } catch (error) {
    return [{ area, level: 'error', message: errorText(error) }]
  }
  if (server === undefined)
    return failed(`the private server runs (${who}) and ${userDataDirectory(env)} does not say where`)
  const answer = await askServer(server)
  if (answer === 'none') return failed(`the private server (${who}) does not answer at ${server.url}`)
  if (answer === 'refused')
    return failed(`the private server (${who}) does not accept the key in ${userDataDirectory(env)}`)
  const { environment } = server
  const taken = Object.entries(environment ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join(' ')
  const findings: Finding[] = [
    { area, level: 'ok', message: `the private server answers at ${server.url} (${who})` },
  ]
  if (environment === undefined) return findings
  findings.push({ area, level: 'ok', message: `it has of the shell that started it: ${taken}` })
  const differing = differingVariables(environment, env)
  if (differing.length > 0) {
    const message = `it has another value than this shell, or none, of ${differing.join(', ')}`
    findings.push({ area, level: 'warning', message, next: stopIt })
  }
  return findings
}
