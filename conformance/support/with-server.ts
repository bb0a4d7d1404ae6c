import { startAgentServer } from './agent-server.ts'
import { AgentServerApi } from './agent-server-api.ts'

/** Serves a data directory while `work` runs, and kills the server. */
export async function withServer<T>(data: string, work: (api: AgentServerApi) => Promise<T>): Promise<T> {
  const server = await startAgentServer(data)
  try {
    return await work(new AgentServerApi({ url: server.url, headers: {} }))
  } finally {
    await server.stop('SIGKILL')
  }
}
