import * as z from 'zod'
import type { KeyScope } from '../../core/route.ts'

const conversation_id = z.string().max(64).describe('Id of a conversation.')
const cursor = z.string().max(2_000).optional().describe('The next_cursor of the answer before.')
const limit = (most: number, usual: number) => z.int().min(1).max(most).default(usual)
const moment = z.string().max(64).optional()
const status = z
  .string()
  .max(64)
  .optional()
  .describe(
    'Only conversations of this status: idle, running, paused, waiting_for_confirmation, finished, error, stuck.',
  )
const tags = z
  .array(z.string().max(300))
  .max(20)
  .optional()
  .describe('Only conversations with all of these tags: name, or name:value.')

/** A tool of the MCP server: the scope that it needs, and what it takes. */
interface McpServerTool {
  readonly scope: KeyScope
  readonly title: string
  readonly description: string
  readonly input: z.ZodObject
}

/** The tools of the MCP server, by name. */
export const mcpServerTools = {
  list_conversations: {
    scope: 'read',
    title: 'List conversations',
    description: 'The last changed first, with title, status, tags and times.',
    input: z.object({ status, tags, limit: limit(50, 20), cursor }),
  },
  search: {
    scope: 'read',
    title: 'Search all conversations',
    description:
      'Finds messages that contain a text, or with `where: "outputs"` commands and results of tools by text, failure, tool and time. Each hit has the conversation, its position in the log and a snippet: read around it with read_events. Work and time are bounded: continue with next_cursor until it is null, also after an answer without hits.',
    input: z.object({
      text: z.string().min(1).max(1_000).optional().describe('Found in any case.'),
      where: z.enum(['messages', 'outputs']).default('messages'),
      failed: z.boolean().default(false).describe('Of outputs: only failed commands and errors.'),
      tool: z.string().max(200).optional().describe('Of outputs: only of this tool, such as terminal.'),
      since: moment.describe('Date-time: not before it.'),
      until: moment.describe('Date-time: before it.'),
      status,
      tags,
      conversation_id: conversation_id.optional().describe('Only in this conversation.'),
      limit: limit(50, 20).describe(
        'Most hits; of messages, most conversations with at most three hits each.',
      ),
      cursor,
    }),
  },
  read_events: {
    scope: 'read',
    title: 'Read a part of a log',
    description:
      'Events by position (1, 2, 3, ...), in order. Long texts are cut and say so; `head` is the last position. Continue at next_first.',
    input: z.object({
      conversation_id,
      first: z.int().min(1).max(4_294_967_295).default(1).describe('Position of the first event.'),
      limit: limit(100, 20),
    }),
  },
  summarize_usage: {
    scope: 'read',
    title: 'Summarize usage',
    description:
      'Cost and tokens of one conversation, or of those that changed since a moment: at most 500, the last changed first.',
    input: z.object({
      conversation_id: conversation_id.optional(),
      since: moment.describe('Date-time: only conversations that changed at or after it.'),
    }),
  },
  list_questions: {
    scope: 'read',
    title: 'List what waits for a person',
    description:
      'Conversations that wait for an answer, with the actions that need it and the digest that answer_question takes.',
    input: z.object({ limit: limit(20, 10), cursor }),
  },
  wait: {
    scope: 'read',
    title: 'Wait for a conversation',
    description:
      'Answers when it no longer runs, or after timeout_seconds: its status, head and last answer. While it runs, wait again.',
    input: z.object({
      conversation_id,
      timeout_seconds: z.int().min(0).max(50).default(25),
    }),
  },
  start_conversation: {
    scope: 'act',
    title: 'Start a conversation',
    description:
      'A new conversation with the model, tools and confirmations that the settings of the server say, and its first message, which runs. Needs a key that is not bound.',
    input: z.object({
      text: z.string().min(1).max(100_000).describe('The first message.'),
      title: z.string().min(1).max(200).optional(),
      working_dir: z
        .string()
        .max(4_096)
        .optional()
        .describe('Absolute path on the machine of the server; a new directory unless given.'),
      profile: z.string().max(200).optional().describe('Name of a saved model; the active one unless given.'),
      tags: z.record(z.string(), z.string().max(256)).optional(),
    }),
  },
  send_message: {
    scope: 'act',
    title: 'Send a message',
    description:
      'Stores a message of the user, and runs the conversation. A repeat with the same key is stored once.',
    input: z.object({
      conversation_id,
      text: z.string().min(1).max(100_000),
      run: z.boolean().default(true),
      idempotency_key: z.string().min(1).max(255).optional(),
    }),
  },
  stop_conversation: {
    scope: 'act',
    title: 'Stop a conversation',
    description:
      'Ends its run at the next point where nothing is lost; with `interrupt`, calls of models and tools are cancelled.',
    input: z.object({ conversation_id, interrupt: z.boolean().default(false) }),
  },
  answer_question: {
    scope: 'answer',
    title: 'Answer a question',
    description:
      'Approves or rejects all actions that wait in a conversation. The digest says which were seen: when others wait, nothing is answered.',
    input: z.object({
      conversation_id,
      accept: z.boolean(),
      reason: z.string().max(2_000).optional().describe('Of a rejection; the model reads it.'),
      actions_digest: z.string().max(100).describe('As list_questions shows it.'),
    }),
  },
} as const satisfies Readonly<Record<string, McpServerTool>>

export type McpServerToolName = keyof typeof mcpServerTools
export type McpServerToolInput<N extends McpServerToolName> = z.output<(typeof mcpServerTools)[N]['input']>
