import type { Handlers } from '@slipway/http'
import { type agentRoutes, Problem } from '@slipway/protocol'
import type { Storage } from '@slipway/storage'
import type { Agents } from '../agents.ts'
import { findRecord } from '../conversations.ts'
import type { Profiles } from '../profiles.ts'

type Routes = Pick<
  typeof agentRoutes,
  | 'runConversation'
  | 'pauseConversation'
  | 'interruptConversation'
  | 'updateSecrets'
  | 'setConfirmationPolicy'
  | 'setSecurityAnalyzer'
  | 'askAgent'
  | 'condenseConversation'
  | 'generateTitle'
  | 'switchLlm'
  | 'switchProfile'
>

const success = { json: { success: true } }

/** What makes a conversation run, stop and go on in another way. */
export function controlHandlers(options: {
  readonly storage: Storage
  readonly agents: Agents
  readonly profiles: Profiles
  readonly touch: () => void
}): Handlers<Routes> {
  const { storage, agents, profiles, touch } = options
  const conversation = async ({ conversation_id }: { readonly conversation_id: string }) => {
    touch()
    return await agents.get(conversation_id)
  }
  /** Nothing runs in a conversation without an agent, so there is nothing to stop. */
  const running = async ({ conversation_id }: { readonly conversation_id: string }) => {
    touch()
    return await agents.find(await findRecord(storage.conversations, conversation_id))
  }
  return {
    async runConversation({ params }) {
      await (await conversation(params)).run()
      return success
    },
    async pauseConversation({ params }) {
      await (await running(params))?.pause()
      return success
    },
    async interruptConversation({ params }) {
      await (await running(params))?.interrupt()
      return success
    },
    async updateSecrets({ params, body }) {
      await (await conversation(params)).addSecrets(body.secrets)
      return success
    },
    async setConfirmationPolicy({ params, body }) {
      await (await conversation(params)).setPolicy(body.policy)
      return success
    },
    async setSecurityAnalyzer({ params, body }) {
      await (await conversation(params)).setAnalyzer(body.security_analyzer)
      return success
    },
    async askAgent({ params, body, signal }) {
      return { json: { response: await (await conversation(params)).ask(body.question, signal) } }
    },
    async condenseConversation({ params }) {
      await (await conversation(params)).condense()
      return success
    },
    async generateTitle({ params, body, signal }) {
      const { max_length: maxLength, llm } = body
      const title = await (await conversation(params)).title(
        { maxLength, ...(llm === undefined ? {} : { llm }) },
        signal,
      )
      return { json: { title } }
    },
    async switchLlm({ params, body }) {
      await (await conversation(params)).switchModel(body.llm)
      return success
    },
    async switchProfile({ params, body }) {
      const agent = await conversation(params)
      const llm = await profiles.get(body.profile_name)
      if (llm === undefined) throw new Problem('not_found', `Profile not found: ${body.profile_name}`)
      await agent.switchModel({ ...llm, usage_id: `profile:${body.profile_name}` })
      return success
    },
  }
}
