import { asRecord } from '@slipway/shared/json'
import { anthropicSchema, unknownMembers } from './find-members.ts'
import { movedReasoning, unanswered, unsigned, wrongEnd, wrongStart } from './find-order.ts'
import {
  brokenPictures,
  heavyPictures,
  largeEdges,
  misnamedPictures,
  otherPictures,
  tooManyPictures,
} from './find-pictures.ts'
import { badKeys, topCombinators, untypedSchemas } from './find-schema.ts'
import { blankTexts, tooManyMarks } from './find-text.ts'
import { pictureTypes } from './openai.ts'
import type { Finding, Rule, Validator } from './rule.ts'
import { idForm, nameForm, objectInputs, uniqueIds, uniqueTools, wellFormedTexts } from './shared-rules.ts'
import { readAnthropic, type WireRequest } from './wire-request.ts'

const docs = 'https://docs.claude.com/en'

/** Claude with a budget: parameters that do not go with it. */
function thinkingParameters({ body }: WireRequest): readonly Finding[] {
  const { thinking, max_tokens, temperature, top_p, top_k } = body
  const { type, budget_tokens } = asRecord(thinking)
  if (type !== 'enabled') return []
  return [
    ...(typeof temperature === 'number' && temperature !== 1 ? [{ at: 'temperature', what: 'not 1' }] : []),
    ...(typeof top_p === 'number' && top_p < 0.95 ? [{ at: 'top_p', what: 'below 0.95' }] : []),
    ...(top_k === undefined ? [] : [{ at: 'top_k', what: 'with thinking' }]),
    ...(Number(budget_tokens) < Number(max_tokens) ? [] : [{ at: 'max_tokens', what: 'below the budget' }]),
  ]
}

/** With a budget, the last answer with calls begins with its thoughts. */
export function unthoughtCalls({ body, turns }: WireRequest): readonly Finding[] {
  const thinking = asRecord(body.thinking ?? asRecord(body.additionalModelRequestFields).thinking)
  if (thinking.type !== 'enabled') return []
  const last = turns.findLastIndex(({ role }) => role === 'assistant')
  const answer = turns[last]
  const isOpen = turns.slice(last + 1).every(({ blocks }) => !blocks.some(isOfUser))
  if (answer === undefined || !isOpen || !answer.blocks.some(({ kind }) => kind === 'call')) return []
  return answer.blocks[0]?.kind === 'reasoning' ? [] : [{ at: `${answer.at}.content.0`, what: 'no thinking' }]
}

const isOfUser = (block: WireRequest['turns'][number]['blocks'][number]) =>
  (block.kind === 'text' || block.kind === 'picture') && block.isInResult !== true

