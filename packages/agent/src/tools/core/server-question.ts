/** A field of a form that an MCP server asks for. */
export interface QuestionField {
  readonly type: 'string' | 'number' | 'integer' | 'boolean' | 'array'
  readonly title?: string | undefined
  readonly description?: string | undefined
  /** The values that it may have. */
  readonly choices?: readonly string[] | undefined
  readonly default?: unknown
  readonly isRequired: boolean
}

/** What an MCP server asks the user in the middle of a call. */
export interface ServerQuestion {
  readonly server: string
  readonly message: string
  /** By name; of a form. */
  readonly fields?: Readonly<Record<string, QuestionField>> | undefined
  /** A page that the user is to open; nothing else opens it. */
  readonly address?: string | undefined
}

/** A refusal has no values; `cancel`: there was no answer. */
export type QuestionAnswer =
  | { readonly action: 'accept'; readonly content?: Record<string, QuestionValue> }
  | { readonly action: 'decline' | 'cancel' }

export type QuestionValue = string | number | boolean | string[]

/** Asks the user; never rejects. */
export type AskUser = (question: ServerQuestion, signal: AbortSignal) => Promise<QuestionAnswer>

/** The name of the tool of the action as which a question waits. The model does not see it. */
export const questionTool = 'mcp_question'
