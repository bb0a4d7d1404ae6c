import type { AcpAgent, AcpModelInfo } from '@slipway/protocol'
import { errorText, firstChars } from '@slipway/shared/text'
import { makeTemporaryFolder, rm } from '@slipway/shared/tool-files'
import type { Secrets } from '../secrets/secrets.ts'
import { Workspace } from '../workspace/workspace.ts'
import { AcpError } from './failure.ts'
import { unknownMethod } from './rpc.ts'
import { AcpSession } from './session.ts'

export interface DiscoveredModels {
  readonly available: readonly AcpModelInfo[]
  readonly current: string | undefined
  /** Without secrets. */
  readonly failure?: { readonly code: string; readonly detail: string }
}

const maxDetail = 2_000

/**
 * Starts an external agent in an empty directory, asks for its models and ends it. Rejects only when the
 * signal aborts, after everything has ended.
 */
export async function discoverAcpModels(
  agent: AcpAgent,
  options: { readonly environment: Readonly<Record<string, string>>; readonly secrets: Secrets },
  signal: AbortSignal,
): Promise<DiscoveredModels> {
  const { environment, secrets } = options
  const directory = await makeTemporaryFolder('acp')
  try {
    await using workspace = await Workspace.open({ directory, env: environment })
    const handlers = {
      onNotification: () => undefined,
      onRequest: async (method: string) => {
        throw unknownMethod(method)
      },
    }
    const session = await AcpSession.open(
      // What it would choose on its own is asked for.
      {
        agent: {
          ...agent,
          acp_effort: undefined,
          acp_session_mode: undefined,
          acp_resume_session_id: undefined,
        },
        ...{
          workspace,
          directory,
          secrets,
          servers: {},
          mcpOAuth: undefined,
          handlers,
          warn: () => undefined,
        },
      },
      signal,
    )
    await session.close()
    return { available: session.models?.available ?? [], current: session.models?.current }
  } catch (error) {
    signal.throwIfAborted()
    const code = error instanceof AcpError ? error.code : 'ACPInitError'
    const text = errorText(error)
    return {
      available: [],
      current: undefined,
      failure: { code, detail: firstChars(secrets.redact(text), maxDetail) },
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
