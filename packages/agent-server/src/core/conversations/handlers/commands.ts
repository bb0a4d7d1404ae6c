import type { Conversation } from '@slipway/agent'
import type { Handlers, Request } from '@slipway/http'
import { type agentServerRoutes, type Llm, Problem, profileName } from '@slipway/protocol'
import type { Cipher, Storage } from '@slipway/storage'
import { answersQuestions } from '../../peers/no-answer.ts'
import type { Webhooks } from '../../webhooks/webhooks.ts'
import { displayedSecrets, getConversationRecord, withNotFoundText } from '../conversation-info.ts'
import { resolveModel, resolveSecretSources } from '../lifecycle/resolve-llm.ts'
import type { ConversationParts } from '../parts.ts'
import type { ConversationRegistry } from '../registry.ts'
import { readSecretNames, readStoredRequest } from '../stored-request.ts'

const success = { json: { success: true } }

interface ConversationParams {
  readonly conversation_id: string
}

interface CommandDeps {
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly parts: ConversationParts
  readonly cipher: Cipher
  readonly webhooks: Pick<Webhooks, 'announce'>
}

/** Runs, stops and reconfigures conversations. */
export function conversationCommandHandlers(deps: CommandDeps) {
  const commands = openCommands(deps)
  return { ...runHandlers(deps, commands), ...changeHandlers(deps, commands) }
}

function openCommands({ storage, registry }: CommandDeps) {
  const getConversation = ({ conversation_id }: ConversationParams) => registry.get(conversation_id)
  /** Undefined without an agent: nothing runs then. */
  const findConversation = async ({ conversation_id }: ConversationParams) => {
    return await registry.load(await getConversationRecord(storage.conversations, conversation_id))
  }
  /** A command that opens the conversation. */
  const command =
    <R extends { readonly params: ConversationParams }>(
      run: (conversation: Conversation, request: R) => Promise<unknown>,
    ) =>
    async (request: R) => {
      await run(await getConversation(request.params), request)
      return success
    }
  /** A command that does nothing to a conversation without an agent. */
  const stopCommand =
    (stop: (conversation: Conversation) => Promise<unknown>) =>
    async ({ params }: { readonly params: ConversationParams }) => {
      const conversation = await findConversation(params)
      if (conversation !== undefined) await stop(conversation)
      return success
    }
  return { getConversation, findConversation, command, stopCommand }
}

type Commands = ReturnType<typeof openCommands>

function runHandlers({ storage, registry, parts, webhooks }: CommandDeps, commands: Commands) {
  const { getConversation, command, stopCommand } = commands
  return {
    runConversation: command((conversation, request: Request<typeof agentServerRoutes.runConversation>) =>
      conversation.run({ mayAnswer: answersQuestions(request) }),
    ),
    pauseConversation: stopCommand((conversation) => conversation.pause()),
    interruptConversation: stopCommand(async (conversation) => {
      const [before] = await storage.conversations.get([conversation.id])
      await conversation.interrupt()
      const [after] = await storage.conversations.get([conversation.id])
      if (after !== undefined && after.updated_at === before?.updated_at) webhooks.announce(after)
    }),
    startGoal: command((conversation, { body }) =>
      conversation.startGoal(body.objective, body.max_iterations),
    ),
    stopGoal: stopCommand((conversation) => conversation.stopGoal()),
    resumeGoal: command((conversation) => conversation.resumeGoal()),
    async prepareForSandboxPause({ signal }) {
      await registry.pauseAll(signal)
      await parts.credentials?.release((id) => registry.close(id, { releases: true }))
      return { status: 204, bytes: Buffer.alloc(0) }
    },
    async askAgent({ params, body, signal }) {
      return {
        json: { response: await (await getConversation(params)).askSideQuestion(body.question, signal) },
      }
    },
    async condenseConversation({ params }) {
      const conversation = await withNotFoundText(getConversation(params), 'Conversation not found')
      await conversation.condense()
      return success
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}

function changeHandlers({ storage, registry, parts, cipher }: CommandDeps, commands: Commands) {
  const { getConversation, findConversation, command } = commands
  const resolveRequestLlm = (llm: Llm) => resolveModel({ cipher, models: parts.models }, llm, ['body', 'llm'])
  return {
    updateSecrets: command(async (conversation, { params, body }) => {
      const before = await getConversationRecord(storage.conversations, params.conversation_id)
      const allowed = readSecretNames(before)
      const secrets = resolveSecretSources(cipher, body.secrets, ['body', 'secrets'])
      const added = Object.entries(secrets).filter(([name]) => allowed?.includes(name) ?? true)
      await conversation.addSecrets(Object.fromEntries(added))
      const record = await getConversationRecord(storage.conversations, params.conversation_id)
      await registry.publishMember(record.id, 'secret_registry', displayedSecrets(readStoredRequest(record)))
    }),
    setConfirmationPolicy: command((conversation, { body }) => conversation.setPolicy(body.policy)),
    setSecurityAnalyzer: command((conversation, { body }) =>
      conversation.setAnalyzer(body.security_analyzer),
    ),
    async switchAcpModel({ params, body }) {
      const conversation = await findConversation(params)
      if (conversation === undefined)
        throw new Problem('bad_request', 'switch_acp_model is only supported for ACP conversations.')
      await conversation.switchAcpModel(body.model)
      return success
    },
    async generateTitle({ params, body, signal }) {
      const { max_length: maxLength, llm } = body
      const conversation = await getConversation(params)
      const llmOption = llm === undefined ? {} : { llm: await resolveRequestLlm(llm) }
      const title = await conversation.generateTitle({ maxLength, ...llmOption }, signal)
      return { json: { title } }
    },
    switchLlm: command(async (conversation, { body }) =>
      conversation.switchModel(await resolveRequestLlm(body.llm)),
    ),
    switchProfile: command(async (conversation, { body }) => {
      const { profile_name: name } = body
      if (!profileName.safeParse(name).success)
        throw new Problem('bad_request', `Invalid profile name: ${JSON.stringify(name)}`)
      const llm = await parts.models.resolve(name)
      if (llm === undefined) throw new Problem('not_found', `Profile '${name}' not found`)
      await conversation.switchModel({ ...llm, usage_id: `profile:${name}` })
    }),
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}
