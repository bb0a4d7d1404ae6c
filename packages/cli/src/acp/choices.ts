import {
  RequestError,
  type SessionConfigOption,
  type SessionMode,
  type SessionModeState,
} from '@agentclientprotocol/sdk/unstable'
import type { Client } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import { type ConfirmationName, confirmationPolicies } from '../conversation/confirmation-policies.ts'
import { asObject, asString } from '../output/action-text.ts'

/** What a user of an editor chooses of a session. */
export interface Choices {
  readonly modes: SessionModeState
  readonly configOptions: SessionConfigOption[]
}

/** Confirmation policies, and the plan mode beside them. */
const modes: readonly SessionMode[] = [
  { id: 'always', name: 'Always ask', description: 'Every action waits for your answer' },
  { id: 'risky', name: 'Ask when risky', description: 'Actions of high risk wait for your answer' },
  { id: 'never', name: 'Never ask', description: 'Nothing waits for your answer' },
  { id: 'plan', name: 'Plan', description: 'Nothing is changed; another mode carries the plan out' },
]

const modeOption = 'mode'
const modelOption = 'model'
/** Of a conversation whose agent is a program with its own model. */
const noModel = 'other'

/** The modes and models of a conversation, and which are chosen. */
export async function readChoices(
  client: Client,
  info: ConversationInfo,
  signal: AbortSignal,
): Promise<Choices> {
  const currentModeId = currentMode(info)
  const { profiles } = await client.call('listProfiles', { signal })
  const { model, base_url = null } = asObject(asObject(info.agent).llm)
  const named = profiles.filter((profile) => profile.model !== null)
  const current = named.find((profile) => profile.model === model && profile.base_url === (base_url ?? null))
  // The model of this conversation may be none of the saved ones.
  const ownName = asString(model) || noModel
  const own = current === undefined ? [{ value: ownName, name: ownName }] : []
  const options = named.map(({ name, model }) => ({
    value: name,
    name: `${model}`,
    description: `profile ${name}`,
  }))
  return {
    modes: { currentModeId, availableModes: [...modes] },
    configOptions: [
      {
        ...{
          id: modeOption,
          name: 'Confirmation',
          category: 'mode',
          type: 'select',
          currentValue: currentModeId,
        },
        options: modes.map(({ id: value, ...mode }) => ({ value, ...mode })),
      },
      {
        ...{ id: modelOption, name: 'Model', category: 'model', type: 'select' },
        ...{ currentValue: current?.name ?? ownName, options: [...own, ...options] },
      },
    ],
  }
}

/** Sets one of them; a RequestError when there is no such one. */
export async function setChoice(
  client: Client,
  info: ConversationInfo,
  {
    option,
    value,
    signal,
  }: { readonly option: string; readonly value: unknown; readonly signal: AbortSignal },
): Promise<void> {
  if (typeof value !== 'string') throw new RequestError(-32602, `The value of ${option} is a text.`)
  if (option === modeOption) await setMode(client, info, value, signal)
  else if (option !== modelOption) throw new RequestError(-32602, `There is no option ${option}.`)
  else if (value !== asString(asObject(asObject(info.agent).llm).model)) {
    const params = { conversation_id: info.id }
    await client.call('switchProfile', { params, body: { profile_name: value }, signal })
  }
}

async function setMode(
  client: Client,
  info: ConversationInfo,
  mode: string,
  signal: AbortSignal,
): Promise<void> {
  if (!modes.some(({ id }) => id === mode)) throw new RequestError(-32602, `There is no mode ${mode}.`)
  const params = { conversation_id: info.id }
  const isPlanning = info.plan_mode === true
  if (isPlanning !== (mode === 'plan'))
    await client.call('patchConversation', { params, body: { plan_mode: mode === 'plan' }, signal })
  if (mode === 'plan') return
  const policy = confirmationPolicies[mode as ConfirmationName] // a mode is one of these or `plan`
  await client.call('setConfirmationPolicy', { params, body: { policy }, signal })
}

function currentMode({ plan_mode, confirmation_policy }: ConversationInfo): string {
  if (plan_mode === true) return 'plan'
  const found = Object.entries(confirmationPolicies).find(([, { kind }]) => kind === confirmation_policy.kind)
  return found?.[0] ?? 'never'
}
