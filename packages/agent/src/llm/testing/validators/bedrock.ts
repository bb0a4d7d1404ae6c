import { claudeRules } from './anthropic.ts'
import { bedrockSchema, unknownMembers } from './find-members.ts'
import { sameSides, unanswered, wrongStart } from './find-order.ts'
import {
  brokenPictures,
  heavyPictures,
  largeEdges,
  linkedPictures,
  misnamedPictures,
  tooManyPictures,
} from './find-pictures.ts'
import { untypedSchemas } from './find-schema.ts'
import { blankDescriptions } from './find-text.ts'
import type { Finding, Validator } from './rule.ts'
import { idForm, uniqueIds, uniqueTools, wellFormedTexts } from './shared-rules.ts'
import { readBedrock, type WireRequest } from './wire-request.ts'

const docs = 'https://docs.aws.amazon.com/bedrock/latest/APIReference'

/** Calls and results need the tools. */
function withoutTools({ turns, tools }: WireRequest): readonly Finding[] {
  if (tools.length > 0) return []
  return turns.flatMap(({ blocks }) =>
    blocks
      .filter(({ kind }) => kind === 'call' || kind === 'result')
      .map(({ at }) => ({ at, what: 'a call without tools' })),
  )
}

/** Claude behind Converse. */
export const bedrock: Validator = {
  name: 'Bedrock',
  read: readBedrock,
  rules: [
    wellFormedTexts({
      source: 'https://github.com/anthropics/claude-code/issues/3277',
      says: () => 'The request body is not valid JSON: no low surrogate in string',
    }),
    ...claudeRules,
    idForm(/^[a-zA-Z0-9_-]{1,64}$/, {
      source: `${docs}/API_runtime_ToolUseBlock.html`,
      says: ({ at, what }) =>
        `1 validation error detected: Value '${what}' at '${at}' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+`,
    }),
    uniqueIds({
      source: 'https://github.com/BerriAI/litellm/issues/23510',
      says: ({ at }) => `The model returned the following errors: ${at}: \`tool_use\` ids must be unique`,
    }),
    uniqueTools({
      source: 'https://github.com/tailcallhq/forgecode/issues/892',
      says: ({ what }) => `The tool ${what} is already defined at toolConfig.tools.`,
    }),
    {
      id: 'answered-calls',
      refuses: 'calls whose results do not begin the next message',
      source: 'https://github.com/anthropics/claude-code/issues/12526',
      find: unanswered(true),
      says: ({ at, what }) => `Expected toolResult blocks at ${at} for the following Ids: ${what}`,
    },
    {
      id: 'first-role',
      refuses: 'a beginning without a message of the user',
      source: `${docs}/API_runtime_Converse.html`,
      find: wrongStart,
      says: () =>
        'A conversation must start with a user message. Try again with a conversation that starts with a user message.',
    },
    {
      id: 'alternation',
      refuses: 'two neighbours of one role',
      source: 'https://github.com/ankit373/hydra/issues/964',
      find: sameSides,
      says: () =>
        'A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.',
    },
    {
      id: 'tools',
      refuses: 'calls and results in a request without tools',
      source: 'https://github.com/patriceckhart/zot/pull/18',
      find: withoutTools,
      says: () => 'The toolConfig field must be defined when using toolUse and toolResult content blocks.',
    },
    {
      id: 'description',
      refuses: 'empty descriptions of tools',
      source: 'https://github.com/vercel/ai/pull/10260',
      find: blankDescriptions,
      says: ({ at }) =>
        `1 validation error detected: Value '' at '${at}' failed to satisfy constraint: Member must have length greater than or equal to 1`,
    },
    {
      id: 'schema-type',
      refuses: 'schemas of tools that are not of the type object',
      source: `${docs}/API_runtime_ToolInputSchema.html`,
      find: untypedSchemas,
      says: ({ at }) => `The value at ${at}.inputSchema.json.type must be one of the following: object.`,
    },
    {
      id: 'picture-data',
      refuses: 'pictures that cannot be decoded',
      source: 'https://github.com/anthropics/claude-code/issues/8647',
      find: brokenPictures,
      says: () => 'The model returned the following errors: Could not process image',
    },
    {
      id: 'picture-type',
      refuses: 'a declared format that is not that of the bytes',
      source: `${docs}/API_runtime_ImageBlock.html`,
      find: misnamedPictures,
      says: ({ at }) => `The image format at ${at} does not match its data`,
    },
    {
      id: 'picture-edges',
      refuses: 'edges above 8,000 pixels',
      source: `${docs}/API_runtime_ImageBlock.html`,
      find: largeEdges(8000),
      says: ({ at }) => `The image at ${at} exceeds the maximum of 8000 pixels`,
    },
    {
      id: 'picture-bytes',
      refuses: 'pictures of more than 5 MB in base64',
      source: `${docs}/API_runtime_ImageBlock.html`,
      find: heavyPictures(5 * 1024 * 1024),
      says: ({ at }) => `The image at ${at} exceeds the maximum size`,
    },
    {
      id: 'picture-count',
      refuses: 'more than 20 pictures',
      source: `${docs}/API_runtime_Message.html`,
      find: tooManyPictures(20),
      says: ({ what }) => `too many images: ${what} > 20`,
    },
    {
      id: 'picture-links',
      refuses: 'pictures by their address',
      source: `${docs}/API_runtime_ImageSource.html`,
      find: linkedPictures,
      says: ({ at }) => `The image source at ${at} is invalid`,
    },
    {
      id: 'members',
      refuses: 'members that the reference does not name',
      source: `${docs}/API_runtime_ConverseStream.html`,
      find: unknownMembers(bedrockSchema),
      says: ({ at }) =>
        `Malformed input request: #/${at.replaceAll('.', '/')}: extraneous key is not permitted, please reformat your input and try again.`,
    },
  ],
}
