import * as z from 'zod'
import { content } from '../core/message.ts'
import { jsonObject } from '../core/schemas.ts'

/** An action: closed, and told from the others by `kind` (spec 2.5). */
export function defineAction<K extends string, S extends z.core.$ZodLooseShape>(kind: K, members: S) {
  return z.strictObject({ ...members, kind: z.literal(kind) }).register(z.globalRegistry, { id: kind })
}

/** An observation: closed; `content` is what the model reads, `is_error` says that the tool failed. */
export function defineObservation<K extends string, S extends z.core.$ZodLooseShape>(kind: K, members: S) {
  return z
    .strictObject({
      content: content.default([]),
      is_error: z.boolean().default(false),
      ...members,
      kind: z.literal(kind),
    })
    .register(z.globalRegistry, { id: kind })
}

const toolAnnotations = z
  .object({
    title: z.string().nullish(),
    readOnlyHint: z.boolean().default(false),
    destructiveHint: z.boolean().default(true),
    idempotentHint: z.boolean().default(false),
    openWorldHint: z.boolean().default(true),
  })
  .meta({ id: 'ToolAnnotations' })

/** A tool as a SystemPromptEvent lists it. Not closed: members of other writers are ignored. */
export function defineToolSchema<K extends string, S extends z.core.$ZodLooseShape>(kind: K, members: S) {
  return z
    .object({
      description: z.string().optional(),
      action_type: z.string().optional(),
      observation_type: z.string().nullish(),
      annotations: toolAnnotations.nullish(),
      meta: jsonObject.nullish(),
      ...members,
      kind: z.literal(kind),
      title: z.string().nullish(),
    })
    .register(z.globalRegistry, { id: kind })
}

/** A tool of ours, ready to be listed. */
export interface BuiltInTool<K extends string = string> {
  readonly description: string
  readonly action_type: string
  readonly observation_type: string
  readonly annotations: {
    readonly title?: string
    readonly readOnlyHint: boolean
    readonly destructiveHint: boolean
    readonly idempotentHint: boolean
    readonly openWorldHint: boolean
  }
  readonly kind: K
  readonly title: string
}

/** Annotations of a tool; `untitled`: without a title. */
export interface ToolTraits {
  readonly readOnly?: true
  readonly destructive?: true
  readonly idempotent?: true
  readonly openWorld?: true
  readonly untitled?: true
}

export function defineBuiltInTool<K extends string>(
  kind: K,
  types: { readonly action_type: string; readonly observation_type: string },
  { readOnly, destructive, idempotent, openWorld, untitled }: ToolTraits,
  description: string,
): BuiltInTool<K> {
  const title = toolName(kind)
  return {
    description,
    ...types,
    annotations: {
      ...(untitled ? {} : { title }),
      readOnlyHint: readOnly ?? false,
      destructiveHint: destructive ?? false,
      idempotentHint: idempotent ?? false,
      openWorldHint: openWorld ?? false,
    },
    kind,
    title,
  }
}

/** A built-in tool by its name: `Grep` has the kinds `GrepAction`, `GrepObservation` and `GrepTool`. */
export function defineTool<
  N extends string,
  A extends z.core.$ZodLooseShape,
  O extends z.core.$ZodLooseShape,
>(
  name: N,
  tool: {
    readonly description: string
    readonly traits: ToolTraits
    readonly action: A
    readonly observation: O
  },
) {
  const action_type = `${name}Action` as const
  const observation_type = `${name}Observation` as const
  const kind = `${name}Tool` as const
  return {
    action: defineAction(action_type, tool.action),
    observation: defineObservation(observation_type, tool.observation),
    definition: defineToolSchema(kind, {}),
    listing: defineBuiltInTool(kind, { action_type, observation_type }, tool.traits, tool.description),
  }
}

/**
 * The registry name of a tool kind: snake case without a final `Tool` (`FileEditorTool` is `file_editor`,
 * `BrowserToolSet` is `browser_tool_set`). An MCP tool is named by its server.
 */
export function toolName(kind: string): string {
  return kind
    .replace(/Tool$/, '')
    .replace(/([A-Z]+)([A-Z][a-z])|([a-z0-9])([A-Z])/g, '$1$3_$2$4')
    .toLowerCase()
}
