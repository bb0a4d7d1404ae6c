import { chatMembers, chatSchema, unknownMembers } from './find-members.ts'
import {
  brokenPictures,
  linkedPictures,
  misnamedPictures,
  otherPictures,
  tooManyPictures,
} from './find-pictures.ts'
import { deadReferences, typesBesideForms, untypedSchemas } from './find-schema.ts'
import { emptyTurns } from './find-text.ts'
import { chatOrderRules, conversationEnd, pictureTypes, systemFirst } from './openai.ts'
import type { Finding, Rule, Validator } from './rule.ts'
import { idForm, nameForm, objectInputs, uniqueIds, uniqueTools, wellFormedTexts } from './shared-rules.ts'
import { readChat, type WireRequest } from './wire-request.ts'

const { effort, limit, number, seed, streamOptions, text, toolChoice } = chatMembers

/** What each of those refuses that follow OpenAI. */
function commonRules(docs: string): readonly Rule[] {
  return [
    wellFormedTexts({
      source: 'https://github.com/JohnnyZ93/oai-compatible-copilot/issues/206',
      says: () => 'Failed to parse the request body as JSON: lone leading surrogate in hex escape',
    }),
    uniqueIds({ source: docs, says: ({ what }) => `Duplicate tool call id: ${what}` }),
    uniqueTools({ source: docs, says: ({ what }) => `Tool names must be unique: ${what}` }),
    objectInputs({ source: docs, says: ({ at }) => `${at}: arguments must be valid JSON` }),
    {
      id: 'schema-type',
      refuses: 'schemas of tools that are not of the type object',
      source: docs,
      find: untypedSchemas,
      says: ({ what }) =>
        `Invalid schema for function: schema must be a JSON Schema of 'type: "object"', got 'type: "${what}"'.`,
    },
  ]
}

const pictureRules = (docs: string, types: readonly string[], says: Rule['says']): readonly Rule[] => [
  {
    id: 'picture-format',
    refuses: `pictures other than ${types.join(', ')}`,
    source: docs,
    find: otherPictures(types),
    says,
  },
  {
    id: 'picture-data',
    refuses: 'pictures that cannot be decoded',
    source: docs,
    find: brokenPictures,
    says,
  },
  {
    id: 'picture-type',
    refuses: 'a declared type that is not that of the bytes',
    source: docs,
    find: misnamedPictures,
    says,
  },
]

const members = (source: string, schema: Parameters<typeof chatSchema>[0], says: Rule['says']): Rule => ({
  id: 'members',
  refuses: 'members that the reference does not name',
  source,
  find: unknownMembers(chatSchema(schema)),
  says,
})

/** A user may not speak right after a result. */
function userAfterTool({ turns }: WireRequest): readonly Finding[] {
  return turns.flatMap(({ at, role }, index) =>
    role === 'user' && turns[index - 1]?.role === 'tool' ? [{ at, what: role }] : [],
  )
}

const mistralDocs = 'https://docs.mistral.ai/api'

export const mistral: Validator = {
  name: 'Mistral',
  read: readChat,
  rules: [
    ...commonRules(mistralDocs),
    ...chatOrderRules,
    conversationEnd,
    systemFirst,
    idForm(/^[a-zA-Z0-9]{9}$/, {
      source: 'mistral-common, protocol/instruct/validator.py',
      says: ({ what }) => `Tool call id was ${what} but must be a-z, A-Z, 0-9, with a length of 9.`,
    }),
    nameForm(/^[a-zA-Z0-9_-]{1,64}$/, {
      source: 'mistral-common, protocol/instruct/validator.py',
      says: ({ what }) =>
        `Function name was ${what} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64.`,
    }),
    {
      id: 'user-after-tool',
      refuses: 'a message of the user right after a result',
      source: 'mistral-common, protocol/instruct/validator.py',
      find: userAfterTool,
      says: () => "Unexpected role 'user' after role 'tool'",
    },
    {
      id: 'picture-count',
      refuses: 'more than eight pictures',
      source: 'https://docs.mistral.ai/capabilities/vision',
      find: tooManyPictures(8),
      says: ({ what }) => `Too many images in request: ${what} > 8`,
    },
    ...pictureRules(
      'https://docs.mistral.ai/capabilities/vision',
      pictureTypes,
      () => 'Image could not be loaded',
    ),
    members(
      mistralDocs,
      { members: { max_tokens: limit, random_seed: seed, tool_choice: toolChoice, top_p: number } },
      ({ at }) => `body.${at}: Extra inputs are not permitted`,
    ),
  ],
}

/** Answers with calls that lack reasoning. */
const missingReasoning =
  (isEnough: (reasoning: unknown) => boolean): Rule['find'] =>
  ({ turns }) =>
    turns
      .filter(
        ({ blocks, node }) => blocks.some(({ kind }) => kind === 'call') && !isEnough(node.reasoning_content),
      )
      .map(({ at }) => ({ at, what: at.replace(/\D/g, '') }))

const deepseekDocs = 'https://api-docs.deepseek.com'