/** What Claude refuses in each interface. */
export const claudeRules: readonly Rule[] = [
  nameForm(/^[a-zA-Z0-9_-]{1,64}$/, {
    source: `${docs}/agents-and-tools/tool-use/implement-tool-use`,
    says: ({ at }) => `${at}: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'`,
  }),
  {
    id: 'signatures',
    refuses: 'thoughts whose signature is not Claude’s, or is that of another text',
    source: `${docs}/build-with-claude/extended-thinking`,
    find: unsigned('claude'),
    says: ({ at }) => `${at}: Invalid \`signature\` in \`thinking\` block`,
  },
  {
    id: 'order',
    refuses: 'thoughts, texts and calls in another order than the received one',
    source: `${docs}/build-with-claude/extended-thinking#preserving-thinking-blocks`,
    find: movedReasoning,
    says: ({ at }) =>
      `${at}: \`thinking\` or \`redacted_thinking\` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.`,
  },
  {
    id: 'thinking-first',
    refuses: 'calls without thoughts before them, while thinking has a budget',
    source: `${docs}/build-with-claude/extended-thinking#extended-thinking-with-tool-use`,
    find: unthoughtCalls,
    says: ({ at }) =>
      `${at}.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`tool_use\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block`,
  },
  {
    id: 'blank-text',
    refuses: 'blank texts',
    source: 'https://github.com/anthropics/claude-code/issues/23440',
    find: blankTexts,
    says: () => 'messages: text content blocks must contain non-whitespace text',
  },
  {
    id: 'schema-keys',
    refuses: 'properties of a tool with other names than ^[a-zA-Z0-9_.-]{1,64}$',
    source: 'https://github.com/anthropics/claude-code/issues/79418',
    find: badKeys(/^[a-zA-Z0-9_.-]{1,64}$/),
    says: ({ at }) =>
      `${at}: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`.replace(
        'parameters',
        'custom.input_schema',
      ),
  },
  {
    id: 'schema-top',
    refuses: 'oneOf, allOf and anyOf at the top of a schema of a tool',
    source: 'https://github.com/anthropics/claude-code/issues/5973',
    find: topCombinators(['oneOf', 'allOf', 'anyOf']),
    says: ({ at }) => `${at}: input_schema does not support oneOf, allOf, or anyOf at the top level`,
  },
  {
    id: 'last-role',
    refuses: 'an answer at the end',
    source: 'https://github.com/agenticloops-ai/agentic-ai-engineering/issues/43',
    find: wrongEnd,
    says: () =>
      'This model does not support assistant message prefill. The conversation must end with a user message.',
  },
  {
    id: 'marks',
    refuses: 'more than four marks for the cache',
    source: `${docs}/build-with-claude/prompt-caching`,
    find: tooManyMarks(4),
    says: ({ what }) => `A maximum of 4 blocks with cache_control may be provided. Found ${what}.`,
  },
]

export const anthropicMessages: Validator = {
  name: 'Anthropic',
  read: readAnthropic,
  rules: [
    wellFormedTexts({
      source: 'https://github.com/anthropics/claude-code/issues/3277',
      says: () => 'The request body is not valid JSON: no low surrogate in string: line 1 column 1 (char 0)',
    }),
    ...claudeRules,
    idForm(/^[a-zA-Z0-9_-]+$/, {
      source: 'https://docs.claude.com/en/api/messages',
      says: ({ at }) => `${at}: String should match pattern '^[a-zA-Z0-9_-]+$'`,
    }),
    uniqueIds({
      source: 'https://github.com/BerriAI/litellm/issues/23510',
      says: ({ at }) => `${at}: \`tool_use\` ids must be unique`,
    }),
    uniqueTools({
      source: 'https://github.com/tailcallhq/forgecode/issues/892',
      says: () => 'tools: Tool names must be unique.',
    }),
    objectInputs({
      source: `${docs}/api/messages`,
      says: ({ at }) => `${at}.input: Input should be a valid dictionary`,
    }),
    {
      id: 'answered-calls',
      refuses: 'calls whose results do not begin the next message',
      source: 'https://github.com/anthropics/claude-code/issues/12526',
      find: unanswered(true),
      says: ({ at, what }) =>
        `${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${what}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
    },
    {
      id: 'first-role',
      refuses: 'a beginning without a message of the user',
      source: `${docs}/api/messages`,
      find: wrongStart,
      says: () => 'messages: first message must use the "user" role',
    },
    {
      id: 'thinking-parameters',
      refuses: 'parameters that do not go with a budget for thinking',
      source: `${docs}/build-with-claude/extended-thinking#feature-compatibility`,
      find: thinkingParameters,
      says: ({ at }) => `\`${at}\` may only be set to 1 when thinking is enabled.`,
    },
    {
      id: 'schema-type',
      refuses: 'schemas of tools that are not of the type object',
      source: `${docs}/agents-and-tools/tool-use/implement-tool-use`,
      find: untypedSchemas,
      says: ({ at }) => `${at}: Input should be 'object'`.replace('parameters', 'custom.input_schema'),
    },
    {
      id: 'picture-format',
      refuses: 'pictures other than PNG, JPEG, GIF and WebP',
      source: 'https://github.com/anthropics/claude-code/issues/8184',
      find: otherPictures(pictureTypes),
      says: ({ at }) =>
        `${at}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`,
    },
    {
      id: 'picture-data',
      refuses: 'pictures that cannot be decoded',
      source: 'https://github.com/anthropics/claude-code/issues/8647',
      find: brokenPictures,
      says: () => 'Could not process image',
    },
    {
      id: 'picture-type',
      refuses: 'a declared type that is not that of the bytes',
      source: 'https://github.com/vybestack/llxprt-code/issues/2130',
      find: misnamedPictures,
      says: ({ at, what }) =>
        `${at}.image.source.base64: The image was specified using the wrong media type: ${what}`,
    },
    {
      id: 'picture-edges',
      refuses: 'edges above 8,000 pixels, and above 2,000 when there are more than 20 pictures',
      source: `${docs}/build-with-claude/vision#evaluate-image-size`,
      find: largeEdges(8000, 2000),
      says: ({ at }) =>
        `${at}.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels`,
    },
    {
      id: 'picture-bytes',
      refuses: 'pictures of more than 5 MB in base64',
      source: `${docs}/build-with-claude/vision#faq`,
      find: heavyPictures(5 * 1024 * 1024),
      says: ({ at }) => `${at}.image.source.base64: image exceeds 5 MB maximum`,
    },
    {
      id: 'picture-count',
      refuses: 'more than 100 pictures',
      source: `${docs}/build-with-claude/vision`,
      find: tooManyPictures(100),
      says: ({ what }) => `messages: too many images and documents: ${what} > 100`,
    },
    {
      id: 'members',
      refuses: 'members that the reference does not name',
      source: `${docs}/api/messages`,
      find: unknownMembers(anthropicSchema),
      says: ({ at }) => `${at}: Extra inputs are not permitted`,
    },
  ],
}
