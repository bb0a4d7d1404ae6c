import type { Handlers } from '@slipway/http'
import { type agentRoutes, type Llm, Problem } from '@slipway/protocol'
import type { Cipher, Storage } from '@slipway/storage'
import { findRecord } from '../../conversations/conversation-info.ts'
import type { Agents } from '../../conversations/registry.ts'
import type { Profiles } from '../../profiles/llm-profiles.ts'
import { takenModel, takenSources } from '../../profiles/resolve-llm.ts'

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
  | 'switchAcpModel'
  | 'startGoal'
  | 'stopGoal'
  | 'resumeGoal'
  | 'prepareForSandboxPause'
>

const success = { json: { success: true } }

/** What makes a conversation run, stop and go on in another way. */
export function controlHandlers(options: {
  readonly storage: Storage
  readonly agents: Agents
  readonly profiles: Profiles
  readonly cipher: Cipher
  readonly touch: () => void
}): Handlers<Routes> {
  const { storage, agents, profiles, cipher, touch } = options
  const taken = (llm: Llm) => takenModel({ cipher, profiles }, llm, ['body', 'llm'])
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
    async startGoal({ params, body }) {
      await (await conversation(params)).pursue(body.objective, body.max_iterations)
      return success
    },
    async stopGoal({ params }) {
      await (await running(params))?.stopGoal()
      return success
    },
    async resumeGoal({ params }) {
      await (await conversation(params)).resumeGoal()
      return success
    },
    async prepareForSandboxPause({ signal }) {
      await agents.rest(signal)
      return { status: 204, bytes: Buffer.alloc(0) }
    },
    async switchAcpModel({ params }) {
      await findRecord(storage.conversations, params.conversation_id)
      throw new Problem('bad_request', 'The agent of this conversation is not one of another program (ACP).')
    },
    async updateSecrets({ params, body }) {
      const agent = await conversation(params)
      await agent.addSecrets(takenSources(cipher, body.secrets, ['body', 'secrets']))
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
      const agent = await conversation(params)
      const asked = llm === undefined ? {} : { llm: await taken(llm) }
      const title = await agent.title({ maxLength, ...asked }, signal)
      return { json: { title } }
    },
    async switchLlm({ params, body }) {
      const agent = await conversation(params)
      await agent.switchModel(await taken(body.llm))
      return success
    },
    async switchProfile({ params, body }) {
      const agent = await conversation(params)
      const llm = await profiles.usable(body.profile_name)
      if (llm === undefined) throw new Problem('not_found', `Profile not found: ${body.profile_name}`)
      await agent.switchModel({ ...llm, usage_id: `profile:${body.profile_name}` })
      return success
    },
  }
}
