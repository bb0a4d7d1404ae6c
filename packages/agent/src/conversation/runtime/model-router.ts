import { type Llm, Problem } from '@slipway/protocol'
import type { ModelRouter } from '../../tools/core/model-router.ts'
import { ToolError } from '../../tools/core/tool-failure.ts'
import { truncateMiddle } from '../../tools/core/truncate.ts'
import { textMessage } from '../events/event-drafts.ts'
import { replyText } from '../view/content-blocks.ts'
import type { ConversationContext } from './conversation-context.ts'
import { openConversationModel } from './open-model.ts'

const maxMessages = 6
const maxMessageChars = 8_000

/** The routing of a conversation: its messages, the profiles of the server and its model. */
export function createModelRouter(
  context: ConversationContext,
  switchModel: (llm: Llm) => Promise<void>,
): ModelRouter {
  const { deps, secrets, settings } = context
  const findLlm = async (name: string, failure: string): Promise<Llm> => {
    const found = await deps.findProfile?.(name).catch((error: unknown) => {
      if (error instanceof Problem) throw new ToolError(`${failure} '${name}': ${error.message}`)
      throw error
    })
    if (found === undefined) throw new ToolError(`${failure} '${name}': there is no such LLM profile`)
    return found
  }
  return {
    findMetaProfile: async (name) => await deps.findMetaProfile?.(name),
    recentMessages() {
      const texts = context.state.view
        .messages()
        .filter(({ role }) => role === 'user' || role === 'assistant')
        .map((message) => ({ role: message.role, text: replyText({ message }, '\n').trim() }))
        .filter(({ text }) => text !== '')
      const cut = (text: string) => truncateMiddle(text, maxMessageChars, () => '[...]')
      return texts
        .slice(-maxMessages)
        .map(({ role, text }) => `${role}: ${cut(text)}`)
        .join('\n\n')
    },
    async ask(profile, { system, prompt }, signal) {
      const usage_id = `classifier:${profile}`
      const llm = { ...(await findLlm(profile, 'Failed to load classifier profile')), usage_id }
      secrets.addValuesFrom(llm)
      const messages = [textMessage('system', system), textMessage('user', prompt)]
      const result = await openConversationModel(context, llm).generate({ messages, tools: [] }, signal)
      if (result.kind !== 'reply') {
        signal.throwIfAborted()
        const detail = result.kind === 'failure' ? `${result.code}: ${secrets.redact(result.detail)}` : ''
        throw new ToolError(`The classifier '${profile}' gave no answer. ${detail}`)
      }
      await context.recordUsage(result, usage_id)
      return replyText(result)
    },
    async switchTo(profile) {
      const llm = await findLlm(profile, 'Failed to switch to LLM profile')
      await switchModel({ ...llm, usage_id: `profile:${profile}` })
      return llm.model
    },
    get activeModel() {
      return settings.current.agent.llm.model
    },
  }
}