export const deepseek: Validator = {
  name: 'DeepSeek',
  read: readChat,
  rules: [
    ...commonRules(`${deepseekDocs}/api/create-chat-completion`),
    ...chatOrderRules,
    nameForm(/^[a-zA-Z0-9_-]{1,64}$/, {
      source: `${deepseekDocs}/api/create-chat-completion`,
      says: ({ at }) =>
        `Invalid '${at}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
    }),
    {
      id: 'reasoning',
      refuses: 'calls without reasoning_content, which may be empty',
      source: `${deepseekDocs}/guides/thinking_mode`,
      find: missingReasoning((reasoning) => typeof reasoning === 'string'),
      says: () => 'The `reasoning_content` in the thinking mode must be passed back to the API.',
    },
    members(
      `${deepseekDocs}/api/create-chat-completion`,
      {
        members: {
          ...{ max_tokens: limit, reasoning_effort: effort, stream_options: streamOptions },
          ...{ tool_choice: toolChoice, top_p: number },
        },
        answer: { reasoning_content: text },
        isTextOnly: true,
      },
      ({ at }) => `Failed to deserialize the JSON body into the target type: ${at}: unknown field`,
    ),
  ],
}

const kimiDocs = 'https://platform.moonshot.ai/docs/api/chat'

export const kimi: Validator = {
  name: 'Kimi',
  read: readChat,
  rules: [
    ...commonRules(kimiDocs),
    ...chatOrderRules.filter(({ id }) => id !== 'empty-answer'),
    {
      id: 'empty-message',
      refuses: 'messages without a content',
      source: 'https://github.com/lobehub/lobehub/pull/8419',
      find: emptyTurns,
      says: ({ at, what }) =>
        `Invalid request: the message at position ${at.replace(/\D/g, '')} with role '${what}' must not be empty`,
    },
    nameForm(/^[a-zA-Z][a-zA-Z0-9_-]{0,63}$/, {
      source: 'https://github.com/MoonshotAI/kimi-cli/issues/1773',
      says: () =>
        'function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes',
    }),
    {
      id: 'reasoning',
      refuses: 'calls without reasoning_content, which may be blank but not empty',
      source: 'https://github.com/theopenco/llmgateway/pull/2093',
      find: missingReasoning((reasoning) => typeof reasoning === 'string' && reasoning !== ''),
      says: ({ what }) =>
        `thinking is enabled but reasoning_content is missing in assistant tool call message at index ${what}`,
    },
    {
      id: 'schema-forms',
      refuses: 'a type beside anyOf in a schema',
      source: 'https://github.com/nicobailon/pi-subagents/issues/126',
      find: typesBesideForms,
      says: ({ at }) =>
        `tools.function.parameters is not a valid moonshot flavored json schema, details: <At path '${at}': when using anyOf, type should be defined in anyOf items instead of the parent schema>`,
    },
    {
      id: 'schema-references',
      refuses: 'references that lead nowhere',
      source: 'https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md',
      find: deadReferences,
      says: ({ at, what }) =>
        `tools.function.parameters is not a valid moonshot flavored json schema, details: <At path '${at}': references must start with #/$defs/: ${what}>`,
    },
    {
      id: 'picture-links',
      refuses: 'pictures by their address',
      source: 'https://platform.moonshot.ai/docs/guide/use-kimi-vision-model',
      find: linkedPictures,
      says: () => 'unsupported image url: only base64 data is supported',
    },
    ...pictureRules(
      'https://platform.moonshot.ai/docs/guide/use-kimi-vision-model',
      pictureTypes,
      () => 'Invalid request: unsupported image format',
    ),
    members(
      kimiDocs,
      {
        members: { max_tokens: limit, stream_options: streamOptions, tool_choice: toolChoice, top_p: number },
        answer: { reasoning_content: text },
      },
      ({ at }) => `Invalid request: unknown field ${at}`,
    ),
  ],
}

const xaiDocs = 'https://docs.x.ai/docs/api-reference'

export const xai: Validator = {
  name: 'xAI',
  read: readChat,
  rules: [
    ...commonRules(xaiDocs),
    ...chatOrderRules.filter(({ id }) => id !== 'empty-answer'),
    nameForm(/^[a-zA-Z0-9_-]{1,64}$/, {
      source: xaiDocs,
      says: ({ what }) => `Invalid function name ${what}`,
    }),
    {
      id: 'contents',
      refuses: 'messages without any content, also null beside calls',
      source: 'https://github.com/langchain-ai/langchain/issues/34140',
      find: ({ turns }) =>
        turns
          .filter(({ node: { content, tool_calls } }) =>
            tool_calls === undefined ? isEmpty(content) : content == null,
          )
          .map(({ at, role }) => ({ at, what: role })),
      says: () => 'Invalid request content: Each message must have at least one content element.',
    },
    ...pictureRules(
      'https://github.com/cline/cline/pull/5278',
      ['image/png', 'image/jpeg'],
      () => 'Invalid request content: Downloaded response does not contain a valid JPG or PNG image.',
    ),
    members(
      xaiDocs,
      {
        members: {
          ...{ max_tokens: limit, max_completion_tokens: limit, reasoning_effort: effort, seed },
          ...{ stream_options: streamOptions, tool_choice: toolChoice, top_p: number },
        },
        answer: { reasoning_content: text },
      },
      ({ at }) => `Argument not supported: ${at}`,
    ),
  ],
}

const isEmpty = (content: unknown) =>
  content == null || content === '' || (Array.isArray(content) && content.length === 0)
