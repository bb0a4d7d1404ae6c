import { type Conversation, finalResponse } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import {
  type agentServerRoutes,
  invalidInput,
  Problem,
  type WireVersion,
  wireVersion as wires,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { type ConversationRecord, DamageError } from '@slipway/storage'
import type { Webhooks } from '../../webhooks/webhooks.ts'
import {
  type ConversationInfoReader,
  conversationNotFound,
  localRuntime,
  withNotFoundText,
} from '../conversation-info.ts'
import { type CreateConversationDeps, createConversation } from '../lifecycle/create.ts'
import { forkConversation } from '../lifecycle/fork.ts'
import { withObservabilityHeaders } from '../lifecycle/observability.ts'
import { removeConversation } from '../lifecycle/remove.ts'
import { displayPluginAdditions } from '../redacted-settings.ts'
import { hasPlugins, readWireVersion } from '../stored-request.ts'

const [openPage, openList, closeList, comma, nullBytes] = ['{"items":[', '[', ']', ',', 'null'].map((text) =>
  Buffer.from(text),
) as [Buffer, Buffer, Buffer, Buffer, Buffer]
const success = { json: { success: true } }

/** A list leaves out what is damaged, which the storage has logged. */
function omitDamaged(error: unknown): undefined {
  if (!(error instanceof DamageError)) throw error
}

interface ConversationDeps {
  readonly createDeps: CreateConversationDeps
  readonly infoReader: ConversationInfoReader
  readonly webhooks: Pick<Webhooks, 'flushBeforeRemoval'>
}

export function conversationHandlers(deps: ConversationDeps) {
  const infos = openInfoLists(deps)
  return { ...readHandlers(deps, infos), ...changeHandlers(deps, infos) }
}

/** What several records say. */
function openInfoLists({ createDeps: { storage, registry }, infoReader }: ConversationDeps) {
  const readInfos = async (
    records: readonly (ConversationRecord | undefined)[],
    includeSkills: boolean | undefined,
  ) => {
    const children = await storage.conversations.listChildren(records.map((record) => record?.id ?? ''))
    return await Promise.all(
      records.map(async (record, index) => {
        if (record === undefined) return null
        const loaded = await registry.peek(record.id)
        const own = includeSkills ? await registry.settings.readSkills(record) : []
        const added = loaded && displayPluginAdditions(loaded.settings, loaded.pluginAdditions)
        const skills = includeSkills ? [...own, ...(added?.skills ?? [])] : []
        return await infoReader.readInfo(record, {
          skills,
          pluginHooks: added?.hooks,
          loaded,
          children: children[index],
        })
      }),
    )
  }
  /** The same as JSON, without skills. */
  const readInfosBytes = async (
    records: readonly (ConversationRecord | undefined)[],
    { isList }: { readonly isList: boolean },
  ) => {
    const children = await storage.conversations.listChildren(records.map((record) => record?.id ?? ''))
    const infos = records.map((record, index) => {
      if (record === undefined) return nullBytes
      const read = (loaded: Conversation | undefined) => {
        const added = loaded?.pluginAdditions
        const pluginHooks =
          loaded && added?.hooks && displayPluginAdditions(loaded.settings, { ...added, skills: [] }).hooks
        return infoReader.readInfoBytes(record, { loaded, pluginHooks, children: children[index] ?? [] })
      }
      const loaded = registry.peek(record.id)
      return loaded instanceof Promise ? loaded.then(read) : read(loaded)
    })
    const parts = await Promise.all(
      infos.map((info) => (isList && info instanceof Promise ? info.catch(omitDamaged) : info)),
    )
    const present = parts.filter((part) => part !== undefined)
    return present.flatMap((part, index) => (index === 0 ? [part] : [comma, part]))
  }
  return { readInfos, readInfosBytes }
}

type InfoLists = ReturnType<typeof openInfoLists>

function readHandlers({ createDeps, infoReader }: ConversationDeps, infos: InfoLists) {
  const { storage, registry } = createDeps
  const { readInfos, readInfosBytes } = infos
  return {
    async getConversations({ query }) {
      const records = await storage.conversations.get(query.ids)
      if (query.include_skills) return { json: await readInfos(records, true) }
      return {
        bytes: Buffer.concat([openList, ...(await readInfosBytes(records, { isList: false })), closeList]),
      }
    },
    async searchConversations({ query }) {
      const { tag: tags, ...rest } = query
      const page = await storage.conversations.search({ ...rest, tags })
      const { items, next_page_id } = page
      if (query.include_skills) {
        const infos = items.map((item) => readInfos([item], true).catch(omitDamaged))
        const present = (await Promise.all(infos)).filter((info) => info !== undefined)
        return { json: { items: present.flat(), next_page_id } }
      }
      const end = Buffer.from(`],"next_page_id":${JSON.stringify(next_page_id)}}`)
      return { bytes: Buffer.concat([openPage, ...(await readInfosBytes(items, { isList: true })), end]) }
    },
    async countConversations({ query }) {
      return { json: await storage.conversations.count({ status: query.status, tags: query.tag }) }
    },
    async getConversation({ params, query }) {
      const record = await infoReader.getRecord(params.conversation_id)
      // Plugins of its own are read from their files: a conversation without any is not opened.
      if (query.include_skills && hasPlugins(record))
        await registry
          .load(record)
          .then((conversation) => conversation?.openPlugins())
          .catch(() => undefined)
      const [info] = await readInfos([record], query.include_skills)
      return { json: info }
    },
    async getRuntime({ params }) {
      await infoReader.getRecord(params.conversation_id)
      return { json: localRuntime }
    },
    async reprovisionRuntime({ params }) {
      await infoReader.getRecord(params.conversation_id)
      return { json: localRuntime }
    },
    async finalResponse({ params }) {
      const { id } = await infoReader.getRecord(params.conversation_id)
      return { json: { response: await finalResponse(storage.log, id) } }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}

function changeHandlers(deps: ConversationDeps, { readInfos }: InfoLists) {
  const { createDeps, infoReader, webhooks } = deps
  const { storage, registry } = createDeps
  return {
    async createConversation({ body, query, header }) {
      const wire = parseWireHeader(header('x-slipway-wire'))
      const request = withObservabilityHeaders(body, header)
      const { record, created } = await createConversation(createDeps, request, wire)
      const [info] = await readInfos([record], query.include_skills)
      return { status: created ? 201 : 200, json: info }
    },
    async patchConversation({ params, body }) {
      const { title, tags, limits, command_rules: rules, plan_mode: isPlanning } = body
      const open = () => registry.get(params.conversation_id)
      if (limits !== undefined) await (await open()).setLimits(limits)
      if (rules !== undefined) await (await open()).setCommandRules(rules)
      if (isPlanning !== undefined) await (await open()).setPlanMode(isPlanning)
      const patch = definedMembers({ title, tags })
      const patched = await storage.conversations.patch(params.conversation_id, patch)
      if (patched === undefined) throw conversationNotFound(params.conversation_id)
      if (title !== undefined) await registry.publishMember(params.conversation_id, 'title', title)
      if (tags === undefined) return success
      const loaded = readWireVersion(patched) === 'current' ? await registry.load(patched) : undefined
      if (loaded === undefined) await registry.publishMember(params.conversation_id, 'tags', tags)
      else await loaded.record('tags', tags)
      return success
    },
    async deleteConversation({ params }) {
      const id = params.conversation_id
      if (!(await removeConversation({ ...createDeps, infoReader, webhooks }, id)))
        throw conversationNotFound(id)
      return success
    },
    async forkConversation({ params, query, body }) {
      const source = await withNotFoundText(
        infoReader.getRecord(params.conversation_id),
        'Source conversation not found',
      )
      const fork = await forkConversation({ storage, registry }, source, body)
      const [info] = await readInfos([fork], query.include_skills)
      return { status: 201, json: info }
    },
    async navigateConversation({ params, query, body, rawBody }) {
      // Without one the head would be moved before the first event.
      if (rawBody.length === 0) throw invalidInput(['body'], 'Field required', 'missing')
      const record = await withNotFoundText(
        infoReader.getRecord(params.conversation_id),
        'Conversation not found',
      )
      const conversation = await registry.load(record)
      if (conversation === undefined) throw new Problem('conflict', 'This conversation has no agent.')
      await conversation.navigate(body.event_id ?? null)
      const [info] = await readInfos([await infoReader.getRecord(record.id)], query.include_skills)
      return { json: info }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}

/** The wire version that the creator of a conversation requests, if any. */
function parseWireHeader(value: string | undefined): WireVersion | undefined {
  if (value === undefined || value === '') return undefined
  const { data } = wires.safeParse(value)
  if (data !== undefined) return data
  throw invalidInput(['header', 'x-slipway-wire'], "Input should be 'seed' or 'current'", 'enum')
}
