import { chatMembers, chatSchema, responsesSchema, unknownMembers } from './find-members.ts'
import { lateSystem, unanswered, unsigned, wrongEnd } from './find-order.ts'
import { brokenPictures, heavyPictures, misnamedPictures, otherPictures } from './find-pictures.ts'
import { arraysWithoutItems, topCombinators, untypedSchemas, withoutProperties } from './find-schema.ts'
import { emptyTurns, longDescriptions } from './find-text.ts'
import type { Finding, Rule, Validator } from './rule.ts'
import { idForm, nameForm, objectInputs, uniqueIds, uniqueTools, wellFormedTexts } from './shared-rules.ts'
import { readChat, readResponses, type WireRequest } from './wire-request.ts'

const reference = 'https://platform.openai.com/docs/api-reference'

export const pictureTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const

/** `messages.2.content` as OpenAI writes it. */
const brackets = ({ at }: Finding) => at.replace(/\.(\d+)/g, '[$1]')

/** What both interfaces refuse. */
const bothRules: readonly Rule[] = [
  wellFormedTexts({
    source: 'https://github.com/elizaOS/eliza/pull/18079',
    says: () =>
      'We could not parse the JSON body of your request. (HINT: This likely means you aren’t using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)',
  }),
  uniqueIds({
    source: 'https://github.com/earendil-works/pi/issues/9057',
    says: ({ what }) => `Duplicate 'call_id': ${what}`,
  }),
  nameForm(/^[a-zA-Z0-9_-]{1,64}$/, {
    source: `${reference}/chat/create`,
    says: (finding) =>
      `Invalid '${brackets(finding)}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
  }),
  uniqueTools({
    source: 'https://github.com/tailcallhq/forgecode/issues/892',
    says: ({ what }) => `Duplicate function name: ${what}`,
  }),
  objectInputs({
    source: `${reference}/chat/create`,
    says: (finding) => `Invalid '${brackets(finding)}': expected a JSON object.`,
  }),
  {
    id: 'schema-top',
    refuses: 'oneOf, anyOf, allOf, enum, not and $ref at the top of a schema of a tool',
    source: 'https://platform.openai.com/docs/guides/function-calling (invalid_function_parameters)',
    find: topCombinators(),
    says: () =>
      "Invalid schema for function: schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
  },
  {
    id: 'schema-type',
    refuses: 'schemas of tools that are not of the type object',
    source: 'https://github.com/browserbase/stagehand/issues/1159',
    find: untypedSchemas,
    says: ({ what }) =>
      `Invalid schema for function: schema must be a JSON Schema of 'type: "object"', got 'type: "${what}"'.`,
  },
  {
    id: 'schema-items',
    refuses: 'arrays without items in a schema',
    source: 'https://github.com/streamnative/streamnative-mcp-server/issues/26',
    find: arraysWithoutItems,
    says: () => 'Invalid schema for function: In context=(), array schema missing items.',
  },
  {
    id: 'schema-properties',
    refuses: 'objects without properties at the top of a schema',
    source: 'https://github.com/spring-projects/spring-ai/issues/4776',
    find: withoutProperties,
    says: () => 'Invalid schema for function: In context=(), object schema missing properties.',
  },
  {
    id: 'picture-format',
    refuses: 'pictures other than PNG, JPEG, GIF and WebP',
    source: 'https://platform.openai.com/docs/guides/images-vision#image-input-requirements',
    find: otherPictures(pictureTypes),
    says: () =>
      "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
  },
  {
    id: 'picture-data',
    refuses: 'pictures that cannot be decoded',
    source: 'https://platform.openai.com/docs/guides/images-vision (image_parse_error)',
    find: brokenPictures,
    says: () => 'The image data you provided does not represent a valid image.',
  },
  {
    id: 'picture-type',
    refuses: 'a declared type that is not that of the bytes',
    source: 'https://platform.openai.com/docs/guides/images-vision (image_parse_error)',
    find: misnamedPictures,
    says: ({ what }) => `Invalid MIME type. ${what}: image_parse_error`,
  },
  {
    id: 'picture-bytes',
    refuses: 'pictures of more than 20 MB',
    source: 'https://platform.openai.com/docs/guides/images-vision#image-input-requirements',
    find: heavyPictures(20_000_000),
    says: () => 'The image is too large: it exceeds the limit of 20 MB.',
  },
]

/** Rules of chats, also of those who follow OpenAI; the words are OpenAI's. */
export const chatOrderRules: readonly Rule[] = [
  {
    id: 'answered-calls',
    refuses: 'calls that their results do not follow at once, and results without a call',
    source: 'https://github.com/langgenius/dify/issues/32222',
    find: unanswered(false),
    says: ({ what }) =>
      `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${what}`,
  },
  {
    id: 'empty-answer',
    refuses: 'an answer without a text and without calls',
    source: 'https://github.com/carlrobertoh/ProxyAI/issues/834',
    find: emptyTurns,
    says: () => 'Invalid assistant message: content or tool_calls must be set',
  },
]

export const openaiChat: Validator = {
  name: 'OpenAI',
  read: readChat,
  rules: [
    ...bothRules,
    ...chatOrderRules,
    idForm(/^.{1,40}$/s, {
      source: 'https://github.com/anomalyco/opencode/issues/12653',
      says: (finding) =>
        `Invalid '${brackets(finding)}': string too long. Expected a string with maximum length 40, but got a string with length ${finding.what.length} instead.`,
    }),
    {
      id: 'description',
      refuses: 'descriptions of tools above 1024 characters',
      source: 'https://github.com/OpenHands/OpenHands/issues/7167',
      find: longDescriptions(1024),
      says: (finding) =>
        `Invalid '${brackets(finding)}': string too long. Expected a string with maximum length 1024, but got a string with length ${finding.what} instead.`,
    },
    {
      id: 'members',
      refuses: 'members that the reference does not name',
      source: `${reference}/chat/create`,
      find: unknownMembers(
        chatSchema({
          members: {
            ...{ max_tokens: chatMembers.limit, max_completion_tokens: chatMembers.limit },
            ...{ reasoning_effort: chatMembers.effort, seed: chatMembers.seed },
            ...{ stream_options: chatMembers.streamOptions, tool_choice: chatMembers.toolChoice },
            ...{ top_p: chatMembers.number, prompt_cache_key: chatMembers.text },
            prompt_cache_retention: chatMembers.text,
          },
        }),
      ),
      says: ({ at }) => `Unrecognized request argument supplied: ${at}`,
    },
  ],
}

/** Reasoning items that nothing of the same answer follows. */
function loneReasoning({ turns }: WireRequest): readonly Finding[] {
  return turns.flatMap(({ at, blocks }, index) => {
    const [block] = blocks
    return block?.kind === 'reasoning' && turns[index + 1]?.role !== 'assistant'
      ? [{ at, what: block.id ?? '' }]
      : []
  })
}

function repeatedItems({ turns }: WireRequest): readonly Finding[] {
  const seen = new Set<string>()
  return turns.flatMap(({ at, blocks }) => {
    const [block] = blocks
    if (block?.kind !== 'reasoning' || block.id === undefined) return []
    if (seen.has(block.id)) return [{ at, what: block.id }]
    seen.add(block.id)
    return []
  })
}

export const openaiResponses: Validator = {
  name: 'OpenAI Responses',
  read: readResponses,
  rules: [
    ...bothRules,
    idForm(/^.{1,64}$/s, {
      source: 'https://github.com/openai/codex/issues/14355',
      says: (finding) =>
        `Invalid '${brackets(finding)}': string too long. Expected a string with maximum length 64, but got a string with length ${finding.what.length} instead.`,
    }),
    {
      id: 'answered-calls',
      refuses: 'calls without an output, and outputs without a call',
      source: 'https://github.com/openai/codex/issues/93',
      find: unanswered(true),
      says: ({ what }) => `No tool output found for function call ${what}.`,
    },
    {
      id: 'reasoning',
      refuses: 'encrypted reasoning of another provider',
      source: 'https://platform.openai.com/docs/guides/reasoning (invalid_encrypted_content)',
      find: unsigned('openai'),
      says: () =>
        'The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed.',
    },
    {
      id: 'reasoning-alone',
      refuses: 'a reasoning item that nothing of its answer follows',
      source: 'https://github.com/vercel/ai/issues/7883',
      find: loneReasoning,
      says: ({ what }) =>
        `Item '${what}' of type 'reasoning' was provided without its required following item.`,
    },
    {
      id: 'unique-items',
      refuses: 'two items with one id',
      source: 'https://github.com/NousResearch/hermes-agent/pull/7939',
      find: repeatedItems,
      says: ({ what }) =>
        `Duplicate item found with id ${what}. Remove duplicate items from your input and try again.`,
    },
    {
      id: 'members',
      refuses: 'members that the reference does not name',
      source: `${reference}/responses/create`,
      find: unknownMembers(responsesSchema),
      says: ({ at }) => `Unknown parameter: '${at}'.`,
    },
  ],
}

export const conversationEnd: Rule = {
  id: 'last-role',
  refuses: 'an answer at the end',
  source: 'mistral-common, protocol/instruct/validator.py',
  find: wrongEnd,
  says: ({ what }) =>
    `Expected last role User or Tool (or Assistant with prefix True) for serving but got ${what}`,
}

export const systemFirst: Rule = {
  id: 'system-first',
  refuses: 'a system message behind another one',
  source: 'mistral-common, protocol/instruct/validator.py',
  find: lateSystem,
  says: ({ what }) => `Unexpected role '${what}' after role 'user'`,
}
